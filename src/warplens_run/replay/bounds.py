"""Views stay within the memory that was allocated, whatever sizes and strides a plan gives.

PyTorch checks most of them itself, but not on every path and in every version; reading beyond a storage would end the
process or measure someone else's data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from warplens_run.replay.faults import UnitRefused
from warplens_run.replay.op_rules import STRIDED


def is_strided(op: Any) -> bool:
    return op._schema.name.partition("::")[2] in STRIDED


def makes_views(op: Any) -> bool:
    """Whether what it returns is, by its schema, memory that it was given and does not only write."""
    marks = (result.alias_info for result in op._schema.returns)
    return is_strided(op) or any(mark is not None and not mark.is_write for mark in marks)


def check_strided(op: Any, args: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Refuses a view by sizes and strides that does not fit, before the op sees it."""
    names = [parameter.name for parameter in op._schema.arguments]
    given = dict(zip(names, args, strict=False)) | dict(named)
    base = given.get(names[0])
    size: Any = given.get("size")
    stride: Any = given.get("stride")
    offset: Any = given.get("storage_offset")
    if not isinstance(base, torch.Tensor) or not _are_sides(size) or not _are_sides(stride):
        raise UnitRefused(f"{op.name()} is not replayed: its sizes and strides are not lists of numbers")
    start = base.storage_offset() if offset is None else offset
    if not _is_side(start) or len(size) != len(stride) or _end(size, stride, start) * base.itemsize > _bytes(base):
        raise UnitRefused(f"{op.name()} is not replayed: the view extends beyond its storage")


def check_results(op: Any, results: Any) -> None:
    """Refuses results that reach beyond their storage; they are tensors, or lists of them."""
    for tensor in _tensors(results):
        if _end(tensor.shape, tensor.stride(), tensor.storage_offset()) * tensor.itemsize > _bytes(tensor):
            raise UnitRefused(f"{op.name()} is not replayed: the view extends beyond its storage")


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        if value.layout == torch.strided and value.device.type != "meta":
            yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _are_sides(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_side, value))


def _is_side(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _end(size: Sequence[int], stride: Sequence[int], offset: int) -> int:
    """Elements from the storage's start to the view's last one; Python's numbers do not overflow."""
    if 0 in size:
        return 0
    return offset + 1 + sum((side - 1) * step for side, step in zip(size, stride, strict=True))


def _bytes(tensor: Any) -> int:
    return int(tensor.untyped_storage().nbytes())

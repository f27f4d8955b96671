"""A unit with other tensors: padded, of another dtype, in another memory layout, in pinned memory."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import ceil
from typing import Final

from warplens.planning.recorded import contiguous
from warplens.planning.schemas import parse_schema
from warplens_run.formats.replay_plan import DTYPES, Argument, TensorView, Unit, extent

PRODUCTS: Final = re.compile(r"aten::(?:addmm|mm|bmm|baddbmm|matmul|linear)(?:_|_backward)?$")
Change = Callable[[TensorView], TensorView]
SHARED: Final = "tensors of {} share memory, so that they cannot be changed one by one"
STATISTICS: Final = ("mean", "rstd", "save_mean", "save_invstd", "running_mean", "running_var", "logsumexp")
"""Arguments that stay in fp32 whatever the type of the tensors around them."""
CHANNELS_LAST: Final = {4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}
"""Dimensions from the outermost in memory to the innermost, by the number of them."""


class NoExperiment(Exception):  # noqa: N818 - no error: most findings have some units without one
    """Why a unit cannot be changed as asked for."""


def with_tensors(unit: Unit, name: str, change: Change) -> Unit:
    """The unit under another name, with each tensor changed and storages of the sizes that they then need."""
    views: dict[int, list[TensorView]] = {}

    def changed(argument: Argument) -> Argument:
        tensor = None
        if argument.tensor is not None:
            tensor = change(argument.tensor)
            views.setdefault(tensor.storage, []).append(tensor)
        return replace(argument, tensor=tensor, items=tuple(map(changed, argument.items)))

    arguments = tuple(map(changed, unit.arguments))
    storages = list(unit.storages)
    for index, tensors in views.items():
        storage = storages[index]
        if len(set(tensors)) > 1 and arguments != unit.arguments:
            raise NoExperiment(SHARED.format(unit.op))
        tensor = tensors[0]
        storages[index] = replace(storage, bytes=extent(tensor) * DTYPES[tensor.dtype], dtype=tensor.dtype)
    return replace(unit, id=f"{unit.id}.{name}", arguments=arguments, storages=tuple(storages))


def padded(unit: Unit, name: str, sizes: Mapping[int, int]) -> Unit:
    """The unit with each side of one of these sizes made as long as the size that it is mapped to."""

    def change(tensor: TensorView) -> TensorView:
        shape = tuple(sizes.get(side, side) for side in tensor.shape)
        return tensor if shape == tensor.shape else with_shape(tensor, shape)

    return with_tensors(unit, name, change)


def retyped(unit: Unit, name: str, dtypes: Mapping[str, str]) -> Unit:
    """The unit with tensors of other dtypes, but for statistics; so are results whose dtype is an argument."""
    schema = parse_schema(unit.schema)
    names = [parameter.name for parameter in schema.parameters] if schema is not None else []
    kept = {
        argument.tensor.storage
        for parameter, argument in zip(names, unit.arguments, strict=False)
        if parameter in STATISTICS and argument.tensor is not None
    }

    def change(tensor: TensorView) -> TensorView:
        is_kept = tensor.storage in kept
        return tensor if is_kept else replace(tensor, dtype=dtypes.get(tensor.dtype, tensor.dtype))

    changed = with_tensors(unit, name, change)
    arguments = tuple(
        replace(argument, value=dtypes.get(argument.value, argument.value)) if argument.kind == "dtype" else argument
        for argument in changed.arguments
    )
    return replace(changed, arguments=arguments)


def casts_of(unit: Unit, name: str, dtypes: Mapping[str, str]) -> list[Unit]:
    """The casts of what the unit reads to other dtypes; those of tensors alike have one id."""
    casts = []
    for tensor in tensors_of(unit):
        if tensor.dtype in dtypes:
            storage, tensor = unit.storages[tensor.storage], replace(tensor, storage=0)
            key = hashlib.sha256(repr(tensor).encode()).hexdigest()[:8]
            arguments = (Argument("tensor", tensor=tensor), Argument("dtype", dtypes[tensor.dtype]))
            casts.append(
                replace(
                    unit,
                    id=f"cast.{name}.{key}",
                    op="aten::_to_copy",
                    overload="",
                    schema="",
                    kernels=(),
                    arguments=arguments,
                    storages=(storage,),
                )
            )
    return casts


def with_channels_last(unit: Unit, name: str) -> Unit:
    """The unit with images whose channels lie next to each other."""

    def change(tensor: TensorView) -> TensorView:
        order = CHANNELS_LAST.get(len(tensor.shape))
        return tensor if order is None else replace(tensor, stride=contiguous(tensor.shape, order), offset=0)

    return with_tensors(unit, name, change)


def with_pinned_memory(unit: Unit, name: str) -> Unit:
    """A copy from or to the host that neither goes through pageable memory nor makes the host wait."""
    schema = parse_schema(unit.schema)
    names = [parameter.name for parameter in schema.parameters] if schema is not None else []
    if "non_blocking" not in names or all(storage.device == "cuda" for storage in unit.storages):
        raise NoExperiment(f"{unit.op} has no memory of the host to pin")
    position = names.index("non_blocking")
    arguments = tuple(
        Argument("bool", True) if index == position else argument for index, argument in enumerate(unit.arguments)
    )
    storages = tuple(replace(storage, pinned=storage.device == "cpu") for storage in unit.storages)
    return replace(unit, id=f"{unit.id}.{name}", arguments=arguments, storages=storages)


def with_shape(tensor: TensorView, shape: tuple[int, ...]) -> TensorView:
    """The tensor with other sides, its dimensions in memory in the same order.

    >>> with_shape(TensorView(0, (3, 5), (1, 3), "float32"), (4, 5)).stride
    (1, 4)
    """
    order = sorted(range(len(shape)), key=lambda dimension: (-tensor.stride[dimension], dimension))
    if tensor.stride != contiguous(tensor.shape, order):
        raise NoExperiment("a tensor with gaps or repeated elements cannot be padded")
    return replace(tensor, shape=shape, stride=contiguous(shape, order))


def rounded_up(size: int, multiple: int) -> int:
    """
    >>> rounded_up(50257, 64), rounded_up(64, 64)
    (50304, 64)
    """
    return ceil(size / multiple) * multiple


def tensors_of(unit: Unit) -> list[TensorView]:
    """The tensors of the unit's own arguments, without those in lists."""
    return [argument.tensor for argument in unit.arguments if argument.tensor is not None]

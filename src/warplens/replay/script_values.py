"""Inputs of a unit as Python text: memory with its contents, tensors in it, and plain values."""

from __future__ import annotations

import math
from typing import Final

from warplens_run.formats.replay_plan import DTYPES, Argument, Fill, Storage, TensorView, Unit

SHORT_NAMES: Final = ("dtype", "layout", "memory_format")
FLOATS: Final = ("normal", "rectified", "masked", "uniform")
"""Contents that PyTorch makes as float32 by itself."""


def storage_text(storage: Storage) -> str:
    """
    >>> storage_text(Storage(8, "float32"))
    'torch.randn(2, device=device)'
    >>> storage_text(Storage(4, "bool", Fill("constant", 1.0), device="cpu"))
    'torch.full((4,), 1, device="cpu").to(torch.bool)'
    """
    count = storage.bytes // DTYPES[storage.dtype]
    where = "device=device" if storage.device == "cuda" else 'device="cpu"'
    made = _filled(storage.fill, count, where, is_integer=not storage.dtype.startswith(("float", "bfloat", "complex")))
    is_made_so = storage.dtype == "float32" and storage.fill.kind in FLOATS
    typed = made if is_made_so else f"{made}.to(torch.{storage.dtype})"
    return f"{typed}.pin_memory()" if storage.pinned else typed


def _filled(fill: Fill, count: int, where: str, *, is_integer: bool) -> str:
    low, high, step = (_number(value, is_integer) for value in (fill.low, fill.high, fill.step))
    if fill.kind == "constant":
        return f"torch.full(({count},), {low}, {where})"
    if fill.kind == "ramp":
        return f"(torch.arange({count}, {where}) * {step} + {low}).clamp(max={high})"
    if fill.kind == "shares":
        total, pieces = int(fill.low), int(fill.step)
        return f"(({total + pieces - 1} - torch.arange({count}, {where}) % {pieces}) // {pieces})"
    if fill.kind == "digits":
        places = f"torch.arange({count}, {where})"
        triples = zip(fill.digits[::3], fill.digits[1::3], fill.digits[2::3], strict=True)
        return "(" + " + ".join(f"{places} // {stride} % {size} * {jump}" for stride, size, jump in triples) + ")"
    if fill.kind == "uniform" and not is_integer:
        return f"(torch.rand({count}, {where}) * {fill.high - fill.low!r} + {low})"
    if fill.kind == "permutation":
        return f"(torch.randperm({count}, {where}) % {int(fill.high - fill.low)} + {int(fill.low)})"
    if fill.kind in ("integers", "uniform"):
        return f"torch.randint({int(fill.low)}, {int(fill.high)}, ({count},), {where})"
    normal = f"torch.randn({count}, {where})"
    if fill.kind == "rectified":
        return f"{normal}.relu()"
    if fill.kind == "masked":
        return f"({normal} * (torch.rand({count}, {where}) < 0.5))"
    return f"{normal}.round().abs()" if is_integer else normal


def _number(value: float, is_integer: bool) -> str:
    return str(int(value)) if is_integer else repr(value)


def value_text(argument: Argument, unit: Unit) -> str:
    if argument.kind == "tensor" and argument.tensor is not None:
        return _tensor(argument.tensor, unit.storages[argument.tensor.storage])
    if argument.kind == "choice":
        return value_text(argument.items[0], unit)
    if argument.kind == "list":
        return f"[{', '.join(value_text(item, unit) for item in argument.items)}]"
    if argument.kind in ("none", "undefined"):
        return "None"
    if argument.kind == "device":
        return "device" if str(argument.value).startswith("cuda") else repr(argument.value)
    if argument.kind in SHORT_NAMES:
        return f"torch.{str(argument.value).removeprefix('torch.')}"
    if argument.kind == "complex":
        return f"complex({', '.join(map(_part, argument.value))})"
    if argument.kind == "float" and not math.isfinite(argument.value):
        return f'float("{argument.value}")'
    return repr(argument.value)


def _part(value: float | str) -> str:
    """Of a complex number; what JSON has no numbers for is written as text."""
    return f'float("{value}")' if isinstance(value, str) or not math.isfinite(value) else repr(value)


def _tensor(view: TensorView, storage: Storage) -> str:
    memory = f"memory_{view.storage}"
    typed = memory if view.dtype == storage.dtype else f"{memory}.view(torch.{view.dtype})"
    return f"{typed}.as_strided({view.shape}, {view.stride}, {view.offset})"

"""Op calls written by hand, for the tests of costs."""

from __future__ import annotations

import math
from typing import Any

from warplens.costs import Call, Cost, Tensor, cost_of

Argument = Tensor | tuple[Tensor, ...] | str | None


def tensor(dtype: str, *shape: int, strides: tuple[int, ...] = ()) -> Tensor:
    return Tensor(shape, dtype, strides)


def bf16(*shape: int) -> Tensor:
    return Tensor(shape, "bf16")


def fp32(*shape: int) -> Tensor:
    return Tensor(shape, "fp32")


def int64(*shape: int) -> Tensor:
    return Tensor(shape, "int64")


def cost(op: str, *args: Argument, chunks: int = 0, item_bytes: float = 0.0) -> Cost:
    """The cost of a call that must have one."""
    found = cost_of(Call(op, args, item_bytes), chunks)
    assert found is not None, f"{op} has no cost"
    return found


def figures(op: str, *args: Argument, **options: Any) -> tuple[float, float]:
    """FLOPs and bytes."""
    found = cost(op, *args, **options)
    return found.flop, found.bytes


def is_sound(found: Cost | None) -> bool:
    """None, or figures that can be computed with."""
    if found is None:
        return True
    numbers = [float(found.flop), float(found.bytes), found.intensity]
    return all(math.isfinite(number) and number >= 0 for number in numbers) and bool(found.family)

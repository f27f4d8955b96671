"""Linear maps over bits: every layout of a power-of-two tile is a set of basis vectors.

They say where the first, second, fourth … register, lane and warp of a tile lie. An element's coordinates are the
exclusive-or of the bases of the bits that are set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from warplens.errors import UsageError

Vector = tuple[int, ...]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Bases:
    """Basis vectors of the registers of a thread, the lanes of a warp and the warps of a block."""

    register: tuple[Vector, ...]
    lane: tuple[Vector, ...]
    warp: tuple[Vector, ...]

    def coordinates(self) -> Ints:
        """Coordinates of each element: registers × lanes × warps × dimensions."""
        registers, lanes, warps = (spread(part, self._rank()) for part in (self.register, self.lane, self.warp))
        return registers[:, None, None] ^ lanes[None, :, None] ^ warps[None, None]

    def extent(self) -> Vector:
        """The shape of the tile that the bases span."""
        reached = [1] * self._rank()
        for vector in (*self.register, *self.lane, *self.warp):
            for dim, step in enumerate(vector):
                reached[dim] = max(reached[dim], 1 << step.bit_length())
        return tuple(reached)

    def _rank(self) -> int:
        return next((len(vector) for part in (self.register, self.lane, self.warp) for vector in part), 1)


def fitted(bases: Bases, shape: Vector, order: Vector) -> Bases:
    """Repeats the tile over a larger tensor, in further registers, and folds it where the tensor is smaller."""
    parts = [tuple(_inside(vector, shape) for vector in part) for part in (bases.register, bases.lane, bases.warp)]
    reached = [1] * len(shape)
    for part in parts:
        for vector in part:
            for dim, step in enumerate(vector):
                reached[dim] = max(reached[dim], 2 * step)
    more: list[Vector] = []
    for dim in order:
        while reached[dim] < shape[dim]:
            more.append(unit(len(shape), dim, reached[dim]))
            reached[dim] *= 2
    registers = (*(vector for vector in parts[0] if any(vector)), *more)
    return replace(bases, register=registers, lane=parts[1], warp=parts[2])


def _inside(vector: Vector, shape: Vector) -> Vector:
    return tuple(step if step < extent else 0 for step, extent in zip(vector, shape, strict=True))


def spread(vectors: Sequence[Vector], rank: int) -> Ints:
    """Every exclusive-or of some vectors, in the order of the numbers whose bits choose them."""
    rows = np.zeros((1, rank), dtype=np.int64)
    for vector in vectors:
        rows = np.concatenate([rows, rows ^ np.array(vector, dtype=np.int64)])
    return rows


def unit(rank: int, dim: int, step: int) -> Vector:
    return tuple(step if at == dim else 0 for at in range(rank))


def log2(value: int) -> int:
    """
    >>> log2(32)
    5
    """
    if not is_power_of_two(value):
        raise UsageError(f"{value} is not a power of two")
    return value.bit_length() - 1


def is_power_of_two(value: int) -> bool:
    return value >= 1 and not value & (value - 1)

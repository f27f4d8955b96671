"""Linear maps over bits: every layout of a power-of-two tile is a set of basis vectors.

They say where the first, second, fourth … register, lane and warp of a tile lie. An element's coordinates are the
exclusive-or of the bases of the bits that are set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from warplens_run.base.errors import UsageError

Vector = tuple[int, ...]
Ints = NDArray[np.int64]
MOST_BITS: Final = 22
"""More than any tile that is shown has, with copies in other threads."""


@dataclass(frozen=True)
class Bases:
    """Basis vectors of a thread's registers, a warp's lanes, a block's warps and, in a cluster, of the blocks."""

    register: tuple[Vector, ...]
    lane: tuple[Vector, ...]
    warp: tuple[Vector, ...]
    block: tuple[Vector, ...] = ()

    @property
    def parts(self) -> tuple[tuple[Vector, ...], ...]:
        return self.register, self.lane, self.warp, self.block

    def coordinates(self) -> Ints:
        """Coordinates of each element: registers × lanes × warps × dimensions; further blocks are further warps."""
        parts = (self.register, self.lane, (*self.warp, *self.block))
        bits = sum(map(len, parts))
        if bits > MOST_BITS:
            raise UsageError(f"a layout over 2^{bits} registers of threads: at most 2^{MOST_BITS} are shown")
        registers, lanes, warps = (spread(part, self._rank()) for part in parts)
        return registers[:, None, None] ^ lanes[None, :, None] ^ warps[None, None]

    def extent(self) -> Vector:
        """The shape of the tile that the bases span."""
        return reach((vector for part in self.parts for vector in part), self._rank())

    def _rank(self) -> int:
        return next((len(vector) for part in self.parts for vector in part), 1)


def reach(vectors: Iterable[Vector], rank: int) -> Vector:
    """The smallest powers of two above all sums of some vectors, one for each dimension.

    >>> reach([(0, 1), (2, 3)], 2)
    (4, 4)
    """
    reached = [1] * rank
    for vector in vectors:
        for dim, step in enumerate(vector):
            reached[dim] = max(reached[dim], 1 << step.bit_length())
    return tuple(reached)


def fitted(bases: Bases, shape: Vector, order: Vector, *, keeps_folded: bool = False) -> Bases:
    """Repeats the tile over a larger tensor, in further registers, and folds it where the tensor is smaller.

    A matrix instruction fills all its registers: those that the fold makes copies are kept then.
    """
    register, lane, warp, block = (tuple(_inside(vector, shape) for vector in part) for part in bases.parts)
    own = [new for old, new in zip(bases.register, register, strict=True) if any(new) or not any(old) or keeps_folded]
    reached = list(reach((*register, *lane, *warp, *block), len(shape)))
    for dim in order:
        while reached[dim] < shape[dim]:
            own.append(unit(len(shape), dim, reached[dim]))
            reached[dim] *= 2
    return Bases(tuple(own), lane, warp, block)


def _inside(vector: Vector, shape: Vector) -> Vector:
    return tuple(step if step < extent else 0 for step, extent in zip(vector, shape, strict=True))


def spread(vectors: Sequence[Vector], rank: int) -> Ints:
    """Every exclusive-or of some vectors, in the order of the numbers whose bits choose them."""
    if len(vectors) > MOST_BITS:
        raise UsageError(f"a layout with {len(vectors)} bits: at most {MOST_BITS} are shown")
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

"""Memory sectors: how many 32-byte pieces the warps of an access touch, and how few would do."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from warplens_lab.scenes.kernel_scene import Ints
from warplens_lab.tracing.records import SECTOR_BYTES, WARP_LANES

Bools = npt.NDArray[np.bool_]
INACTIVE: Final = -(1 << 62)
"""The place of a lane that does nothing: below every other."""
MOST_WAITING: Final = 64


def lanes_in_warps(byte_offsets: Ints, mask: Bools | None) -> Ints:
    """Byte offsets, 32 lanes to a row; lanes that are masked or fill up the last warp are inactive."""
    byte_offsets = byte_offsets.reshape(-1)
    if mask is not None:
        byte_offsets = np.where(mask.reshape(-1), byte_offsets, INACTIVE)
    if byte_offsets.size % WARP_LANES:
        byte_offsets = np.pad(byte_offsets, (0, -byte_offsets.size % WARP_LANES), constant_values=INACTIVE)
    return byte_offsets.reshape(-1, WARP_LANES)


def sectors_of(warps: Ints, itemsize: int) -> tuple[int, int]:
    """Sectors touched by all rows, and the fewest that hold as many different elements.

    >>> sectors_of(lanes_in_warps(4 * np.arange(64), None), 4)
    (8, 8)
    >>> sectors_of(lanes_in_warps(4 * np.arange(64) + 16, None), 4)
    (10, 8)
    >>> sectors_of(lanes_in_warps(32 * np.arange(64), None), 4)
    (64, 8)
    """
    warps = np.sort(warps, axis=1)
    active = warps != INACTIVE
    elements = _distinct(warps, active)
    touched = _distinct(warps // SECTOR_BYTES, active)
    return int(touched.sum()), int((-(-elements * itemsize // SECTOR_BYTES)).sum())


def _distinct(warps: Ints, active: Bools) -> Ints:
    """How many different places each warp has, given in order: an inactive lane differs from every active one."""
    new = warps[:, 1:] != warps[:, :-1]
    new &= active[:, 1:]
    counts: Ints = np.count_nonzero(new, axis=1) + active[:, 0]
    return counts


class Waiting:
    """Irregular accesses of one statement, counted many at a time: one by one costs as much as the access itself."""

    def __init__(self, itemsize: int, storage_start: int) -> None:
        self._itemsize = itemsize
        self._start = storage_start
        self._whole: list[npt.NDArray[np.uint64]] = []
        self._warps: list[Ints] = []

    def add(self, pointers: npt.NDArray[np.uint64], mask: Bools | None) -> tuple[int, int]:
        """Takes one access; gives the sectors and the fewest of all that wait, when there are many, else zeros."""
        if mask is None and pointers.size % WARP_LANES == 0:
            self._whole.append(pointers.reshape(-1))
        else:
            self._warps.append(lanes_in_warps(pointers.astype(np.int64) - self._start, mask))
        return self.counted() if len(self._whole) + len(self._warps) >= MOST_WAITING else (0, 0)

    def counted(self) -> tuple[int, int]:
        if self._whole:
            byte_offsets = np.concatenate(self._whole).astype(np.int64) - self._start
            self._warps.append(byte_offsets.reshape(-1, WARP_LANES))
        if not self._warps:
            return 0, 0
        warps = np.concatenate(self._warps)
        self._whole.clear()
        self._warps.clear()
        return sectors_of(warps, self._itemsize)

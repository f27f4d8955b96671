"""Blocks of pointers made small: most are a grid of equal steps, and the same few return thousands of times.

A `Book` keeps every pattern and mask once and remembers what follows from a pair of them: which elements are
touched, and how many memory sectors a warp needs for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from warplens_lab.scenes.kernel_scene import Ints, Mask, Pattern
from warplens_lab.tracing.records import SECTOR_BYTES
from warplens_lab.tracing.watching.sectors import lanes_in_warps, sectors_of

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Cells:
    """The elements an access touches, relative to its first lane: a grid, or a list of offsets.

    `low` and `high` are the lowest and highest of them; both are 0 when no lane is active.
    """

    low: int
    high: int
    active: int
    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offsets: Ints | None


class LaneBlock:
    """One pattern under one mask."""

    def __init__(self, pattern: Pattern, mask: Mask) -> None:
        self.pattern = pattern
        self.mask = mask
        self.lanes = math.prod(pattern.shape)
        self._sectors: dict[int, tuple[int, int]] = {}

    @cached_property
    def cells(self) -> Cells:
        pattern, mask = self.pattern, self.mask
        if not mask.active:
            return Cells(0, 0, 0, 0, (0,), (1,), None)
        if pattern.strides is not None and mask.bits is None:
            return _grid_cells(pattern.shape, pattern.strides, mask)
        offsets = pattern.relative().reshape(-1) if mask.whole else pattern.relative()[mask.lanes()]
        low, high = int(np.minimum.reduce(offsets)), int(np.maximum.reduce(offsets))
        return Cells(low, high, mask.active, 0, (), (), offsets)

    @cached_property
    def collides(self) -> bool:
        """Whether two active lanes have one address."""
        pattern, mask = self.pattern, self.mask
        offsets = pattern.relative().reshape(-1) if mask.whole else pattern.relative()[mask.lanes()]
        if mask.active > self.cells.high - self.cells.low + 1:
            return True
        return len(np.unique(offsets)) < mask.active

    def sectors(self, first_byte: int) -> tuple[int, int]:
        """Sectors the warps of this block touch when its first lane is at `first_byte`, and the fewest possible."""
        phase = first_byte % SECTOR_BYTES
        counts = self._sectors.get(phase)
        if counts is None:
            order = _lane_order(self.pattern)
            byte_offsets = self.pattern.relative().transpose(order) * self.pattern.itemsize + phase
            mask = None if self.mask.whole else self.mask.lanes().transpose(order)
            counts = self._sectors[phase] = sectors_of(lanes_in_warps(byte_offsets, mask), self.pattern.itemsize)
        return counts


class Book:
    """The patterns and masks met so far. With `keep` false (counting) irregular ones are described, not kept."""

    def __init__(self, *, keep: bool) -> None:
        self.keep = keep
        self.patterns: list[Pattern] = []
        self.masks: list[Mask] = []
        self._pattern_ids: dict[Any, int] = {}
        self._mask_ids: dict[tuple[tuple[int, ...], bytes], int] = {}
        self._grids: dict[Any, npt.NDArray[np.uint64]] = {}
        self._blocks: dict[tuple[int, int], LaneBlock] = {}
        self._last_mask: tuple[Bools | None, tuple[Mask, int]] = (None, (Mask((), 0), -1))

    def block(self, pointers: npt.NDArray[np.uint64], mask: Bools, itemsize: int) -> tuple[LaneBlock, int, int]:
        """The block that describes these pointers, and the numbers of its pattern and mask (-1: not kept)."""
        pattern, pattern_id = self._pattern(pointers, itemsize)
        # One mask often serves several accesses in a row, as the same object.
        if self._last_mask[0] is not mask:
            self._last_mask = (mask, self._mask(mask))
        described, mask_id = self._last_mask[1]
        if pattern_id < 0 or mask_id < 0:
            return LaneBlock(pattern, described), pattern_id, mask_id
        key = (pattern_id, mask_id)
        block = self._blocks.get(key)
        if block is None:
            block = self._blocks[key] = LaneBlock(pattern, described)
        return block, pattern_id, mask_id

    def pattern(self, pointers: npt.NDArray[np.uint64], itemsize: int) -> Pattern:
        return self._pattern(pointers, itemsize)[0]

    def _pattern(self, pointers: npt.NDArray[np.uint64], itemsize: int) -> tuple[Pattern, int]:
        shape = pointers.shape
        first, far, steps = _steps(pointers)
        # The last lane distinguishes most irregular blocks before any array is built.
        if far or any(step % itemsize for step in steps):
            return self._irregular(pointers, first, itemsize)
        key = (itemsize, shape, steps)
        grid = self._grids.get(key)
        if grid is None:
            grid = Pattern(1, shape, steps).relative().astype(np.uint64)
        # Comparing bytes takes a fifth of the time of comparing arrays of this size.
        if (grid + np.uint64(first)).tobytes() != pointers.tobytes():
            return self._irregular(pointers, first, itemsize)
        self._grids[key] = grid
        number = self._pattern_ids.get(key)
        if number is None:
            number = self._pattern_ids[key] = len(self.patterns)
            self.patterns.append(Pattern(itemsize, shape, tuple(step // itemsize for step in steps)))
        return self.patterns[number], number

    def _irregular(self, pointers: npt.NDArray[np.uint64], first: int, itemsize: int) -> tuple[Pattern, int]:
        relative = (pointers - np.uint64(first)).view(np.int64).reshape(-1) >> (itemsize.bit_length() - 1)
        if not self.keep:
            return Pattern(itemsize, pointers.shape, None, relative), -1
        key = (itemsize, pointers.shape, relative.tobytes())
        number = self._pattern_ids.get(key)
        if number is None:
            number = self._pattern_ids[key] = len(self.patterns)
            self.patterns.append(Pattern(itemsize, pointers.shape, None, relative))
        return self.patterns[number], number

    def _mask(self, mask: Bools) -> tuple[Mask, int]:
        shape = mask.shape
        active = int(np.count_nonzero(mask))
        whole = active == mask.size
        bits = b"" if whole else np.packbits(mask).tobytes()
        number = self._mask_ids.get((shape, bits))
        if number is None:
            box = None if whole else _box(mask, active)
            described = Mask(shape, active, box, None if whole or box is not None else bits)
            number = self._mask_ids[shape, bits] = len(self.masks)
            self.masks.append(described)
        return self.masks[number], number


def _steps(pointers: npt.NDArray[np.uint64]) -> tuple[int, int, tuple[int, ...]]:
    """Address of the first lane, and bytes from it to the next along each dimension; between them, how far the last
    lane is from where these steps would put it."""
    if not pointers.size:
        return 0, 0, (0,) * pointers.ndim
    first: int = pointers.item(0)
    far: int = pointers.item(pointers.size - 1) - first
    steps = []
    stride = pointers.size
    for size in pointers.shape:
        stride //= size
        step = pointers.item(stride) - first if size > 1 else 0
        far -= (size - 1) * step
        steps.append(step)
    return first, far, tuple(steps)


def _box(mask: Bools, active: int) -> tuple[tuple[int, int], ...] | None:
    """The box that the active lanes fill, or None where they fill none."""
    if not active:
        return tuple((0, 0) for _ in mask.shape)
    box = []
    for axis in range(mask.ndim):
        others = tuple(other for other in range(mask.ndim) if other != axis)
        along = np.flatnonzero(mask.any(axis=others))
        box.append((int(along[0]), int(along[-1]) + 1))
    volume = int(np.prod([high - low for low, high in box]))
    return tuple(box) if volume == active else None


def _grid_cells(shape: Sequence[int], strides: Sequence[int], mask: Mask) -> Cells:
    box = mask.box or tuple((0, size) for size in shape)
    start = sum(low * stride for (low, _), stride in zip(box, strides, strict=True))
    # A dimension of stride 0 repeats the same elements: once is enough.
    dimensions = [
        (high - low, stride) for (low, high), stride in zip(box, strides, strict=True) if stride and high - low > 1
    ]
    ends = [(size - 1) * stride for size, stride in dimensions]
    return Cells(
        low=start + sum(end for end in ends if end < 0),
        high=start + sum(end for end in ends if end > 0),
        active=mask.active,
        start=start,
        shape=tuple(size for size, _ in dimensions) or (1,),
        strides=tuple(stride for _, stride in dimensions) or (1,),
        offsets=None,
    )


def _lane_order(pattern: Pattern) -> tuple[int, ...]:
    """Dimensions from the slowest to the fastest: lanes go along the smallest step; a repeated one is the slowest."""
    if pattern.strides is None:
        return tuple(range(len(pattern.shape)))
    far = 1 << 62
    steps = [abs(stride) or far for stride in pattern.strides]
    return tuple(sorted(range(len(steps)), key=lambda axis: -steps[axis]))

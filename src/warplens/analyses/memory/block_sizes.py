"""How large a block PyTorch's caching allocator takes for a request: events have the requested size, sums the block's.

The rules are those of c10/cuda/CUDACachingAllocator.cpp: sizes are rounded up, and the free block that is used is split
only where enough of it remains. So the free blocks are followed from event to event.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import msgspec

from warplens_run.base import bounded

MIN_BLOCK: Final = 512
SMALL: Final = 1 << 20
"""Blocks up to this size come from segments of their own."""


def segment_bytes(requested: int) -> int:
    """How much the allocator asks the device for where no free block fits.

    >>> segment_bytes(4096) >> 20, segment_bytes(3 << 20) >> 20, segment_bytes((33 << 20) + 1) >> 20
    (2, 20, 34)
    """
    if requested <= SMALL:
        return 2 * SMALL
    return 20 * SMALL if requested < 10 * SMALL else -(-requested // (2 * SMALL)) * 2 * SMALL


class AllocatorRules(msgspec.Struct, frozen=True):
    """What the settings of an allocator change."""

    max_split_bytes: int = 0
    """Blocks of this size and more are not split; 0: all are."""
    power2_divisions: dict[int, int] = {}
    """From this size on, requests are rounded up to the next of so many parts of a power of two."""

    def rounded(self, requested: int) -> int:
        """
        >>> AllocatorRules().rounded(1), AllocatorRules().rounded(513)
        (512, 1024)
        >>> AllocatorRules(power2_divisions={1 << 20: 4}).rounded(1200 << 10) >> 10
        1280
        """
        if requested < MIN_BLOCK:
            return MIN_BLOCK
        size = max((least for least in self.power2_divisions if least <= requested), default=0)
        divisions = self.power2_divisions.get(size, 0)
        if divisions > 1 and requested > MIN_BLOCK * divisions:
            return _next_division(requested, divisions)
        return -(-requested // MIN_BLOCK) * MIN_BLOCK

    def splits(self, rounded: int, remaining: int) -> bool:
        if rounded <= SMALL:
            return remaining >= MIN_BLOCK
        return remaining > SMALL and not 0 < self.max_split_bytes <= rounded


def _next_division(size: int, divisions: int) -> int:
    power = 1 << (size.bit_length() - 1)
    part = power // divisions
    return power if size == power else power + -(-(size - power) // part) * part


def rules_of(settings: dict[str, str]) -> AllocatorRules:
    """From the settings that a snapshot records."""
    divisions = {
        bounded.whole(size) << 20: bounded.whole(count)
        for name, count in settings.items()
        if name.startswith("roundup_power2_divisions.")
        and bounded.is_whole(size := name.rpartition(".")[2], 0, 10**9)
        and bounded.is_whole(count, 2, 1 << 10)
    }
    return AllocatorRules(bounded.whole(settings.get("max_split_size"), least=0), divisions)


class FreeBlocks:
    """The free blocks of segments that are not expandable: in those every block has its rounded size."""

    def __init__(self, rules: AllocatorRules) -> None:
        self._rules = rules
        self._sizes: dict[int, int] = {}
        self._starts: dict[int, int] = {}
        self._segments: set[int] = set()

    def add_segment(self, address: int, size: int, used: Sequence[tuple[int, int]] = ()) -> None:
        """`used`: addresses and sizes of its blocks that are in use, in order."""
        self._segments.add(address)
        at = address
        for start, taken in [*used, (address + size, 0)]:
            if start > at:
                self._put(at, start - at)
            at = max(at, start + taken)

    def drop_segment(self, address: int) -> None:
        self._segments.discard(address)
        self._take(address)

    def allocate(self, address: int, requested: int) -> int:
        """The size of the block that a request gets at this address."""
        rounded = self._rules.rounded(requested)
        free = self._take(address)
        if free is None or free < rounded:
            return rounded
        if not self._rules.splits(rounded, free - rounded):
            return free
        if free > rounded:
            self._put(address + rounded, free - rounded)
        return rounded

    def release(self, address: int, size: int) -> None:
        """Free again, merged with its free neighbours in the segment."""
        after = self._take(address + size) if address + size not in self._segments else None
        size += after or 0
        before = self._starts.get(address) if address not in self._segments else None
        if before is not None:
            size += self._take(before) or 0
            address = before
        self._put(address, size)

    def _put(self, address: int, size: int) -> None:
        self._sizes[address] = size
        self._starts[address + size] = address

    def _take(self, address: int) -> int | None:
        size = self._sizes.pop(address, None)
        if size is not None:
            self._starts.pop(address + size, None)
        return size


class Ranges:
    """Address ranges that do not overlap, to ask which one an address is in."""

    def __init__(self, ranges: dict[int, int]) -> None:
        self._starts = sorted(ranges)
        self._sizes = ranges

    def start_of(self, address: int) -> int | None:
        place = bisect_right(self._starts, address) - 1
        if place < 0:
            return None
        start = self._starts[place]
        return start if address < start + self._sizes[start] else None

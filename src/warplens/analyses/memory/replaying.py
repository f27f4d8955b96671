"""The history of a snapshot: every allocation with the size of its block, from the first recorded event to the last.

The snapshot has the state at the end, and events with requested sizes. What is freed and was not allocated before was
held when the recording began, as was what the end state has and no event allocated.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from warplens.analyses.memory.block_sizes import (
    SMALL,
    AllocatorRules,
    FreeBlocks,
    Ranges,
    rules_of,
)
from warplens.analyses.memory.history import HELD, NEVER, DeviceHistory, Failure, MemoryHistory
from warplens.analyses.memory.segments import ReservedRanges
from warplens.model.memory_facts import MemoryFacts
from warplens.model.memory_snapshot import ACTION, ALLOCATED, INACTIVE, MemorySnapshot
from warplens.model.quality import Note

ALLOC, FREE, FREED, SEGMENT, SEGMENT_GONE, MAP, UNMAP, OOM = (
    ACTION[name]
    for name in ("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map",
                 "segment_unmap", "oom")
)  # fmt: skip


class Event(NamedTuple):
    action: int
    address: int
    bytes: int
    stream: int
    stack: int


class EndBlock(NamedTuple):
    """A block of the snapshot that is in use."""

    address: int
    bytes: int
    requested_bytes: int
    state: str
    stack: int


class Held:
    """An allocation while the events are replayed."""

    __slots__ = ("address", "begin", "bytes", "end", "end_stack", "is_counted", "requested", "stack")

    def __init__(self, address: int, requested: int, size: int, begin: int, stack: int) -> None:
        self.address, self.requested, self.bytes = address, requested, size
        self.begin, self.end, self.stack, self.end_stack = begin, NEVER, stack, -1
        self.is_counted = True
        """False for a block that was freed before the recording began and still waits for another stream."""

    def row(self) -> tuple[int, ...]:
        return self.address, self.bytes, self.requested, self.begin, self.end, self.stack, self.end_stack


def snapshot_history(
    snapshot: MemorySnapshot, origin_ns: int | None = None, facts: MemoryFacts | None = None
) -> MemoryHistory:
    """`origin_ns`: what times count from, in ns since 1970; by default the first event. `facts`: what the capture knows
    of the blocks at the beginning."""
    devices = sorted({*snapshot.segments["device"].to_list(), *snapshot.events["device"].to_list()})
    known = snapshot.events.filter(pl.col("time_us") >= 0)["time_us"]
    first_us = known.min() if len(known) else 0
    origin = 1000 * int(first_us) if origin_ns is None and isinstance(first_us, int) else origin_ns or 0
    rules = rules_of(snapshot.settings)
    first_blocks = {device: dict(facts.of_device(f"GPU {device}").blocks) if facts else {} for device in devices}
    histories = tuple(_Replay(snapshot, device, rules, first_blocks[device]).history(origin) for device in devices)
    notes = [*snapshot.quality.notes]
    if len(snapshot.events) and not len(known):
        notes.append(Note("no_memory_times"))
    if not len(snapshot.events):
        notes.append(Note("no_memory_history"))
    frames = tuple(snapshot.frames.iter_rows())
    return MemoryHistory(histories, snapshot.stacks["frames"].to_list(), frames, tuple(notes))


class _Replay:
    def __init__(
        self, snapshot: MemorySnapshot, device: int, rules: AllocatorRules, first_blocks: Mapping[int, int]
    ) -> None:
        self.device = device
        self.first_blocks = first_blocks
        """Sizes by address, where the capture noted them when the history began."""
        of_device = pl.col("device") == device
        self.frame = snapshot.events.filter(of_device)
        columns = ("action", "address", "bytes", "stream", "stack")
        self.events = [Event(*row) for row in self.frame.select(columns).iter_rows()]
        self.segments = snapshot.segments.filter(of_device)
        blocks = snapshot.blocks.filter(of_device & (pl.col("state") != INACTIVE))
        names = ("address", "bytes", "requested_bytes", "state", "stack")
        self.end_blocks = {row[0]: EndBlock(*row) for row in blocks.select(names).iter_rows()}
        self.rules = rules
        self.frees_by_request = self._frees_by_request()
        self.starts = sorted(
            (event.address, number) for number, event in enumerate(self.events) if event.action == ALLOC
        )
        self.differences = self.assumed = 0

    def _frees_by_request(self) -> bool:
        """Whether the request ends an allocation, as recorded by PyTorch. A history that keeps the last events only may
        have lost all requests and have the completion of one: without its allocation that says nothing."""
        allocated: set[int] = set()
        completed = False
        for event in self.events:
            if event.action == FREE:
                return True
            if event.action == ALLOC:
                allocated.add(event.address)
            completed = completed or (event.action == FREED and event.address in allocated)
        return not completed

    def history(self, origin_ns: int) -> DeviceHistory:
        held = self._allocations()
        segments = self._segments()
        self._sizes(held, segments)
        frame = pl.DataFrame([each.row() for each in held if each.is_counted], schema=HELD, orient="row")
        first, allocated = _totals(frame, len(self.events))
        _, reserved = _totals(segments, len(self.events))
        return DeviceHistory(
            f"GPU {self.device}",
            self._times(origin_ns),
            allocated,
            reserved,
            frame,
            first,
            segments,
            self._notes(frame),
            tuple(
                Failure(number, event.bytes, event.address, event.stack)
                for number, event in enumerate(self.events)
                if event.action == OOM
            ),
        )

    def _times(self, origin_ns: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        times = self.frame["time_us"].to_numpy()
        if len(times) and times.min() < 0:  # not recorded: events count as a microsecond each
            times = np.arange(len(times)) + origin_ns // 1000
        return np.maximum.accumulate(np.clip(times, -(1 << 52), 1 << 52) * 1000 - origin_ns)

    def _allocations(self) -> list[Held]:
        """Every allocation; sizes are those that were requested so far."""
        live: dict[int, Held] = {}
        waiting: dict[int, Held] = {}
        held: list[Held] = []

        def found(event: Event) -> Held:
            """What an event frees that nothing allocated: held since before the recording."""
            before = Held(event.address, event.bytes, 0, -1, -1)
            held.append(before)
            return before

        for number, event in enumerate(self.events):
            if event.action == ALLOC:
                live[event.address] = Held(event.address, event.bytes, 0, number, event.stack)
                held.append(live[event.address])
            elif event.action == FREE or (event.action == FREED and not self.frees_by_request):
                freed = live.pop(event.address, None) or found(event)
                freed.end, freed.end_stack = number, event.stack
                waiting[event.address] = freed
            elif event.action == FREED and event.address not in waiting:
                found(event).is_counted = False
            elif event.action == FREED:
                del waiting[event.address]
        for address, block in self.end_blocks.items():
            if block.state != ALLOCATED:
                if address not in waiting:  # freed before the recording began, and still waiting
                    held.append(Held(address, block.requested_bytes, block.bytes, -1, -1))
                    held[-1].is_counted = False
                continue
            if address not in live:
                live[address] = Held(address, block.requested_bytes, block.bytes, -1, block.stack)
                held.append(live[address])
            live[address].bytes = block.bytes
        gone = [each for each in live.values() if each.address not in self.end_blocks]
        self.differences = len(gone)
        for each in gone:  # the history ends before the snapshot does
            each.end = len(self.events)
        return held

    def _segments(self) -> pl.DataFrame:
        """Every segment; of an expandable one, every page."""
        ranges = ReservedRanges()
        for number, event in enumerate(self.events):
            if event.action in (SEGMENT, MAP):
                is_map = event.action == MAP
                ranges.reserve(event.address, event.bytes, number, event.stream, is_expandable=is_map)
            elif event.action in (SEGMENT_GONE, UNMAP):
                is_unmap = event.action == UNMAP
                ranges.give_back(event.address, event.bytes, number, event.stream, is_expandable=is_unmap)
        kept: set[int] = set()
        for address, size, kind, pool, stream, is_expandable in self.segments.select(
            "address", "bytes", "kind", "pool", "stream", "is_expandable"
        ).iter_rows():
            for row in ranges.pieces(address, size, stream, is_expandable=is_expandable):
                row.kind, row.pool = kind, pool
                kept.add(row.address)
        ranges.end_others(kept, len(self.events))
        return ranges.frame()

    def _sizes(self, held: list[Held], segments: pl.DataFrame) -> None:
        """Fill in the size of every block, by following the free ones."""
        free = FreeBlocks(self.rules)
        whole = self._whole_segments(segments)
        first = {address: size for address, size, begin in whole if begin < 0}
        ranges = Ranges(first)
        used: dict[int, list[tuple[int, int]]] = {address: [] for address in first}
        before = sorted((each for each in held if each.begin < 0), key=lambda each: each.address)
        for number, each in enumerate(before):
            start = ranges.start_of(each.address)
            if not each.bytes:
                after = before[number + 1].address if number + 1 < len(before) else NEVER
                each.bytes = self._size_before(each, after if start is None else min(after, start + first[start]))
            if start is not None:
                used[start].append((each.address, each.bytes))
        for address, size in first.items():
            free.add_segment(address, size, used[address])
        self._follow(held, free, {address for address, _, _ in whole}, _expandable(segments))

    def _whole_segments(self, segments: pl.DataFrame) -> list[tuple[int, int, int]]:
        return list(segments.filter(~pl.col("is_expandable")).select("address", "bytes", "begin").iter_rows())

    def _size_before(self, held: Held, limit: int) -> int:
        """Of a block from before the recording. What is free behind it, up to the next block or the end of the segment,
        belongs to it where it is too small to be a block of its pool; else an allocation there shows where it ends."""
        rounded = self.rules.rounded(held.requested)
        noted = self.first_blocks.get(held.address, 0)
        if noted >= rounded:
            return noted
        end = held.address + rounded
        if rounded <= SMALL or limit <= end:
            return rounded
        if limit - end <= SMALL:
            return limit - held.address
        first = bisect_left(self.starts, (end, -1))
        last = bisect_right(self.starts, (end + SMALL, held.end))
        shown = next((address for address, event in self.starts[first:last] if event < held.end), None)
        self.assumed += shown is None and limit < NEVER
        return rounded if shown is None else shown - held.address

    def _follow(self, held: list[Held], free: FreeBlocks, whole: set[int], expandable: Ranges) -> None:
        allocations = {each.begin: each for each in held if each.begin >= 0}
        sizes = {each.address: each.bytes for each in held if each.begin < 0}
        for number, event in enumerate(self.events):
            if event.action == SEGMENT and event.address in whole:
                free.add_segment(event.address, event.bytes)
            elif event.action == SEGMENT_GONE:
                free.drop_segment(event.address)
            elif event.action == ALLOC:
                each = allocations[number]
                size = free.allocate(event.address, event.bytes)
                self.differences += each.bytes not in (0, size)
                each.bytes = each.bytes or size
                sizes[event.address] = each.bytes
            elif event.action == FREED and event.address in sizes:
                size = sizes.pop(event.address)
                if expandable.start_of(event.address) is None:  # there a block has its rounded size, whatever was free
                    free.release(event.address, size)

    def _notes(self, held: pl.DataFrame) -> tuple[Note, ...]:
        notes = []
        before = held.filter(pl.col("begin") < 0)
        where = f"GPU {self.device}"
        if len(before) and self.events and not self.first_blocks:  # else the capture noted them
            notes.append(Note("memory_before", len(before), where))
        if self.differences:
            notes.append(Note("memory_differs", self.differences, where))
        if self.assumed:
            notes.append(Note("memory_assumed", self.assumed, where))
        if oom := sum(event.action == OOM for event in self.events):
            notes.append(Note("memory_oom", oom, where))
        return tuple(notes)


def _expandable(segments: pl.DataFrame) -> Ranges:
    """The addresses that pages of expandable segments had at any time."""
    merged: dict[int, int] = {}
    last = None
    for address, size in segments.filter("is_expandable").sort("address").select("address", "bytes").iter_rows():
        if last is not None and address <= last + merged[last]:
            merged[last] = max(merged[last], address + size - last)
        else:
            last, merged[address] = address, size
    return Ranges(merged)


def _totals(rows: pl.DataFrame, events: int) -> tuple[int, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """What the rows hold together before the first event, and after each."""
    begin, end, size = (rows[name].to_numpy() for name in ("begin", "end", "bytes"))
    change = np.zeros(events + 1, np.int64)
    np.add.at(change, np.minimum(begin[begin >= 0], events), size[begin >= 0])
    np.subtract.at(change, np.minimum(end[end < NEVER], events), size[end < NEVER])
    first = int(size[begin < 0].sum())
    return first, first + np.cumsum(change[:events])

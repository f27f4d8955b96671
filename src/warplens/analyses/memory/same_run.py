"""Whether a memory snapshot and a trace are of the same run: by their clocks, else by the sizes of allocations."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Final, NamedTuple

import polars as pl

from warplens.analyses.memory.block_sizes import rules_of
from warplens.model.memory_facts import MemoryFacts, RecordedMemory
from warplens.model.memory_snapshot import ACTION, MemorySnapshot
from warplens.model.quality import Note
from warplens.model.trace import Trace

SLACK_NS: Final = 1_000_000_000
"""A history that begins or ends this far from the trace may still be of the same run."""
BUNDLE_SLACK_NS: Final = 3_600_000_000_000
"""The same in a bundle, whose parts are of one run: a history that keeps its last events only can begin much later."""
SINCE_1970_NS: Final = 1_000_000_000_000_000_000
"""Clocks that count since 1970 are past this (2001); others count from when the machine started."""
WINDOW: Final = 8
LEAST_SIZES: Final = 4
"""Different sizes in a window: any program has runs of equal small blocks."""
LEAST_SHARE: Final = 0.25
"""Of the trace's windows: the two rarely begin and end together, and some blocks are larger than their request."""

Windows = set[tuple[int, ...]]


class Tie(NamedTuple):
    """What is known of a snapshot beside a trace."""

    has_same_clock: bool
    is_joined: bool
    """Whether allocations can be those of the trace."""
    notes: tuple[Note, ...] = ()


def tie(trace: Trace, recorded: RecordedMemory) -> Tie:
    snapshot = recorded.snapshot
    slack_ns = SLACK_NS if recorded.facts == MemoryFacts() else BUNDLE_SLACK_NS
    times = _known_times(snapshot)
    begin_ns, end_ns = trace.meta.origin_ns, trace.meta.origin_ns + _last_ns(trace)
    if not len(times) or (1000 * times[0] <= end_ns + slack_ns and 1000 * times[-1] >= begin_ns - slack_ns):
        return Tie(has_same_clock=True, is_joined=True)
    traced = _traced_windows(trace)
    if traced and len(traced & _snapshot_windows(snapshot)) >= LEAST_SHARE * len(traced):
        return Tie(False, True, (Note("memory_clock"),))
    if min(first_ns(snapshot), begin_ns) > SINCE_1970_NS:
        detail = f"it was recorded on {_date(first_ns(snapshot))}, the trace on {_date(begin_ns)}"
        return Tie(False, False, (Note("memory_other_run", detail=detail),))
    if traced:
        detail = "the clocks differ, and so do the sizes that are allocated"
        return Tie(False, False, (Note("memory_other_run", detail=detail),))
    return Tie(False, False, (Note("memory_clock"), Note("memory_untied")))


def first_ns(snapshot: MemorySnapshot) -> int:
    """When its history begins; 0 where that is not known."""
    times = _known_times(snapshot)
    return 1000 * int(times[0]) if len(times) else 0


def _known_times(snapshot: MemorySnapshot) -> pl.Series:
    return snapshot.events.filter(pl.col("time_us") >= 0).sort("time_us")["time_us"]


def _last_ns(trace: Trace) -> int:
    last = trace.events.select((pl.col("start_ns") + pl.col("dur_ns")).max()).item()
    return int(last or 0)


def _date(ns: int) -> str:
    """
    >>> _date(1_700_000_000_000_000_000)
    '2023-11-14 22:13:20 UTC'
    """
    return f"{datetime.fromtimestamp(ns // 1_000_000_000, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def _traced_windows(trace: Trace) -> Windows:
    memory = trace.memory.filter((pl.col("bytes") > 0) & pl.col("device").str.starts_with("GPU"))
    parts = memory.sort("start_ns", maintain_order=True).partition_by("device")
    return {window for part in parts for window in _windows(part["bytes"].to_list())}


def _snapshot_windows(snapshot: MemorySnapshot) -> Windows:
    rounded = rules_of(snapshot.settings).rounded
    parts = snapshot.events.filter(pl.col("action") == ACTION["alloc"]).partition_by("device", maintain_order=True)
    return {window for part in parts for window in _windows([rounded(size) for size in part["bytes"].to_list()])}


def _windows(sizes: list[int]) -> Windows:
    """
    >>> sorted(_windows([1, 2, 3, 4, 4, 4, 4, 4, 4, 4]))
    [(1, 2, 3, 4, 4, 4, 4, 4)]
    """
    windows = zip(*(sizes[start:] for start in range(WINDOW)), strict=False)
    return {window for window in windows if len({*window}) >= LEAST_SIZES}

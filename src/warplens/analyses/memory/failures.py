"""`memory_failures`: allocations that failed, with what was asked for, what was free and why that did not suffice."""

from __future__ import annotations

from typing import Final

import polars as pl

from warplens.analyses.memory.block_sizes import segment_bytes
from warplens.analyses.memory.fragmentation import largest_free
from warplens.analyses.memory.history import Failure
from warplens.analyses.memory.memory_work import Holders, MemoryWork
from warplens.analyses.memory.peak import Beside, beside_at
from warplens.model.table import Column, Table
from warplens_run.base.units import format_bytes

FRAGMENTED: Final = "fragmented"
FULL: Final = "full"
LIMITED: Final = "limited"
MOST_HOLDERS: Final = 4
MOST_FAILURES: Final = 100
"""A program ends with the first as a rule; each takes a look at all that is held."""
COLUMNS = (
    Column("device", "GPU number", "", pl.String),
    Column("start_ms", "when", "ms", pl.Float64),
    Column("requested_bytes", "asked for", "bytes", pl.Int64),
    Column("device_free_bytes", "free on the device; null where it is not recorded", "bytes", pl.Int64),
    Column("allocated_bytes", "allocated at that time", "bytes", pl.Int64),
    Column("reserved_bytes", "reserved by the caching allocator; null where it is not recorded", "bytes", pl.Int64),
    Column("reserved_free_bytes", "of the reserved, not allocated", "bytes", pl.Int64),
    Column("largest_free_bytes", "the largest free piece of it; larger requests need new memory", "bytes", pl.Int64),
    Column("line", "the user's line that asked", "", pl.String),
    Column("op", "op that asked", "", pl.String),
    Column(
        "cause", f"{FULL}, {FRAGMENTED} (enough is free, in pieces) or {LIMITED} (by the program's own limit)", "",
        pl.String,
    ),
    Column("holders", "who held the memory, by category", "", pl.String),
)  # fmt: skip


def memory_failures(work: MemoryWork) -> Table:
    first = [(device, failure) for device in work.devices for failure in device.history.failures[:MOST_FAILURES]]
    rows = [_row(work, device, failure) for device, failure in first]
    meaning = f"one row per allocation that failed, the first {MOST_FAILURES} of each GPU"
    return Table.from_rows("memory_failures", meaning, COLUMNS, rows)


def _row(work: MemoryWork, device: Holders, failure: Failure) -> tuple[object, ...]:
    history = device.history
    beside = beside_at(history, failure.event)
    label = work.labels.of(failure.stack)
    return (
        history.device,
        history.time_of(failure.event) / 1e6,
        failure.requested,
        failure.device_free if failure.device_free >= 0 else None,
        int(history.allocated[failure.event]),
        None if history.reserved is None else int(history.reserved[failure.event]),
        sum(beside),
        largest_free(history, failure.event),
        label.line,
        label.op,
        _cause(failure, beside),
        holders_at(device, failure.event),
    )


def _cause(failure: Failure, beside: Beside) -> str:
    """The device does not give what it has free only where the program has a limit of its own."""
    if failure.device_free >= segment_bytes(failure.requested):
        return LIMITED
    in_pieces = sum(beside) + max(0, failure.device_free)
    return FRAGMENTED if in_pieces >= failure.requested else FULL


def holders_at(device: Holders, event: int) -> str:
    """The categories that hold most after an event."""
    held = device.held.filter((pl.col("begin") <= event) & (pl.col("end") > event))
    sums = held.group_by("category").agg(pl.col("bytes").sum()).sort("bytes", "category", descending=[True, False])
    return ", ".join(f"{category} {format_bytes(size)}" for category, size in sums.head(MOST_HOLDERS).iter_rows())

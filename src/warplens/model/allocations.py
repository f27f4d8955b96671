"""Allocations in columns, as readers have them, and the frame of a trace's memory that they become."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
import polars as pl

from warplens.model.codes import Codes
from warplens.model.event_records import Allocation, Lane
from warplens.model.kinds import NONE
from warplens.model.times import YEAR_NS, clamped
from warplens.model.trace import SIDE_FRAMES, Bools, Ints
from warplens_run.base import bounded

MOST_BYTES: Final = 2**50
"""No allocation is this large: such a size is damage, and sums of them would not fit in 64 bits."""


class AllocationColumns(msgspec.Struct, frozen=True):
    """The fields of `Allocation`, a value per event; threads and devices by their number among the different ones."""

    start_ns: Ints
    has_start: Bools | None
    """None: all of them."""
    thread: Ints
    threads: Sequence[Lane]
    device: Ints
    devices: Sequence[str]
    bytes: Ints
    allocated_bytes: Ints
    reserved_bytes: Ints
    address: Ints


def columns_of(allocations: Sequence[Allocation]) -> AllocationColumns:
    """Those of a reader that adds them one by one; at least one."""
    start_ns, process, thread, device, *sizes = zip(*allocations, strict=True)
    threads, devices = Codes[Lane](), Codes[str]()
    return AllocationColumns(
        clamped([ns or 0 for ns in start_ns]),
        np.array([ns is not None for ns in start_ns], bool),
        threads.of(zip(process, thread, strict=True)).astype(np.int64),
        list(threads),
        devices.of(device).astype(np.int64),
        list(devices),
        *map(_ints, sizes),
    )


def _ints(values: Sequence[Any]) -> Ints:
    try:
        return np.array(values, np.int64)
    except OverflowError:
        return np.array([bounded.whole(value, NONE) for value in values], np.int64)


def memory_frame(
    parts: Sequence[AllocationColumns], origin: int, lanes: pl.DataFrame, damage: Counter[str]
) -> pl.DataFrame:
    """`Trace.memory`; times too far from the others and impossible sizes are damage, which is counted."""
    row_of = {pair: row for row, pair in enumerate(zip(lanes["process"], lanes["thread"], strict=True))}
    frames = [_frame(part, origin, row_of, damage) for part in parts]
    return pl.concat([pl.DataFrame(schema=SIDE_FRAMES["memory"]), *frames]).sort("start_ns", maintain_order=True)


def _frame(
    part: AllocationColumns, origin: int, row_of: dict[tuple[str, str], int], damage: Counter[str]
) -> pl.DataFrame:
    start = part.start_ns - origin  # what does not fit in 64 bits ends far beyond a year: the origin is within `MAX_NS`
    usable = (start > -YEAR_NS) & (start < YEAR_NS) & (part.bytes > -MOST_BYTES) & (part.bytes < MOST_BYTES)
    if part.has_start is not None:
        usable &= part.has_start
    damage["out_of_range"] += int(np.count_nonzero(~usable))
    lane_of = np.array([row_of.get((str(process), str(thread)), NONE) for process, thread in part.threads], np.int32)
    columns = {
        "start_ns": start,
        "lane": lane_of[part.thread],
        "device": pl.Series(part.devices, dtype=pl.String).gather(part.device),
        "bytes": part.bytes,
        "allocated_bytes": part.allocated_bytes,
        "reserved_bytes": part.reserved_bytes,
        "address": part.address,
    }
    return pl.DataFrame(columns, schema=SIDE_FRAMES["memory"]).filter(pl.Series(usable))

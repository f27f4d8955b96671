"""`memory_timeline`: allocated and reserved memory over time, by what holds it."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.memory.categories import BEFORE, CATEGORIES
from warplens.analyses.memory.history import Ints
from warplens.analyses.memory.memory_work import Holders, MemoryWork, running_total
from warplens.model.table import Column, Table

MOST_ROWS: Final = 4000
"""Of one device: a page is 2,000 pixels wide, and of each pixel the lowest and the highest moment matter."""
COLUMNS = (
    Column("device", "GPU number", "", pl.String),
    Column(
        "start_ms",
        "from when on this holds, since the trace's start or a lone snapshot's first event",
        "ms",
        pl.Float64,
    ),
    Column("allocated_bytes", "allocated, as the allocator counts: sizes of blocks", "bytes", pl.Int64),
    Column("reserved_bytes", "reserved by the caching allocator; null where it is not recorded", "bytes", pl.Int64),
    *(
        Column(f"{name.replace(' ', '_')}_bytes", f"part of the allocated: {meaning}", "bytes", pl.Int64)
        for name, meaning in CATEGORIES.items()
    ),
    Column("is_peak", "where most is allocated", "", pl.Boolean),
)


def memory_timeline(work: MemoryWork) -> Table:
    frames = [_device_rows(device) for device in work.devices]
    empty = pl.DataFrame(schema={column.name: column.dtype for column in COLUMNS})
    events = sum(len(device.history.times_ns) for device in work.devices)
    frame = pl.concat([empty, *frames])
    thinned = [f"{events:,} moments thinned to {len(frame):,}; the peak is one of them"] if len(frame) < events else []
    return Table.from_frame("memory_timeline", "one row per moment of a device", COLUMNS, frame, *thinned)


def _device_rows(device: Holders) -> pl.DataFrame:
    history, held = device.history, device.held
    events = len(history.times_ns)
    if not events:
        return _last_moment(device)
    chosen = chosen_moments(history.allocated, history.peak_event)
    parts = held.partition_by("category", as_dict=True)
    columns: dict[str, object] = {}
    for name in CATEGORIES:
        part = parts.get((name,))
        total = np.zeros(events, np.int64)
        if part is not None:
            total = running_total(part, events)
        columns[f"{name.replace(' ', '_')}_bytes"] = total[chosen]
    columns[f"{BEFORE.replace(' ', '_')}_bytes"] += device.unrecorded[chosen]  # type: ignore[operator]
    reserved = None if history.reserved is None else history.reserved[chosen]
    return _frame(history.device, history.times_ns[chosen] / 1e6, history.allocated[chosen], reserved, columns,
                  chosen == max(0, history.peak_event))  # fmt: skip


def _last_moment(device: Holders) -> pl.DataFrame:
    """Of a snapshot without a history."""
    sums = dict(device.held.group_by("category").agg(pl.col("bytes").sum()).iter_rows())
    columns: dict[str, object] = {f"{name.replace(' ', '_')}_bytes": [sums.get(name, 0)] for name in CATEGORIES}
    segments = device.history.segments
    reserved = None if segments is None else np.array([segments["bytes"].sum()])
    allocated = np.array([device.history.first_allocated])
    return _frame(device.history.device, np.zeros(1), allocated, reserved, columns, np.ones(1, bool))


def _frame(
    device: str,
    times_ms: np.ndarray[tuple[int], np.dtype[np.float64]],
    allocated: Ints,
    reserved: Ints | None,
    columns: dict[str, object],
    is_peak: np.ndarray[tuple[int], np.dtype[np.bool_]],
) -> pl.DataFrame:
    values = {
        "device": [device] * len(times_ms),
        "start_ms": times_ms,
        "allocated_bytes": allocated,
        "reserved_bytes": pl.Series([None] * len(times_ms), dtype=pl.Int64) if reserved is None else reserved,
        **columns,
        "is_peak": is_peak,
    }
    return pl.DataFrame(values, schema={column.name: column.dtype for column in COLUMNS})


def chosen_moments(allocated: Ints, peak: int) -> Ints:
    """All moments, or of equal parts of a long history the first and the ones with the least and the most.

    >>> chosen_moments(np.array([1, 5, 2]), 1).tolist()
    [0, 1, 2]
    """
    if len(allocated) <= MOST_ROWS:
        return np.arange(len(allocated))
    edges = np.linspace(0, len(allocated), MOST_ROWS // 3 + 1).astype(np.int64)[:-1]
    ends = [*edges[1:].tolist(), len(allocated)]
    least = [start + int(np.argmin(allocated[start:end])) for start, end in zip(edges.tolist(), ends, strict=True)]
    most = [start + int(np.argmax(allocated[start:end])) for start, end in zip(edges.tolist(), ends, strict=True)]
    return np.unique(np.concatenate([edges, least, most, [max(peak, 0), len(allocated) - 1]]))

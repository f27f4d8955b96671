"""`allocations`: memory by the place that allocates it, with how long it is held."""

from __future__ import annotations

import polars as pl

from warplens.analyses.memory.history import NEVER
from warplens.analyses.memory.memory_work import Holders, MemoryWork
from warplens.model.table import Column, Table

PLACE = ("category", "module", "line", "op")
COLUMNS = (
    Column("device", "GPU number", "", pl.String),
    Column("line", "the user's line that allocates", "", pl.String),
    Column("module", "module that allocates, or whose parameter it is", "", pl.String),
    Column("op", "op that allocates", "", pl.String),
    Column("category", "what for; `warplens explain memory_peak` defines each", "", pl.String),
    Column("count", "allocations", "", pl.Int64),
    Column("total_bytes", "sum of all of them, whenever they were", "bytes", pl.Int64),
    Column("largest_bytes", "the largest", "bytes", pl.Int64),
    Column("requested_bytes", "sum of what the program asked for; the rest is rounding", "bytes", pl.Int64),
    Column("live_at_peak_bytes", "held when most is allocated", "bytes", pl.Int64),
    Column("live_at_end_bytes", "held when the recording ends", "bytes", pl.Int64),
    Column("median_life_ms", "how long one is held; null where none was both allocated and freed", "ms", pl.Float64),
    Column("freed", "freed before the recording ends", "", pl.Int64),
    Column("held_before", "allocated before the recording begins", "", pl.Int64),
)


def allocations(work: MemoryWork) -> Table:
    frames = [_device_rows(device) for device in work.devices]
    frame = pl.concat([pl.DataFrame(schema={column.name: column.dtype for column in COLUMNS}), *frames])
    return Table.from_frame("allocations", "one row per device and place that allocates", COLUMNS, frame)


def _device_rows(device: Holders) -> pl.DataFrame:
    history = device.history
    times = pl.Series("time", history.times_ns, dtype=pl.Int64)
    events, peak = len(times), history.peak_event
    begin, end = pl.col("begin"), pl.col("end")
    complete = (begin >= 0) & (end < events)
    held = device.held
    life = (
        times.gather(held["end"].clip(0, max(0, events - 1))) - times.gather(held["begin"].clip(0, max(0, events - 1)))
        if events
        else pl.Series([0] * len(held), dtype=pl.Int64)
    )
    at_peak = (begin <= peak) & (end > peak)
    frame = held.with_columns((life / 1e6).alias("life_ms")).group_by(PLACE).agg(
        pl.len().cast(pl.Int64).alias("count"),
        pl.col("bytes").sum().alias("total_bytes"),
        pl.col("bytes").max().alias("largest_bytes"),
        pl.col("requested_bytes").sum(),
        pl.col("bytes").filter(at_peak).sum().alias("live_at_peak_bytes"),
        pl.col("bytes").filter(end == NEVER).sum().alias("live_at_end_bytes"),
        pl.col("life_ms").filter(complete).median().alias("median_life_ms"),
        (end < NEVER).sum().cast(pl.Int64).alias("freed"),
        (begin < 0).sum().cast(pl.Int64).alias("held_before"),
    )  # fmt: skip
    ordered = frame.sort("live_at_peak_bytes", "total_bytes", *PLACE, descending=[True, True] + [False] * len(PLACE))
    return ordered.with_columns(pl.lit(history.device).alias("device")).select(column.name for column in COLUMNS)

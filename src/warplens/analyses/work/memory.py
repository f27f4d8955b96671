"""`memory` and `memory_ops`: what the allocator recorded, if the trace was made with profile_memory=True."""

from __future__ import annotations

import numpy as np
import polars as pl

from warplens.analyses.missing_data import torch_hint
from warplens.analyses.time.host_activity import innermost_at
from warplens.analyses.workspace import Workspace
from warplens.model.kinds import CODE
from warplens.model.table import Column, Table
from warplens.passes.climb import climb

ABSENT = "no memory events in this trace"
OUTSIDE = "(outside any op)"
HOW_TO_RECORD = ": record with profile_memory=True"


def memory(work: Workspace) -> Table:
    recorded_sizes = [
        pl.when(pl.col(name) >= 0).then(name).alias(name) for name in ("allocated_bytes", "reserved_bytes")
    ]
    frame = _with_ops(work).with_columns(recorded_sizes)
    peak = pl.col("allocated_bytes").arg_max()
    per_device = (
        frame.group_by("device")
        .agg(
            (pl.col("bytes") > 0).sum().cast(pl.Int64).alias("allocations"),
            (pl.col("bytes") < 0).sum().cast(pl.Int64).alias("frees"),
            pl.col("bytes").filter(pl.col("bytes") > 0).sum().alias("requested_bytes"),
            # The totals of an event are those after it.
            (pl.col("allocated_bytes") - pl.col("bytes")).first().alias("first_allocated_bytes"),
            pl.col("allocated_bytes").max().alias("peak_allocated_bytes"),
            pl.col("reserved_bytes").max().alias("peak_reserved_bytes"),
            (pl.col("start_ns").get(peak) / 1e6).alias("peak_ms"),
            pl.col("op").get(peak).alias("peak_op"),
        )
        .sort("device")
    )
    columns = (
        Column("device", "GPU number or CPU", "", pl.String),
        Column("allocations", "allocations recorded", "", pl.Int64),
        Column("frees", "frees recorded", "", pl.Int64),
        Column("requested_bytes", "sum of all allocations", "bytes", pl.Int64),
        Column("first_allocated_bytes", "allocated when recording began", "bytes", pl.Int64),
        Column("peak_allocated_bytes", "most allocated at one time", "bytes", pl.Int64),
        Column("peak_reserved_bytes", "most reserved by the caching allocator", "bytes", pl.Int64),
        Column("peak_ms", "when the peak was reached, since the trace's start", "ms", pl.Float64),
        Column("peak_op", "op that reached it", "", pl.String),
    )
    return Table.from_frame("memory", "one row per device", columns, per_device, *_absent(work))


def memory_ops(work: Workspace) -> Table:
    named = pl.when(pl.col("op") == "").then(pl.lit(OUTSIDE)).otherwise("op").alias("op")
    grown = _with_ops(work).filter(pl.col("bytes") > 0).with_columns(named)
    frame = (
        grown.group_by("device", "op")
        .agg(
            pl.len().cast(pl.Int64).alias("allocations"),
            pl.col("bytes").sum().alias("requested_bytes"),
            pl.col("bytes").max().alias("largest_bytes"),
        )
        .sort("requested_bytes", "device", "op", descending=[True, False, False])
    )
    columns = (
        Column("device", "GPU number or CPU", "", pl.String),
        Column("op", "innermost op at the time of the allocation", "", pl.String),
        Column("allocations", "allocations it made", "", pl.Int64),
        Column("requested_bytes", "their sum", "bytes", pl.Int64),
        Column("largest_bytes", "the largest", "bytes", pl.Int64),
    )
    return Table.from_frame("memory_ops", "one row per device and op that allocates", columns, frame, *_absent(work))


def _absent(work: Workspace) -> tuple[str, ...]:
    return () if len(work.trace.memory) else (ABSENT + torch_hint(work, HOW_TO_RECORD),)


def _with_ops(work: Workspace) -> pl.DataFrame:
    trace = work.trace
    frame = trace.memory
    lane, moment = frame["lane"].to_numpy().astype(np.int64), frame["start_ns"].to_numpy()
    inner = innermost_at(trace, lane, moment)
    op = climb(inner, trace.ints("parent"), trace.ints("kind") == CODE["op"])
    return frame.with_columns(trace.names_at(op).alias("op"))


def has_memory(work: Workspace) -> bool:
    """Whether it is recorded what the GPU's memory is used for: by an allocator's snapshot, or a profiler's events with
    the allocator's totals."""
    if work.read_memory is not None:
        return True
    events = work.trace.memory
    return len(events) > 0 and bool((events["device"].str.starts_with("GPU") & (events["allocated_bytes"] >= 0)).any())


def memory_instead(work: Workspace) -> str:
    """Of a trace without `has_memory`: that its memory events are of no use for who holds the GPU's memory, and why."""
    devices = work.trace.memory["device"].unique().to_list()
    if not devices:
        return ""
    if any(device.startswith("GPU") for device in devices):
        return "; the memory events of this trace have no totals of the allocator: see memory_ops"
    return "; it is about the memory of GPUs, and this trace has only memory events of the CPU: see memory_ops"

"""The history of memory as a profiler records it beside the ops: sizes of blocks, totals after each event, addresses.

What was allocated before is part of the totals only; XLA's events have no addresses, so that nobody knows what a free
gives back: all of that is held by nobody on record.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from warplens.analyses.memory.history import NEVER, DeviceHistory, MemoryHistory
from warplens.model.trace import Trace


def _of_gpus(trace: Trace) -> pl.DataFrame:
    frame = trace.memory.with_row_index("row")
    return frame.filter((pl.col("allocated_bytes") >= 0) & pl.col("device").str.starts_with("GPU"))


def profiled_history(trace: Trace) -> MemoryHistory:
    frames = _of_gpus(trace).partition_by("device", as_dict=True, maintain_order=True)
    ordered = sorted(frames.items(), key=lambda item: (len(str(item[0][0])), str(item[0][0])))
    return MemoryHistory(tuple(_device(str(device), frame) for (device,), frame in ordered))


def event_rows(trace: Trace, device: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Rows of `trace.memory` of a device's events, in their order."""
    return _of_gpus(trace).filter(pl.col("device") == device)["row"].to_numpy().astype(np.int64)


def _device(device: str, frame: pl.DataFrame) -> DeviceHistory:
    allocated, reserved = frame["allocated_bytes"].to_numpy(), frame["reserved_bytes"].to_numpy()
    held = held_of(frame.select("address", "bytes"))
    first = int(allocated[0]) - int(frame["bytes"][0])
    return DeviceHistory(
        device,
        frame["start_ns"].to_numpy(),
        allocated,
        reserved if (reserved >= 0).all() else None,
        held,
        max(0, first),
    )


def held_of(events: pl.DataFrame) -> pl.DataFrame:
    """Allocations, each with the free that follows it at its address; frees without one end what was there before.

    In the order of the events that show them first.
    """
    takes, size = pl.col("bytes") > 0, pl.col("bytes").abs()
    rows = (
        events.select(pl.int_range(pl.len(), dtype=pl.Int64).alias("event"), "address", "bytes")
        .filter((pl.col("address") >= 0) & (pl.col("bytes") != 0))
        .with_columns(
            # Of the events at this address the next one and the one before; null where there is none.
            next_event=pl.col("event").shift(-1).over("address"),
            next_bytes=pl.col("bytes").shift(-1).over("address"),
            bytes_before=pl.col("bytes").shift(1).over("address"),
        )
    )
    ends_here = ~takes & ~(pl.col("bytes_before") > 0).fill_null(value=False)
    return rows.filter(takes | ends_here).select(
        "address",
        size,
        size.alias("requested_bytes"),
        pl.when(takes).then("event").otherwise(pl.lit(-1, pl.Int64)).alias("begin"),
        pl.when(~takes).then("event").when(pl.col("next_bytes") < 0).then("next_event").otherwise(NEVER).alias("end"),
        pl.lit(-1, pl.Int64).alias("stack"),
        pl.lit(-1, pl.Int64).alias("end_stack"),
    )

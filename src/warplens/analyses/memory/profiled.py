"""The history of memory as a profiler records it beside the ops: sizes of blocks, totals after each event, addresses.

What was allocated before is part of the totals only; XLA's events have no addresses, so that nobody knows what a free
gives back: all of that is held by nobody on record.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from warplens.analyses.memory.history import HELD, NEVER, DeviceHistory, MemoryHistory
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
    rows: list[list[int]] = []
    live: dict[int, list[int]] = {}
    for number, (size, address) in enumerate(frame.select("bytes", "address").iter_rows()):
        if address < 0:
            continue
        if size > 0:
            live[address] = [address, size, size, number, NEVER, -1, -1]
            rows.append(live[address])
        elif size < 0:
            freed = live.pop(address, None)
            if freed is None:
                freed = [address, -size, -size, -1, NEVER, -1, -1]
                rows.append(freed)
            freed[4] = number
    held = pl.DataFrame(rows, schema=HELD, orient="row")
    first = int(allocated[0]) - int(frame["bytes"][0])
    return DeviceHistory(
        device,
        frame["start_ns"].to_numpy(),
        allocated,
        reserved if (reserved >= 0).all() else None,
        held,
        max(0, first),
    )

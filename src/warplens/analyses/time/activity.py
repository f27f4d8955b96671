"""`activity`: how busy the GPUs were over time, in equal slices."""

from __future__ import annotations

import numpy as np
import polars as pl

from warplens.analyses.workspace import Workspace
from warplens.model.intervals import covered_until, union
from warplens.model.table import Column, Table, frame_of_rows

SLICES = 100
COLUMNS = (
    Column("start_ms", "start of the slice, since the trace's start", "ms", pl.Float64),
    Column("end_ms", "its end", "ms", pl.Float64),
    Column("busy_percent", "share of the slice in which any GPU worked", "%", pl.Float64),
)


def activity(work: Workspace) -> Table:
    start = work.gpu["start_ns"].to_numpy()
    busy = union(start, start + work.gpu["dur_ns"].to_numpy())
    frame = frame_of_rows(COLUMNS, [])
    if len(busy.starts):
        edges = np.linspace(int(busy.starts[0]), int(busy.ends[-1]), SLICES + 1).astype(np.int64)
        covered = np.diff(covered_until(busy, edges))
        width = np.maximum(np.diff(edges), 1)
        frame = pl.DataFrame(
            {"start_ms": edges[:-1] / 1e6, "end_ms": edges[1:] / 1e6, "busy_percent": 100 * covered / width}
        )
    return Table.from_frame("activity", f"one row per slice ({SLICES} over the GPU's time)", COLUMNS, frame)

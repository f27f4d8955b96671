"""`python_lines` of call paths: GPU time by the line of the user's own code that was running."""

from __future__ import annotations

import numpy as np
import polars as pl

from warplens.analyses.paths.kernels import CALLS, NO_FLOAT, UNKNOWN
from warplens.analyses.paths.workspace import PathWorkspace
from warplens.analyses.work.kernels import PERCENT, TOTAL_US
from warplens.analyses.work.modules import BACKWARD, FORWARD, NO_FRAME, frame_parts
from warplens.analyses.workspace import percent_of
from warplens.model.table import Column, Table

COLUMNS = (
    Column("file", "source file of the innermost frame outside the framework", "", pl.String),
    Column("line", "line that was running", "", pl.Int64),
    Column("function", "its function", "", pl.String),
    Column("count", "GPU events launched from it", "", pl.Int64),
    Column(FORWARD.name, FORWARD.meaning + UNKNOWN, FORWARD.unit, pl.Float64),
    Column(BACKWARD.name, BACKWARD.meaning + UNKNOWN, BACKWARD.unit, pl.Float64),
    Column("kernel_us", "GPU time", "us", pl.Float64),
    PERCENT,
)


def python_lines(work: PathWorkspace) -> Table:
    lines = work.user_line[work.kernel_nodes]
    names = [work.tree.name[node] if node >= 0 else NO_FRAME for node in lines.tolist()]
    frame = (
        work.gpu.with_columns(pl.Series("frame", names, dtype=pl.String))
        .group_by("frame")
        .agg(CALLS, TOTAL_US)
        .rename({"total_us": "kernel_us"})
    )
    parts = [frame_parts(text) for text in frame["frame"].to_list()]
    frame = frame.with_columns(
        pl.Series("file", [part[0] for part in parts], dtype=pl.String),
        pl.Series("line", [part[1] for part in parts], dtype=pl.Int64),
        pl.Series("function", [part[2] for part in parts], dtype=pl.String),
        NO_FLOAT.alias("forward_us"),
        NO_FLOAT.alias("backward_us"),
        percent_of("kernel_us", work.gpu_total_ns).alias("percent"),
    ).sort("kernel_us", "file", "line", descending=[True, False, False])
    notes = () if np.any(lines >= 0) else ("no Python frames in this profile",)
    return Table.from_frame("python_lines", "one row per line of Python (file:line)", COLUMNS, frame, *notes)

"""`short_kernels` and `kernel_durations`: GPU events too short to be worth their launch, and how all are spread."""

from __future__ import annotations

import numpy as np
import polars as pl

from warplens.analyses.work.kernels import CATEGORY, PERCENT, STEP_TIME, STEP_US, TOTAL, TOTAL_US, US
from warplens.analyses.workspace import Workspace, percent_of
from warplens.model.arrays import sorted_by
from warplens.model.table import Column, Table
from warplens_run.base.units import format_ns

EDGES_US = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 100_000)


def short_kernels(work: Workspace) -> Table:
    is_short = pl.col("dur_ns") < work.options.short_ns
    short = work.gpu.filter(is_short)
    frame = (
        short.group_by("name")
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            TOTAL_US,
            US.mean().alias("mean_us"),
            STEP_US,
            pl.col("in_graph").sum().cast(pl.Int64).alias("graph_count"),
        )
        .join(_usual_ops(short), on="name", how="left")
        .join(work.kernel_facts, on="name", how="left")
        .with_columns(percent_of("total_us", work.gpu_total_ns).alias("percent"))
        .pipe(sorted_by, "count", "total_us", "kernel_order", descending=["count", "total_us"])
    )
    columns = (
        Column("kernel", "name as recorded", "", pl.String),
        CATEGORY,
        Column("count", "launches shorter than the threshold", "", pl.Int64),
        TOTAL,
        Column("mean_us", "their mean duration", "us", pl.Float64),
        PERCENT,
        Column("op", "op that launches it most often", "", pl.String),
        Column("kernel_short", "readable short form of the name", "", pl.String),
        STEP_TIME,
        Column("graph_count", "launches inside a CUDA or HIP graph, which cost no launch on the host", "", pl.Int64),
    )
    share = 100 * len(short) / max(1, len(work.gpu))
    limit = format_ns(work.options.short_ns)
    note = f"{len(short):,} of {len(work.gpu):,} GPU events ({share:.1f} %) are under {limit}"
    notes = (note,) if len(work.gpu) else ()
    return Table.from_frame("short_kernels", "one row per kernel with short launches", columns, frame, *notes)


def _usual_ops(events: pl.DataFrame) -> pl.DataFrame:
    """The op that launches each kernel most often, of equal ones the first by name."""
    counts = events.group_by("name", "op").len()
    if counts["name"].n_unique() < len(counts):  # else each has one op, as nearly always, and sorting is half the work
        counts = counts.sort("len", "op", descending=[True, False]).unique("name", keep="first", maintain_order=True)
    return counts.select("name", "op")


def kernel_durations(work: Workspace) -> Table:
    duration = work.gpu["dur_ns"].to_numpy() / 1000
    bucket = np.searchsorted(EDGES_US, duration, side="right") - 1
    count = np.bincount(bucket, minlength=len(EDGES_US))
    total = np.bincount(bucket, weights=duration, minlength=len(EDGES_US))
    frame = pl.DataFrame(
        {
            "from_us": [float(edge) for edge in EDGES_US],
            "to_us": [*map(float, EDGES_US[1:]), None],
            "count": count,
            "total_us": total,
        },
        schema={"from_us": pl.Float64, "to_us": pl.Float64, "count": pl.Int64, "total_us": pl.Float64},
    ).with_columns(percent_of("total_us", work.gpu_total_ns).alias("percent"))
    columns = (
        Column("from_us", "shortest duration of the bucket", "us", pl.Float64),
        Column("to_us", "durations are below this; empty: no limit", "us", pl.Float64),
        Column("count", "GPU events of such a duration", "", pl.Int64),
        TOTAL,
        PERCENT,
    )
    frame = frame if len(work.gpu) else frame.clear()
    return Table.from_frame("kernel_durations", "one row per bucket of durations", columns, frame)

"""`kernel_categories`, `kernels` and `launch_categories` of call paths: the same columns as of a trace."""

from __future__ import annotations

import polars as pl

from warplens.analyses.paths.workspace import PathWorkspace
from warplens.analyses.work.kernels import CATEGORY, COUNT, PERCENT, TOTAL, TOTAL_US, kernel_columns, with_share_of_op
from warplens.analyses.workspace import percent_of
from warplens.model.table import Column, Table

OP = Column("op", "innermost scope or Python frame around the kernel", "", pl.String)
UNKNOWN = "; not known without a timeline"
CALLS = pl.col("count").sum()
NO_FLOAT, NO_INT = pl.lit(None, pl.Float64), pl.lit(None, pl.Int64)


def kernel_categories(work: PathWorkspace) -> Table:
    frame = (
        work.gpu.group_by("kernel_category")
        .agg(CALLS, TOTAL_US)
        .with_columns(percent_of("total_us", work.gpu_total_ns).alias("percent"))
        .sort("total_us", "kernel_category", descending=[True, False])
    )
    return Table.from_frame(
        "kernel_categories", "one row per kernel category", (CATEGORY, COUNT, TOTAL, PERCENT), frame
    )


def kernels(work: PathWorkspace) -> Table:
    order = ["op", "kernel", "device"]
    frame = (
        work.gpu.group_by("op", "op_category", "kernel_category", "kernel", "kernel_short", "device")
        .agg(CALLS, TOTAL_US)
        .with_columns(
            (pl.when(pl.col("count") > 0).then(pl.col("total_us") / pl.col("count"))).alias("mean_us"),
            percent_of("total_us", work.gpu_total_ns).alias("percent"),
            NO_INT.alias("stream"),
            NO_FLOAT.alias("min_us"),
            NO_FLOAT.alias("max_us"),
            NO_FLOAT.alias("step_us"),
        )
        .sort("total_us", *order, descending=[True, *[False] * len(order)])
    )
    return Table.from_frame("kernels", "one row per scope or frame, kernel and GPU", kernel_columns(OP, UNKNOWN), frame)


def launch_categories(work: PathWorkspace) -> Table:
    frame = (
        work.gpu.group_by("op", "kernel_category")
        .agg(CALLS, TOTAL_US, pl.col("in_graph").any().alias("is_graph"))
        .pipe(with_share_of_op)
    )
    columns = (
        OP,
        CATEGORY,
        COUNT,
        TOTAL,
        Column("percent_of_op", "share of the GPU time of this scope or frame", "%", pl.Float64),
        Column("is_graph", "its kernels, or some of them, come from a CUDA or HIP graph", "", pl.Boolean),
    )
    return Table.from_frame("launch_categories", "one row per scope or frame and kernel category", columns, frame)

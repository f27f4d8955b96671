"""`kernel_categories`, `kernels` and `launch_categories`: GPU time by what ran and who launched it."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from warplens.analyses.workspace import Workspace, percent_of
from warplens.model.arrays import sorted_by
from warplens.model.table import Column, Table
from warplens.passes.survey import GRAPH_LAUNCH

US = pl.col("dur_ns") / 1000
TOTAL_US = (pl.col("dur_ns").sum() / 1000).alias("total_us")
"""Summed in whole nanoseconds, so that parts add up exactly."""
EVENTS = pl.len().cast(pl.Int64).alias("count")
CATEGORY = Column("kernel_category", "what the kernel does, derived from its name", "", pl.String)
COUNT = Column("count", "GPU events (kernels, copies, memsets)", "", pl.Int64)
TOTAL = Column("total_us", "sum of their durations", "us", pl.Float64)
PERCENT = Column("percent", "share of the summed duration of all GPU events", "%", pl.Float64)
STEP_TIME = Column("step_us", "the part of the total time that belongs to a marked step", "us", pl.Float64)
STEP_US = (pl.col("dur_ns").filter(pl.col("step") >= 0).sum() / 1000).alias("step_us")
OP = Column("op", "innermost framework op around the launch; the launching call where there is no op", "", pl.String)
OP_CATEGORY = Column("op_category", "kind of op, from its name or else from its kernels", "", pl.String)


def kernel_columns(op: Column, unknown: str = "") -> tuple[Column, ...]:
    """The columns of `kernels`; `unknown` is said of those that only a timeline can fill."""
    return (
        op,
        OP_CATEGORY,
        CATEGORY,
        Column("kernel", "name as recorded", "", pl.String),
        Column("stream", "GPU stream (queue)" + unknown, "", pl.Int64),
        COUNT,
        TOTAL,
        Column("mean_us", "mean duration", "us", pl.Float64),
        Column("min_us", "shortest" + unknown, "us", pl.Float64),
        Column("max_us", "longest" + unknown, "us", pl.Float64),
        PERCENT,
        Column("kernel_short", "readable short form of the name", "", pl.String),
        Column("device", "GPU number", "", pl.Int32),
        replace(STEP_TIME, meaning=STEP_TIME.meaning + unknown),
    )


def with_share_of_op(frame: pl.DataFrame) -> pl.DataFrame:
    """Times per op and category with their share of the op's, the heaviest op first."""
    return (
        frame.with_columns(pl.col("total_us").sum().over("op").alias("op_us"))
        .with_columns((100 * pl.col("total_us") / pl.col("op_us")).fill_nan(0).round(6).alias("percent_of_op"))
        .sort("op_us", "op", "total_us", "kernel_category", descending=[True, False, True, False])
    )


def kernel_categories(work: Workspace) -> Table:
    frame = (
        work.gpu.group_by("kernel_category")
        .agg(EVENTS, TOTAL_US)
        .with_columns(percent_of("total_us", work.gpu_total_ns).alias("percent"))
        .sort("total_us", "kernel_category", descending=[True, False])
    )
    return Table.from_frame(
        "kernel_categories", "one row per kernel category", (CATEGORY, COUNT, TOTAL, PERCENT), frame
    )


def kernels(work: Workspace) -> Table:
    frame = (
        # By the name's number: the names themselves have hundreds of characters each.
        work.gpu.group_by("op", "op_category", "name", "device", "stream")
        .agg(
            EVENTS,
            TOTAL_US,
            US.mean().alias("mean_us"),
            US.min().alias("min_us"),
            US.max().alias("max_us"),
            STEP_US,
        )
        .join(work.kernel_facts, on="name", how="left")
        .with_columns(percent_of("total_us", work.gpu_total_ns).alias("percent"))
        .pipe(sorted_by, "total_us", "op", "kernel_order", "device", "stream", descending=["total_us"])
    )
    return Table.from_frame("kernels", "one row per op, kernel, stream and GPU", kernel_columns(OP), frame)


def launch_categories(work: Workspace) -> Table:
    keys = ["op", "kernel_category"]
    frame = (
        work.gpu.group_by(keys)
        .agg(EVENTS, TOTAL_US, pl.col("in_graph").any())
        # A recorded call path books the kernels of a graph on their own ops, which launch no graph.
        .with_columns((pl.col("in_graph") & pl.col("op").str.contains(GRAPH_LAUNCH, literal=True)).alias("is_graph"))
        .pipe(with_share_of_op)
    )
    columns = (
        OP,
        CATEGORY,
        COUNT,
        TOTAL,
        Column("percent_of_op", "share of the op's GPU time; for a graph launch, of the graph's time", "%", pl.Float64),
        Column("is_graph", "the op is a CUDA or HIP graph launch", "", pl.Boolean),
    )
    return Table.from_frame("launch_categories", "one row per op (or graph launch) and kernel category", columns, frame)

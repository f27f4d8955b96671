"""`graph_joins` and `graph_ops`: launches of GPU graphs, what they were captured as, and what their time is made of."""

from __future__ import annotations

from typing import Final

import polars as pl

from warplens.analyses.work.kernels import OP, PERCENT
from warplens.analyses.workspace import Workspace, percent_of
from warplens.model.table import Column, Table

NO_GRAPHS: Final = "no GPU event of this trace comes from a graph launch"
GRAPH: Final = Column("graph", "number of the graph: launches that run the same GPU events have one", "", pl.Int64)
JOIN_COLUMNS: Final = (
    GRAPH,
    Column("captured_as", "annotation of its capture, and its number among the captures under it", "", pl.String),
    Column("launches", "launches of the graph", "", pl.Int64),
    Column("kernels", "GPU events of these launches", "", pl.Int64),
    Column("joined_kernels", "those that have the op, line and module of a captured launch", "", pl.Int64),
    Column("total_us", "GPU time of these launches", "us", pl.Float64),
    Column("joined_percent", "share of that time that is joined", "%", pl.Float64),
    PERCENT,
    Column("why_not", "why it is not, or not wholly, joined; empty where it is", "", pl.String),
    Column("capture_file", "file of the capture; empty where it is in the trace itself", "", pl.String),
)
OP_COLUMNS: Final = (
    Column("captured_as", "annotation of the capture; empty for graphs without one", "", pl.String),
    OP,
    Column("input_dims", "shapes of the op's inputs, as captured", "", pl.String),
    Column("input_types", "dtypes of the op's inputs", "", pl.String),
    Column("calls", "calls of the op, over all launches", "", pl.Int64),
    Column("count", "GPU events", "", pl.Int64),
    Column("total_us", "GPU time", "us", pl.Float64),
    Column("percent_of_graph", "share of the GPU time of the graphs that were captured so", "%", pl.Float64),
    PERCENT,
    Column("kernels", "the kernels it runs", "", pl.String),
)
OPS_MEANING: Final = "one row per capture, op and shapes"
NUMBER: Final = r" #\d+$"
"""The end of `captured_as`, which tells captures under one annotation apart."""


def graph_joins(work: Workspace) -> Table:
    launches = work.trace.graph_launches
    missing = (pl.col("events") - pl.col("joined")).sum()
    noun = pl.when(missing == 1).then(pl.lit("kernel is")).otherwise(pl.lit("kernels are"))
    why = pl.when((pl.col("why").first() == "") & (missing > 0)).then(
        pl.format("{} {} not in the capture", missing, noun)
    )
    frame = (
        launches.group_by("graph", "captured_as", "capture_file", "why", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("launches"),
            pl.col("events").sum().alias("kernels"),
            pl.col("joined").sum().alias("joined_kernels"),
            (pl.col("gpu_ns").sum() / 1000).alias("total_us"),
            (100 * pl.col("joined_ns").sum() / pl.max_horizontal(pl.col("gpu_ns").sum(), 1)).alias("joined_percent"),
            why.otherwise(pl.col("why").first()).alias("why_not"),
        )
        .with_columns(percent_of("total_us", work.gpu_total_ns).alias("percent"), pl.col("graph").cast(pl.Int64) + 1)
        .sort("total_us", descending=True, maintain_order=True)
    )
    notes = () if len(launches) else (NO_GRAPHS,)
    return Table.from_frame("graph_joins", "one row per graph and capture", JOIN_COLUMNS, frame, *notes)


def graph_ops(work: Workspace) -> Table:
    if work.trace.graph_launches.is_empty():
        frame = pl.DataFrame(schema={column.name: column.dtype for column in OP_COLUMNS})
        return Table.from_frame("graph_ops", OPS_MEANING, OP_COLUMNS, frame, NO_GRAPHS)
    whole = pl.col("total_us").sum().over("captured_as")
    frame = (
        _events_of_graphs(work)
        .group_by("captured_as", "op", "input_dims", "input_types", maintain_order=True)
        .agg(
            pl.col("owner").n_unique().cast(pl.Int64).alias("calls"),
            pl.len().cast(pl.Int64).alias("count"),
            (pl.col("dur_ns").sum() / 1000).alias("total_us"),
            pl.col("kernel_short").unique(maintain_order=True).str.join(" + ").alias("kernels"),
        )
        .with_columns(
            (100 * pl.col("total_us") / whole).fill_nan(0.0).round(6).alias("percent_of_graph"),
            percent_of("total_us", work.gpu_total_ns).alias("percent"),
        )
        .sort("total_us", "op", descending=[True, False], maintain_order=True)
    )
    return Table.from_frame("graph_ops", OPS_MEANING, OP_COLUMNS, frame)


def _events_of_graphs(work: Workspace) -> pl.DataFrame:
    """One row per GPU event of a graph launch, with the op it belongs to and that op's inputs."""
    trace = work.trace
    launch, spec = pl.col("launch").cast(pl.Int64), pl.col("spec").cast(pl.Int32)
    launches = trace.graph_launches.select(
        pl.col("id").cast(pl.Int64).alias("launch"), pl.col("captured_as").str.replace(NUMBER, "")
    )
    events = work.gpu.select(launch, "op", "owner", "dur_ns", "kernel_short")
    events = events.join(launches, on="launch", how="inner", maintain_order="left")
    specs = trace.specs.select("input_dims", "input_types").with_row_index("spec").with_columns(spec)
    return (
        events.with_columns(trace.events["spec"].gather(events["owner"]))
        .join(specs, on="spec", how="left", maintain_order="left")
        .with_columns(pl.col("input_dims", "input_types").fill_null(""))
    )

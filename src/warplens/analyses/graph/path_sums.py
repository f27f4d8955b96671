"""`critical_path_sums`: where the time of the critical path goes, by what it is spent on and by who spends it."""

from __future__ import annotations

from typing import Final

import polars as pl

from warplens.analyses.graph.building import NO_GRAPH, has_graph
from warplens.analyses.graph.critical_path import critical_path
from warplens.analyses.workspace import Workspace
from warplens.model.table import Column, Table

ON_HOST: Final = ("host", "launch")
GROUPS: Final = {
    "kind": "the kind of segment",
    "category": "the category of the kernel or copy; of other segments their kind",
    "op": "the framework op",
    "module": "the nn.Module, where stacks are recorded",
    "python_line": "the Python function, where stacks are recorded",
}
COLUMNS = (
    Column("by", f"what the path is divided by: {', '.join(GROUPS)}", "", pl.String),
    Column("name", "the kind, category, op, module or Python function; (none) where there is none", "", pl.String),
    Column("time_us", "its time on the path", "us", pl.Float64),
    Column("percent", "the same as a share of the path; each division has 100 % in all", "%", pl.Float64),
    Column("count", "segments", "", pl.Int64),
    Column("host_us", "the part in which the host works or launches", "us", pl.Float64),
    Column("work_us", "the part in which kernels and copies run", "us", pl.Float64),
    Column("wait_us", "the rest: latencies, pauses, waits and syncs", "us", pl.Float64),
)
MEANING: Final = "one row per kind, category, op, module and Python function on the critical path"
NOTE: Final = "each division (column by) is of the whole path; do not add them up"


def critical_path_sums(work: Workspace) -> Table:
    if not has_graph(work):
        return Table.from_rows("critical_path_sums", MEANING, COLUMNS, [], NO_GRAPH)
    time, kind = pl.col("time_us"), pl.col("kind")
    segments = critical_path(work).frame.with_columns(
        pl.when(kind == "work").then("kernel_category").otherwise("kind").alias("category"),
        (time * kind.is_in(ON_HOST)).alias("host_us"),
        (time * (kind == "work")).alias("work_us"),
    )
    recorded = [by for by in GROUPS if by not in ("module", "python_line") or (segments[by] != "").any()]
    parts = [_summed(segments, by) for by in recorded]
    return Table.from_frame("critical_path_sums", MEANING, COLUMNS, pl.concat(parts), NOTE)


def _summed(segments: pl.DataFrame, by: str) -> pl.DataFrame:
    name = pl.when(pl.col(by) == "").then(pl.lit("(none)")).otherwise(by).alias("name")
    sums = segments.group_by(name).agg(
        pl.col("time_us", "percent", "host_us", "work_us").sum(), pl.len().cast(pl.Int64).alias("count")
    )
    return sums.with_columns(
        pl.lit(by).alias("by"), (pl.col("time_us") - pl.col("host_us") - pl.col("work_us")).alias("wait_us")
    ).sort("time_us", "name", descending=[True, False])

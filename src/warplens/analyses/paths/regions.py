"""`regions` of call paths: the cycles that warps spent in the regions that a kernel's author marked for Proton."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.paths.workspace import PathWorkspace
from warplens.model.table import Column, DType, Table

CYCLES: Final = "cycles"
COLUMNS: Final = (
    Column("kernel", "the kernel that was instrumented", "", pl.String),
    Column("region", "name of the region; of a nested one with those around it", "", pl.String),
    Column("percent", "share of the cycles in the kernel's outermost regions", "%", pl.Float64),
    Column("cycles", "cycles of all warps in it, regions inside included", "", pl.Float64),
)
MEANING: Final = (
    "cycles of all warps, many of which run at once: they do not add up to the kernel's time; recorded as a trace, "
    "regions have their times by warp"
)


def regions(work: PathWorkspace) -> Table:
    tree = work.tree
    cycles = tree.total(CYCLES) if CYCLES in tree.metrics else np.zeros(len(tree))
    kernel_of = work.nearest([kind == "kernel" for kind in tree.kind])
    is_region = [kind == "gpu_annotation" for kind in tree.kind] if CYCLES in tree.metrics else []
    rows = []
    for node in np.flatnonzero(is_region).tolist():
        kernel = int(kernel_of[node])
        if kernel < 0:  # in a damaged file
            continue
        names = tree.path(node)[len(tree.path(kernel)) :]
        outer = float(cycles[node]) if len(names) == 1 else 0.0
        rows.append((tree.name[kernel], " / ".join(names), float(cycles[node]), outer))
    schema: dict[str, DType] = {"kernel": pl.String, "region": pl.String, CYCLES: pl.Float64, "outer": pl.Float64}
    frame = (
        pl.DataFrame(rows, schema=schema, orient="row")
        .group_by("kernel", "region")
        .agg(pl.col(CYCLES, "outer").sum())
        # A damaged file can have regions inside of others that have no cycles.
        .with_columns(whole=pl.max_horizontal(pl.col("outer").sum(), pl.col(CYCLES).max()).over("kernel").clip(1))
        .with_columns((100 * pl.col(CYCLES).clip(0) / pl.col("whole")).alias("percent"))
        .sort("kernel", CYCLES, "region", descending=[False, True, False])
    )
    return Table.from_frame("regions", "one row per kernel and region", COLUMNS, frame, *([MEANING] if rows else []))

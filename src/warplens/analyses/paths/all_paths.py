"""`call_paths`: the whole tree as rows."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.paths.metric_columns import metric_columns
from warplens.analyses.paths.workspace import PathWorkspace
from warplens.analyses.trees.rates import inclusive
from warplens.analyses.work.kernels import PERCENT
from warplens.analyses.workspace import percent_of
from warplens.model.table import Column, Table

COLUMNS = (
    Column("node", "number of the node; parents come before their children", "", pl.Int64),
    Column("parent", "node above it, empty for the root", "", pl.Int64),
    Column("depth", "nodes above it", "", pl.Int64),
    Column("name", "scope, frame, kernel or source line", "", pl.String),
    Column("kind", "kind of the node", "", pl.String),
    Column("total_us", "GPU time of the node and all below it", "us", pl.Float64),
    Column("self_us", "GPU time of the node alone", "us", pl.Float64),
    Column("count", "GPU events, or calls where the profile counts those", "", pl.Int64),
    PERCENT,
)
TAKEN: Final = frozenset(column.name for column in COLUMNS)


def call_paths(work: PathWorkspace) -> Table:
    tree = work.tree
    order = np.array([node for node, _ in tree.walk()], np.int64)
    row = np.empty(len(tree), np.int64)
    row[order] = np.arange(len(tree))
    columns = metric_columns(tree.metrics, TAKEN, "{metric} as recorded, with all that is below")
    parent = tree.parent[order]
    frame = pl.DataFrame(
        {
            "node": np.arange(len(tree)),
            "parent": [int(row[above]) if above >= 0 else None for above in parent.tolist()],
            "depth": tree.depth[order],
            "name": [tree.name[node] for node in order.tolist()],
            "kind": [tree.kind[node] for node in order.tolist()],
            "total_us": tree.total_ns[order] / 1000,
            "self_us": tree.self_ns[order] / 1000,
            "count": tree.total_count[order],
            **{column.name: inclusive(tree, metric)[order] for metric, column in columns.items()},
        },
        schema_overrides={"parent": pl.Int64, "name": pl.String, "kind": pl.String},
    ).with_columns(percent_of("total_us", work.gpu_total_ns).alias("percent"))
    return Table.from_frame(
        "call_paths", "one row per node of the tree, heaviest path first", (*COLUMNS, *columns.values()), frame
    )

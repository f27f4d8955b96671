"""`gpu_events`, `host_events` and `call_tree`: the tables that a page makes of its timeline and its flame graph.

The page computes them for what is selected there (web/src/report/views); these are of the whole trace, with the same
columns.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.trees.call_tree import call_tree as build_call_tree
from warplens.analyses.workspace import NO_LAUNCH, Workspace
from warplens.model.kinds import KINDS, MODULE_PREFIX
from warplens.model.lanes import caller_lanes, lane_titles
from warplens.model.table import Column, Table
from warplens.model.tree import Tree

START: Final = Column("start_ms", "when it began, since the trace's start", "ms", pl.Float64)
GPU_EVENT_COLUMNS: Final = (
    START,
    Column("dur_us", "how long it ran", "us", pl.Float64),
    Column("kernel", "readable short form of the name", "", pl.String),
    Column("kernel_category", "what the kernel does, derived from its name", "", pl.String),
    Column("op", "innermost framework op around the launch; the launching call where there is no op", "", pl.String),
    Column("gpu", "GPU number", "", pl.Int32),
    Column("stream", "GPU stream (queue)", "", pl.Int64),
    Column("step", "step that launched it; empty: none", "", pl.Int32),
    Column("grid", "blocks in each dimension", "", pl.String),
    Column("block", "threads per block in each dimension", "", pl.String),
    Column("name", "name as recorded", "", pl.String),
)
HOST_EVENT_COLUMNS: Final = (
    START,
    Column("dur_us", "how long it took, callees included", "us", pl.Float64),
    Column("name", "name as recorded, modules without their prefix", "", pl.String),
    Column("kind", "op, Python frame, module, runtime call, annotation …", "", pl.String),
    Column("thread", "process and thread", "", pl.String),
    Column("step", "step that it belongs to; empty: none", "", pl.Int32),
    Column("depth", "events around it on its thread", "", pl.Int32),
)
CALL_TREE_COLUMNS: Final = (
    Column("name", "module, op, frame or kernel", "", pl.String),
    Column("kind", "kind of the node", "", pl.String),
    Column("depth", "nodes above it", "", pl.Int64),
    Column("total_us", "time of the node and all below it", "us", pl.Float64),
    Column("self_us", "time of the node itself", "us", pl.Float64),
    Column("percent", "share of all time in the tree", "%", pl.Float64),
    Column("count", "events of the node and all below it", "", pl.Int64),
    Column("path", "names from the outermost caller down, joined by ;", "", pl.String),
)


def gpu_events(work: Workspace) -> Table:
    trace = work.trace
    geometries = trace.geometries.select("grid", "block").with_row_index("geometry")
    frame = work.gpu.with_columns(
        pl.col("geometry").cast(pl.Int64),
        start_ms=pl.col("start_ns") / 1e6,
        dur_us=pl.col("dur_ns") / 1e3,
        gpu="device",
        step=_present("step"),
        op=pl.when(pl.col("op") != NO_LAUNCH).then("op"),
    )
    frame = frame.join(geometries.cast({"geometry": pl.Int64}), on="geometry", how="left", maintain_order="left")
    frame = frame.drop("name").rename({"kernel": "name", "kernel_short": "kernel"})
    meaning = "one row per GPU event (kernel, copy, memset): the timeline's GPU lanes"
    return Table.from_frame("gpu_events", meaning, GPU_EVENT_COLUMNS, frame)


def host_events(work: Workspace) -> Table:
    trace = work.trace
    on_gpu = np.zeros(len(trace), bool)
    on_gpu[trace.gpu_rows] = True
    rows = np.flatnonzero(~on_gpu & ~np.isin(trace.ints("lane"), caller_lanes(trace)))
    names, kinds, titles = (pl.Series(texts, dtype=pl.String) for texts in (trace.names, KINDS, lane_titles(trace)))
    events = trace.events[rows]
    frame = events.select(
        "depth",
        start_ms=pl.col("start_ns") / 1e6,
        dur_us=pl.col("dur_ns") / 1e3,
        name=names.gather(events["name"]).str.strip_prefix(MODULE_PREFIX),
        kind=kinds.gather(events["kind"]),
        thread=titles.gather(events["lane"]),
        step=_present("step"),
    )
    meaning = "one row per event that is not GPU work: the timeline's host lanes, and marks on its GPU lanes"
    return Table.from_frame("host_events", meaning, HOST_EVENT_COLUMNS, frame)


def call_tree(work: Workspace) -> Table:
    """Of GPU time, else of the host's; with modules where the trace has them, else Python frames, else ops."""
    trace = work.trace
    context = next((kind for kind in ("module", "python") if trace.is_kind(kind).any()), "op")
    weight = "gpu" if len(trace.gpu_rows) else "cpu"
    tree = build_call_tree(work, context, weight=weight)
    order = [node for node, _ in tree.walk()]
    frame = pl.DataFrame(
        {
            "name": [tree.name[node] for node in order],
            "kind": [tree.kind[node] for node in order],
            "depth": tree.depth[order].astype(np.int64),
            "total_us": tree.total_ns[order] / 1e3,
            "self_us": tree.self_ns[order] / 1e3,
            "percent": 100.0 * tree.total_ns[order] / max(1, int(tree.total_ns[0])) if order else [],
            "count": tree.total_count[order].astype(np.int64),
            "path": _paths(tree, order),
        },
        schema={column.name: column.dtype for column in CALL_TREE_COLUMNS},
    )
    meaning = f"one row per call path ({context}), {weight.upper()} time of the whole trace"
    return Table.from_frame("call_tree", meaning, CALL_TREE_COLUMNS, frame)


def _paths(tree: Tree, order: list[int]) -> list[str]:
    """Paths share their beginnings: each is its caller's and one name more."""
    paths = {0: ""}
    for node in order[1:]:
        above = paths[int(tree.parent[node])]
        name = tree.name[node].replace(";", ":")
        paths[node] = f"{above};{name}" if above else name
    return [paths[node] for node in order]


def _present(column: str) -> pl.Expr:
    """A number, null where it is absent."""
    return pl.when(pl.col(column) >= 0).then(column)

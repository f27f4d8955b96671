"""`critical_path`: the chain of segments that decides how long the steps take, from the first to the last moment.

Backwards from the last moment, the path follows the edge that held each node up. Shortening a segment of it shortens
the steps, until another chain takes over; shortening anything else wins nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import polars as pl

from warplens.analyses.graph.building import NO_GRAPH, graph_of, has_graph
from warplens.analyses.graph.recording_cost import plain_lags, recording_cost
from warplens.analyses.graph.records import HANDOVER, HOST, LAUNCH, QUEUE, STREAM, SYNC, WAIT, Floats, StepGraph
from warplens.analyses.graph.simulating import simulate
from warplens.analyses.time.host_activity import innermost_at, name_of
from warplens.analyses.workspace import Workspace
from warplens.model.kinds import CODE, NONE
from warplens.model.table import Column, Table
from warplens.model.trace import Ints
from warplens.passes.climb import climb

KINDS: Final = {
    "host": "the host works towards its next call",
    "launch": "a launch call, up to the moment at which it takes effect",
    "latency": "from a launch to the start of its event on an idle stream",
    "work": "a kernel, a copy or a memset",
    "pause": "between two events of a stream",
    "wait": "between an event and one of another stream that waited for it",
    "sync": "from the end of GPU work to the return of the call that waited for it",
    "earlier": "before the first event of a stream: work from before the recording held it up",
    "unexplained": "a wait before a GPU event that nothing recorded explains",
}
_AFTER: Final = {LAUNCH: "latency", STREAM: "pause", WAIT: "wait", SYNC: "sync", QUEUE: "sync"}
COLUMNS = (
    Column("kind", f"what the time went into: {', '.join(KINDS)}", "", pl.String),
    Column("name", "GPU event, call, or innermost host event in the middle of the segment", "", pl.String),
    Column("start_ms", "start of the segment in the simulated plain run", "ms", pl.Float64),
    Column("time_us", "its length", "us", pl.Float64),
    Column("percent", "its share of the path", "%", pl.Float64),
    Column("op", "framework op that it belongs to", "", pl.String),
    Column("kernel_category", "category of the GPU event, else empty", "", pl.String),
    Column("step", "step of the GPU event, -1 if none", "", pl.Int64),
    Column("id", "the event: a row of the table events, -1 if none", "", pl.Int64),
)


MEANING: Final = "one row per segment, in order"


class PathNode(NamedTuple):
    """A node on the path and the edge that held it up, -1 for the first."""

    node: int
    edge: int


def path_nodes(graph: StepGraph, times: Floats, lag_ns: Floats) -> list[PathNode]:
    """The path to the last node, in order."""
    if len(graph) == 0:
        return []
    path = []
    node = int(np.argmax(times))
    while True:
        edges = np.arange(graph.first_edge[node], graph.first_edge[node + 1])
        if len(edges) == 0:
            path.append(PathNode(node, NONE))
            return path[::-1]
        edge = int(edges[np.argmax(times[graph.source[edges]] + lag_ns[edges])])
        path.append(PathNode(node, edge))
        node = int(graph.source[edge])


class _Segment(NamedTuple):
    kind: str
    start_ns: float
    time_ns: float
    row: int
    """The event of the trace that it is about."""
    lane: int
    """Of the host's time the thread, else -1."""
    recorded_ns: float
    """Of the host's time its middle as recorded."""


def critical_path(work: Workspace) -> Table:
    if not has_graph(work):
        return Table.from_rows("critical_path", MEANING, COLUMNS, [], NO_GRAPH)
    graph = graph_of(work)
    lags = plain_lags(graph, recording_cost(work).per_op_ns)
    segments = _segments(work, graph, simulate(graph, lag_ns=lags), lags)
    length = sum(segment.time_ns for segment in segments)
    rows = np.array([segment.row for segment in segments], np.int64)
    names, ops = _names(work, segments, rows)
    events = work.gpu.select("id", "kernel_short", "kernel_category", "step")
    frame = pl.DataFrame(
        {
            "kind": [segment.kind for segment in segments],
            "start_ms": [segment.start_ns / 1e6 for segment in segments],
            "time_us": [segment.time_ns / 1e3 for segment in segments],
            "percent": [100 * segment.time_ns / length if length else 0.0 for segment in segments],
            "id": rows,
        },
        schema_overrides={"id": pl.Int64, "start_ms": pl.Float64, "time_us": pl.Float64, "percent": pl.Float64},
    )
    frame = frame.with_columns(names.alias("called"), ops.alias("op")).join(
        events.with_columns(pl.col("id").cast(pl.Int64)), on="id", how="left", maintain_order="left"
    )
    frame = frame.with_columns(
        pl.coalesce("kernel_short", "called").alias("name"),
        pl.col("kernel_category").fill_null(""),
        pl.col("step").cast(pl.Int64).fill_null(NONE),
    )
    return Table.from_frame("critical_path", MEANING, COLUMNS, frame)


def _segments(work: Workspace, graph: StepGraph, times: Floats, lag_ns: Floats) -> list[_Segment]:
    lanes = work.trace.ints("lane")
    segments: list[_Segment] = []
    host = graph.host_ns - (graph.lag_ns - lag_ns)
    """Per edge: the host's part of its plain lag."""
    for node, edge in path_nodes(graph, times, lag_ns):
        if edge == NONE:
            continue
        source, kind, row = int(graph.source[edge]), int(graph.edge_kind[edge]), int(graph.row[node])
        start, lag = float(times[source]), float(lag_ns[edge])
        if kind in (HOST, HANDOVER):
            middle = float(graph.recorded_ns[source] + graph.recorded_ns[node]) / 2
            segments.append(_Segment("host", start, lag, NONE, int(lanes[row]) if row >= 0 else NONE, middle))
            continue
        if kind == LAUNCH and host[edge] > 0:
            segments.append(_Segment("launch", start, float(host[edge]), int(graph.row[source]), NONE, 0.0))
            start, lag = start + float(host[edge]), lag - float(host[edge])
        segments.append(_Segment(_AFTER[kind], start, lag, row, NONE, 0.0))
        residual, weight = float(graph.residual_ns[node]), float(graph.weight_ns[node])
        cause = "earlier" if graph.is_opening[node] else "unexplained"
        segments.append(_Segment(cause, start + lag, residual, row, NONE, 0.0))
        segments.append(_Segment("work", start + lag + residual, weight, row, NONE, 0.0))
    return [segment for segment in segments if segment.time_ns > 0]


def _names(work: Workspace, segments: list[_Segment], rows: Ints) -> tuple[pl.Series, pl.Series]:
    """The name of each segment's event or, of the host's time, of what it did; and the op around that."""
    trace = work.trace
    lane = np.array([segment.lane for segment in segments], np.int64)
    moment = np.array([segment.recorded_ns for segment in segments], np.int64)
    row = np.where(rows >= 0, rows, innermost_at(trace, lane, moment))
    is_gpu = np.isin(row, trace.gpu_rows)
    around = climb(np.where(is_gpu, NONE, row), trace.ints("parent"), trace.ints("kind") == CODE["op"])
    return name_of(trace, row), name_of(trace, np.where(is_gpu, trace.ints("op")[np.maximum(row, 0)], around))

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
from warplens.analyses.graph.records import (
    EARLIER,
    HANDOVER,
    HOST,
    LAUNCH,
    QUEUE,
    STREAM,
    SYNC,
    WAIT,
    Floats,
    StepGraph,
)
from warplens.analyses.graph.simulating import simulate
from warplens.analyses.shared import shared
from warplens.analyses.time.host_activity import innermost_at
from warplens.analyses.work.modules import lines_around, modules_around
from warplens.analyses.workspace import Workspace
from warplens.model.critical_path import CALLER_COLUMNS, COLUMNS, KIND_NAMES, PathSegments
from warplens.model.kinds import CODE, NONE
from warplens.model.table import Table
from warplens.model.trace import Ints, Trace
from warplens.passes.climb import climb

_AFTER: Final = {LAUNCH: "latency", STREAM: "pause", WAIT: "wait", SYNC: "sync", QUEUE: "sync", EARLIER: "earlier"}
MEANING: Final = "one row per segment, in order"
TABLE_COLUMNS: Final = (*COLUMNS, *CALLER_COLUMNS)


class PathNode(NamedTuple):
    """A node on the path and the edge that held it up, -1 for the first."""

    node: int
    edge: int


def path_nodes(graph: StepGraph, times: Floats, lag_ns: Floats) -> list[PathNode]:
    """The path to the last node of a graph that has any, in order."""
    path = []
    # Plain lists: numpy takes longer for a number than Python.
    first_edge, source = graph.first_edge.tolist(), graph.source.tolist()
    reached = (times[graph.source] + lag_ns).tolist()
    node = int(np.argmax(times))
    while first_edge[node] < first_edge[node + 1]:
        edge = max(range(first_edge[node], first_edge[node + 1]), key=reached.__getitem__)
        path.append(PathNode(node, edge))
        node = source[edge]
    return [PathNode(node, NONE), *path[::-1]]


class _Segment(NamedTuple):
    kind: str
    time_ns: float
    row: int
    """The event of the trace that it is about; of the host's time the call that it leads to."""
    recorded_start_ns: float
    recorded_ns: float
    """Its length as recorded."""


@shared
def path_segments(work: Workspace) -> PathSegments:
    """The segments of a trace that has a graph; times are whole nanoseconds, as recorded ones are."""
    graph = graph_of(work)
    lags = plain_lags(graph, recording_cost(work).share)
    times = simulate(graph, lag_ns=lags)
    path = path_nodes(graph, times, lags)
    segments = _segments(graph, path, lags)
    kind = np.array([KIND_NAMES.index(segment.kind) for segment in segments], np.int64)
    time, recorded_start, recorded = (
        np.array([segment[field] for segment in segments], np.float64) for field in (1, 3, 4)
    )
    # Moments are rounded, not lengths: the sum of many lengths stays what it is.
    first = path[0].node
    moments = np.rint(np.append(0.0, np.cumsum(time)) + times[first] - graph.weight_ns[first]).astype(np.int64)
    row = np.array([segment.row for segment in segments], np.int64)
    is_host = kind == KIND_NAMES.index("host")
    lane = np.where(is_host & (row >= 0), work.trace.ints("lane")[np.maximum(row, 0)], NONE)
    innermost = innermost_at(work.trace, lane, (recorded_start + recorded / 2).astype(np.int64))
    return PathSegments(
        kind,
        moments[:-1],
        np.diff(moments),
        np.where(is_host & (innermost >= 0), innermost, row),
        np.rint(recorded_start).astype(np.int64),
        np.rint(recorded).astype(np.int64),
    )


def critical_path(work: Workspace) -> Table:
    if not has_graph(work):
        return Table.from_rows("critical_path", MEANING, TABLE_COLUMNS, [], NO_GRAPH)
    path = path_segments(work)
    length, caller = float(path.time_ns.sum()), _callers(work.trace, path.row)
    lines = lines_around(work, caller)
    events = work.gpu.select(pl.col("id").cast(pl.Int64), "kernel_short", "kernel_category", "step")
    frame = pl.DataFrame(
        {
            "kind": [KIND_NAMES[kind] for kind in path.kind.tolist()],
            "called": work.trace.names_at(path.row),
            "start_ms": path.start_ns / 1e6,
            "time_us": path.time_ns / 1e3,
            "percent": 100 * path.time_ns / max(length, 1.0),
            "op": work.trace.names_at(_ops(work.trace, path.row)),
            "id": path.row,
            "recorded_ms": path.recorded_start_ns / 1e6,
            "recorded_us": path.recorded_ns / 1e3,
            "module": modules_around(work, caller),
            "python_line": lines.text(lines.codes),
        },
        schema_overrides={"kind": pl.String, "module": pl.String, "python_line": pl.String},
    ).join(events, on="id", how="left", maintain_order="left")
    frame = frame.with_columns(
        pl.coalesce("kernel_short", "called").alias("name"),
        pl.col("kernel_category").fill_null(""),
        pl.col("step").cast(pl.Int64).fill_null(NONE),
    )
    return Table.from_frame("critical_path", MEANING, TABLE_COLUMNS, frame)


def _segments(graph: StepGraph, path: list[PathNode], lag_ns: Floats) -> list[_Segment]:
    segments: list[_Segment] = []
    host = graph.host_ns - (graph.lag_ns - lag_ns)
    """Per edge: the host's part of its plain lag."""
    rows, kinds, sources, lags = (array.tolist() for array in (graph.row, graph.edge_kind, graph.source, lag_ns))
    moments = graph.recorded_ns.tolist()
    first = path[0].node
    if graph.is_work[first]:  # it was launched before the steps began
        weight, ended = float(graph.weight_ns[first]), moments[first]
        segments.append(_Segment("work", weight, rows[first], ended - weight, weight))
    for node, edge in path[1:]:
        source, kind, row, lag = sources[edge], kinds[edge], rows[node], lags[edge]
        began, ended = moments[source], moments[node]
        if kind in (HOST, HANDOVER):
            segments.append(_Segment("host", lag, row if row >= 0 else rows[source], began, ended - began))
            continue
        residual, weight = float(graph.residual_ns[node]), float(graph.weight_ns[node])
        if kind == LAUNCH and host[edge] > 0:
            recorded = float(graph.host_ns[edge])
            segments.append(_Segment("launch", float(host[edge]), rows[source], began, recorded))
            lag, began = lag - float(host[edge]), began + recorded
        begins = ended - weight - residual
        segments.append(_Segment(_AFTER[kind], lag, row, began, begins - began))
        cause = "earlier" if graph.is_opening[node] else "unexplained"
        segments.append(_Segment(cause, residual, row, begins, residual))
        # What it has in common with the event that it follows is that one's time.
        own = weight + min(0.0, lag)
        segments.append(_Segment("work", own, row, ended - own, own))
    return [segment for segment in segments if segment.time_ns > 0]


def _ops(trace: Trace, rows: Ints) -> Ints:
    """The op that each event belongs to: of GPU work the one that launched it, of the host's the innermost."""
    is_gpu = np.isin(rows, trace.gpu_rows)
    around = climb(np.where(is_gpu, NONE, rows), trace.ints("parent"), trace.ints("kind") == CODE["op"])
    return np.where(is_gpu, trace.ints("op")[np.maximum(rows, 0)], around)


def _callers(trace: Trace, rows: Ints) -> Ints:
    """The host event to look for callers from: of GPU work its op, else its launch."""
    at = np.maximum(rows, 0)
    op, launch = trace.ints("op")[at], trace.ints("launch")[at]
    is_gpu = np.isin(rows, trace.gpu_rows)
    return np.where(is_gpu, np.where(op >= 0, op, launch), rows).astype(np.int64)

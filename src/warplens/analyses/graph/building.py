"""The graph of some steps of a trace."""

from __future__ import annotations

import re
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from warplens.analyses.graph.earlier_work import launched_before
from warplens.analyses.graph.fetches import fetching_ops
from warplens.analyses.graph.gpu_order import GpuOrder, gpu_order
from warplens.analyses.graph.host_points import HostPoints, MarkedSteps, host_points
from warplens.analyses.graph.host_waits import HostWaits, calls_that_matter, host_waits
from warplens.analyses.graph.light_pass import light_pass
from warplens.analyses.graph.recorded_load import RecordedLoad
from warplens.analyses.graph.records import (
    EARLIER,
    HANDOVER,
    HOST,
    LAUNCH,
    MARK,
    RETURN,
    STREAM,
    SYNC,
    WAIT,
    WORK,
    Floats,
    StepGraph,
)
from warplens.analyses.shared import shared
from warplens.analyses.time.host_activity import SYNC_CALL, matching_names
from warplens.analyses.workspace import Workspace
from warplens.model.intervals import Union, union
from warplens.model.kinds import NESTED, NONE
from warplens.model.trace import Bools, Ints, Trace

MOST_EVENTS: Final = 10_000
"""GPU events in the graph of a trace: of more steps than hold these, the first ones after the first stand for all."""


MOST_IN_A_MOMENT: Final = 50
"""Nodes of a chain that takes no time; what would be later in a longer one loses its edge."""
PROFILER_FRAME: Final = re.compile(r"(?:.*/)?torch/profiler/profiler\.py\(")
NO_GRAPH: Final = "no GPU event of the trace has a recorded launch"


def has_graph(work: Workspace) -> bool:
    """Whether the trace records which call launched which GPU event."""
    return bool((work.trace.ints("launch")[work.trace.gpu_rows] >= 0).any())


@shared
def graph_of(work: Workspace) -> StepGraph:
    """The graph of a trace's steps, or of the whole trace without steps."""
    return with_light_pass(work, usual_steps(work.trace))


def with_light_pass(work: Workspace, steps: Ints) -> StepGraph:
    """The graph of these steps, with the host's times of a light pass where there is one."""
    graph = step_graph(work.trace, steps)
    if work.options.is_corrected or work.light is None:
        return graph
    host_ns, note = light_pass(work.trace, graph, work.light)
    return replace(graph, light_host_ns=host_ns, light_note=note)


def usual_steps(trace: Trace) -> Ints:
    """The steps that the graph is made of."""
    numbers = trace.steps["step"].to_numpy().astype(np.int64)
    launched = np.bincount(np.searchsorted(numbers, trace.ints("step")[trace.gpu_rows]), minlength=len(numbers) + 1)
    if launched.sum() <= MOST_EVENTS or len(numbers) < 3:
        return numbers
    fitting = int(np.searchsorted(np.cumsum(launched[1 : len(numbers)]), MOST_EVENTS, "right"))
    return numbers[1 : 1 + max(2, fitting)]


def step_graph(trace: Trace, steps: Ints) -> StepGraph:
    """The graph of these steps, which follow each other; of the whole trace where there are none."""
    marks = _marks(trace, steps)
    calls = _calls_within(trace, marks)
    points = host_points(trace, calls, marks)
    gpu = gpu_order(trace, _work_of(trace, calls, marks))
    launched_by = _points_of(points, gpu.launch)
    waits = host_waits(trace, points, gpu, launched_by)
    first_return = len(points.row)
    first_work = first_return + len(waits.calls)
    first_rest = first_work + len(gpu.row)
    load = RecordedLoad(trace)
    edges = _joined([
        *_host_edges(points, waits, first_return, load),
        _wait_edges(waits, first_return, first_work),
        *_work_edges(gpu, _moments_of_graph(trace, points), launched_by, first_work, load),
    ])  # fmt: skip
    edges = _with_split_copies(edges, waits, first_return, first_work, first_rest)
    ends = gpu.end_ns.copy()
    ends[waits.split] = waits.split_ns
    rest = gpu.end_ns[waits.split] - waits.split_ns
    weight = trace.ints("dur_ns")[gpu.row].copy()
    weight[waits.split] -= rest
    rows = np.append(gpu.row, gpu.row[waits.split])
    is_before = launched_before(trace, gpu, launched_by, calls)
    fetches = fetching_ops(trace, points.row[waits.calls])
    begin = trace.ints("start_ns")[fetches]
    return _ordered(
        edges,
        fetches_ns=union(begin, begin + trace.ints("dur_ns")[fetches]),
        kind=np.concatenate([points.kind, np.full(len(waits.calls), RETURN), np.full(len(rows), WORK)]),
        row=np.concatenate([points.row, points.row[waits.calls], rows]),
        step=np.concatenate([points.step, np.full(len(waits.calls), NONE), trace.ints("step")[rows]]),
        recorded_ns=np.concatenate([points.start_ns, points.end_ns[waits.calls], ends, gpu.end_ns[waits.split]]).astype(
            float
        ),
        weight_ns=np.concatenate([np.zeros(first_work), weight, rest]),
        is_earlier=np.concatenate([np.zeros(first_work, bool), is_before, np.zeros(len(rest), bool)]),
    )


def _marks(trace: Trace, steps: Ints) -> MarkedSteps:
    if not len(trace.steps):
        return _marked_run(trace)
    frame = trace.steps.filter(trace.steps["step"].is_in(steps.tolist()))
    start, end = (frame[name].to_numpy().astype(np.int64) for name in ("start_ns", "end_ns"))
    rows = trace.rows_of("annotation")
    marking = rows[np.isin(trace.ints("start_ns")[rows], start)]
    lanes = trace.ints("lane")[marking if len(marking) else trace.runtime_rows]
    lane = int(np.bincount(np.maximum(lanes, 0)).argmax()) if len(lanes) else 0
    return MarkedSteps(
        np.append(start, end[-1:]),
        np.append(frame["step"].to_numpy(), [NONE] * bool(len(end))),
        np.full(len(end) + bool(len(end)), lane),
    )


def _marked_run(trace: Trace) -> MarkedSteps:
    """Without steps the run is one: all that the threads of the first and the last call do, the profiler's own frames
    aside.

    Waits for the GPU that nothing of the host follows do not belong to it: it ends with the GPU's work, and when they
    return is the profiler's affair, which synchronises before it stops.
    """
    start, lane = trace.ints("start_ns"), trace.ints("lane")
    end = start + trace.ints("dur_ns")
    events = trace.rows_of(*NESTED)
    waits = trace.runtime_rows[matching_names(trace, SYNC_CALL)[trace.ints("name")[trace.runtime_rows]]]
    others = np.setdiff1d(events[np.isin(lane[events], lane[trace.runtime_rows])], waits)
    events = np.setdiff1d(events, waits[start[waits] >= end[others].max(initial=0)])
    calls = np.intersect1d(events, trace.runtime_rows)
    if not len(calls):
        return MarkedSteps(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))
    first, last = calls[np.argmin(start[calls])], calls[np.argmax(end[calls])]
    frames = events[matching_names(trace, PROFILER_FRAME)[trace.ints("name")[events]]]
    entered = end[frames[end[frames] <= start[first]]].max(initial=0)
    left = start[frames[start[frames] >= end[last]]].min(initial=np.iinfo(np.int64).max)
    begin = max(start[events[lane[events] == lane[first]]].min(initial=start[first]), entered)
    until = min(end[events[lane[events] == lane[last]]].max(initial=end[last]), left)
    return MarkedSteps(np.array([begin, until]), np.array([NONE, NONE]), lane[[first, last]].astype(np.int64))


def _calls_within(trace: Trace, marks: MarkedSteps) -> Ints:
    calls = calls_that_matter(trace)
    if len(marks) == 0:
        return calls
    start = trace.ints("start_ns")[calls]
    within: Ints = calls[(start >= marks.start_ns[0]) & (start < marks.start_ns[-1])]
    return within


def _work_of(trace: Trace, calls: Ints, marks: MarkedSteps) -> Ints:
    """GPU events that these calls launched, and those that ran meanwhile."""
    rows = trace.gpu_rows
    if len(marks) == 0 or not len(trace.steps):
        return rows
    is_call = np.zeros(len(trace) + 1, bool)
    is_call[calls] = True
    is_own = is_call[trace.ints("launch")[rows]]  # no launch is -1: the last, which no call is
    start = trace.ints("start_ns")[rows]
    end = start + trace.ints("dur_ns")[rows]
    last = end[is_own].max(initial=marks.start_ns[0])
    chosen: Ints = rows[is_own | ((end > marks.start_ns[0]) & (start < last))]
    return chosen


def _points_of(points: HostPoints, launch: Ints) -> Ints:
    """The point at which each launch was called, -1 for launches before the first."""
    order = np.argsort(points.row, kind="stable")
    at = np.minimum(np.searchsorted(points.row[order], launch), len(order) - 1)
    point = order[at] if len(order) else np.full(len(launch), NONE)
    return np.where((launch != NONE) & (len(order) > 0), np.where(points.row[point] == launch, point, NONE), NONE)


class _Edges(msgspec.Struct, frozen=True):
    source: Ints
    target: Ints
    lag_ns: Floats
    host_ns: Floats
    ops_ns: Floats
    kind: Ints

    def __getitem__(self, chosen: Bools | Ints) -> _Edges:
        return _Edges(*(getattr(self, name)[chosen] for name in _COLUMNS))


_COLUMNS: Final = ("source", "target", "lag_ns", "host_ns", "ops_ns", "kind")


def _edges(
    source: Ints,
    target: Ints,
    lag_ns: Floats | Ints,
    kind: int,
    host_ns: Floats | None = None,
    ops_ns: Floats | float = 0.0,
) -> _Edges:
    """Edges of one kind; on the host all of the lag is the host's."""
    lag = lag_ns.astype(float)
    host = host_ns if host_ns is not None else lag if kind in (HOST, HANDOVER) else np.zeros(len(lag))
    return _Edges(source, target, lag, host, np.broadcast_to(ops_ns, lag.shape), np.full(len(source), kind))


def _joined(parts: list[_Edges]) -> _Edges:
    return _Edges(*(np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS))


def _host_edges(points: HostPoints, waits: HostWaits, first_return: int, load: RecordedLoad) -> list[_Edges]:
    """From each point to the next, and from a call that waits to its own return."""
    returned = np.full(len(points.row), NONE, np.int64)
    returned[waits.calls] = first_return + np.arange(len(waits.calls))
    called = points.start_ns[waits.calls]
    in_ops = load.between(points.lane[waits.calls], called, called + waits.own_ns.astype(np.int64))
    edges = [_edges(waits.calls, returned[waits.calls], waits.own_ns, HOST, ops_ns=in_ops)]
    for kind, chosen in ((HOST, ~points.is_handover), (HANDOVER, points.is_handover)):
        target = np.flatnonzero(chosen & (points.before != NONE))
        before = points.before[target]
        has_return = returned[before] != NONE
        since = np.where(has_return, points.end_ns[before], points.start_ns[before])
        source = np.where(has_return, returned[before], before)
        begin, end = since, points.start_ns[target]
        ops_ns = load.between(points.lane[target], begin, end)
        if kind == HANDOVER:
            ops_ns += load.between(points.lane[before], begin, end)
        edges.append(_edges(source, target, end - begin, kind, ops_ns=ops_ns))
    return edges


def _wait_edges(waits: HostWaits, first_return: int, first_work: int) -> _Edges:
    edges = _edges(first_work + waits.event, first_return + waits.call, waits.lag_ns, NONE)
    return replace(edges, kind=waits.kind)


def _moments_of_graph(trace: Trace, points: HostPoints) -> Ints:
    """When the points are, those that only frame a run without steps aside: the GPU does not wait for them."""
    frames_run = (points.kind == MARK) & (len(trace.steps) == 0)
    return np.where(frames_run, np.iinfo(np.int64).max, points.start_ns)


def _work_edges(gpu: GpuOrder, begun_ns: Ints, launched_by: Ints, first_work: int, load: RecordedLoad) -> list[_Edges]:
    """`begun_ns`: when the host's points are."""
    work = first_work + np.arange(len(gpu.row))
    launched, follows, waits = launched_by != NONE, gpu.previous != NONE, gpu.waits
    in_call, call = gpu.launch_host_ns[launched], gpu.launch[launched]
    called = load.trace.ints("start_ns")[call]
    in_ops = load.between(load.trace.ints("lane")[call], called, called + in_call.astype(np.int64))
    return [
        _edges(launched_by[launched], work[launched], gpu.launch_lag_ns[launched], LAUNCH, in_call, in_ops),
        _edges(first_work + gpu.previous[follows], work[follows], gpu.previous_lag_ns[follows], STREAM),
        _edges(first_work + waits.awaited, first_work + waits.event, waits.lag_ns, WAIT),
        _earlier_edges(gpu, begun_ns, ~launched & ~follows, first_work),
    ]


def _earlier_edges(gpu: GpuOrder, begun_ns: Ints, is_opening: Bools, first_work: int) -> _Edges:
    """From the first moment to events of which neither the launch nor what their stream did before is in the graph."""
    first_ns = int(begun_ns.min(initial=np.iinfo(np.int64).max))
    chosen = np.flatnonzero(is_opening & (gpu.start_ns >= first_ns))
    first = np.full(len(chosen), int(begun_ns.argmin()) if len(begun_ns) else 0)
    return _edges(first, first_work + chosen, gpu.start_ns[chosen] - first_ns, EARLIER)


def _with_split_copies(edges: _Edges, waits: HostWaits, first_return: int, first_work: int, first_rest: int) -> _Edges:
    """A copy that went on after its call is two nodes: the call waits for the first, all else for the second."""
    if len(waits.split) == 0:
        return edges
    rest = first_rest + np.arange(len(waits.split))
    end_of = np.arange(max(int(edges.source.max()), first_rest) + 1)
    end_of[first_work + waits.split] = rest
    is_own_call = (edges.kind == SYNC) & np.isin(edges.target, first_return + waits.split_call)
    moved = replace(edges, source=np.where(is_own_call, edges.source, end_of[edges.source]))
    return _joined([moved, _edges(first_work + waits.split, rest, np.zeros(len(rest)), STREAM)])


def _order_in_a_moment(edges: _Edges, recorded_ns: Floats) -> Ints:
    """The order of nodes of one moment: in traces with whole microseconds, calls often begin when another returns."""
    order = np.zeros(len(recorded_ns), np.int64)
    at_once = np.flatnonzero(recorded_ns[edges.source] == recorded_ns[edges.target])
    source, target = edges.source[at_once], edges.target[at_once]
    for _ in range(MOST_IN_A_MOMENT):
        later = order[source] + 1
        if len(at_once) == 0 or (order[target] >= later).all():
            break
        np.maximum.at(order, target, later)
    return order


def _ordered(
    edges: _Edges,
    *,
    kind: Ints,
    row: Ints,
    step: Ints,
    recorded_ns: Floats,
    weight_ns: Floats,
    fetches_ns: Union,
    is_earlier: Bools,
) -> StepGraph:
    """Nodes by time, edges by the node they lead to; lags and residuals are such that the recorded times come out."""
    order = np.lexsort((np.arange(len(kind)), kind, _order_in_a_moment(edges, recorded_ns), recorded_ns))
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    recorded, weight = recorded_ns[order], weight_ns[order]
    source, target = position[edges.source], position[edges.target]
    kept = np.flatnonzero(source < target)  # all but those of a circle in one moment
    kept = kept[np.lexsort((edges.kind[kept], target[kept]))]
    source, target, edges = source[kept], target[kept], edges[kept]
    begins = recorded - weight
    lag = np.minimum(edges.lag_ns, begins[target] - recorded[source])
    ready = np.full(len(order), -np.inf)
    np.maximum.at(ready, target, recorded[source] + lag)
    return StepGraph(
        kind=kind[order],
        row=row[order],
        step=step[order],
        recorded_ns=recorded,
        weight_ns=weight,
        residual_ns=np.where(np.isfinite(ready), begins - ready, 0.0),
        first_edge=np.searchsorted(target, np.arange(len(order) + 1)),
        source=source,
        lag_ns=lag,
        host_ns=np.clip(edges.host_ns, 0.0, np.maximum(lag, 0.0)),
        ops_ns=edges.ops_ns,
        edge_kind=edges.kind,
        fetches_ns=fetches_ns,
        is_earlier=is_earlier[order],
    )

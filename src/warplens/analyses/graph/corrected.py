"""A trace with the times that its steps nearly had without the profiler.

The moments of the graph are where the simulation of the plain step puts them; what the host did in between is moved
with them, in proportion. GPU events keep their durations.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from warplens.analyses.graph.building import NO_GRAPH, graph_of, has_graph, usual_steps, with_light_pass
from warplens.analyses.graph.recording_cost import plain_lags, recording_cost
from warplens.analyses.graph.records import MARK, Floats, StepGraph
from warplens.analyses.graph.simulating import simulate
from warplens.analyses.workspace import Workspace
from warplens.model.kinds import CODE
from warplens.model.quality import Note
from warplens.model.trace import Ints, Trace
from warplens_run.base.errors import WarplensError


def corrected_trace(work: Workspace) -> Trace:
    """The trace without the time that recording took."""
    trace = work.trace
    if not has_graph(work):
        raise WarplensError(f"times cannot be corrected: {NO_GRAPH}")
    graph = _graph_of_all(work)
    cost = recording_cost(work)
    times = simulate(graph, lag_ns=plain_lags(graph, cost.share))
    clock = _Clock(trace, graph, times)
    begin = trace.ints("start_ns").astype(float)
    end = begin + trace.ints("dur_ns")
    lane = trace.ints("lane")
    # Records of what a call waited for are drawn on streams, and move with the calls.
    lane = np.where(trace.ints("kind") == CODE["sync"], -1, lane)
    starts, ends = clock.moved(lane, begin), clock.moved(lane, end)
    _place_gpu_events(trace, graph, times, starts, ends)
    origin = starts.min(initial=0.0)
    steps = trace.steps.with_columns(
        pl.Series(name, _rounded(clock.of_main(trace.steps[name].to_numpy()) - origin))
        for name in ("start_ns", "end_ns")
    )
    memory = trace.memory.with_columns(
        pl.Series(
            "start_ns",
            _rounded(clock.moved(trace.memory["lane"].to_numpy(), trace.memory["start_ns"].to_numpy()) - origin),
        )
    )
    note = Note("corrected_times", detail=cost.note)
    # Samples have the clock of the run as it was.
    moved = replace(
        trace, steps=steps, memory=memory, counters=trace.counters.clear(), plain_windows=trace.plain_windows.clear()
    )
    return moved.with_columns(note, start_ns=_rounded(starts - origin), dur_ns=_rounded(ends - starts))


def _graph_of_all(work: Workspace) -> StepGraph:
    """The graph of all steps: mostly the one that everything else is simulated in."""
    steps = work.trace.steps["step"].to_numpy().astype(np.int64)
    return graph_of(work) if len(usual_steps(work.trace)) == len(steps) else with_light_pass(work, steps)


def _rounded(times: Floats) -> Ints:
    return np.rint(times).astype(np.int64)


class _Clock:
    """Recorded times to corrected ones, for every thread and stream."""

    def __init__(self, trace: Trace, graph: StepGraph, times: Floats) -> None:
        lanes = np.where(graph.row >= 0, trace.ints("lane")[np.maximum(graph.row, 0)], -1)
        on_host = ~graph.is_work & (graph.kind != MARK)
        busiest = int(np.bincount(lanes[on_host]).argmax()) if on_host.any() else -1
        lanes[graph.kind == MARK] = busiest  # steps begin and end on the thread that launches most
        self._knots = {
            lane: _knots(graph.recorded_ns[lanes == lane], times[lanes == lane]) for lane in np.unique(lanes).tolist()
        }
        self._main = self._knots.get(busiest, _knots(graph.recorded_ns, times))

    def of_main(self, recorded: Ints | Floats) -> Floats:
        return _moved(self._main, recorded)

    def moved(self, lane: Ints, recorded: Ints | Floats) -> Floats:
        """Times on lanes; those of a lane without moments of its own move with the thread that launches most."""
        moved = self.of_main(recorded)
        for number, knots in self._knots.items():
            chosen = lane == number
            moved[chosen] = _moved(knots, recorded[chosen])
        return moved


def _knots(recorded: Floats, times: Floats) -> tuple[Floats, Floats]:
    order = np.lexsort((times, recorded))
    return recorded[order], np.maximum.accumulate(times[order])


def _moved(knots: tuple[Floats, Floats], recorded: Ints | Floats) -> Floats:
    """Between two knots in proportion; before the first and after the last, as far as that."""
    before, after = knots
    if len(before) == 0:
        return recorded.astype(float)
    inside = np.clip(recorded, before[0], before[-1]).astype(float)
    moved: Floats = np.interp(inside, before, after) + (recorded - inside)
    return moved


def _place_gpu_events(trace: Trace, graph: StepGraph, times: Floats, starts: Floats, ends: Floats) -> None:
    """GPU events end when the simulation says so, and keep their durations and their order in a stream."""
    work = np.flatnonzero(graph.is_work)
    last = work[np.argsort(times[work], kind="stable")]  # of a copy in two parts the second counts
    ends[graph.row[last]] = times[last]
    rows = trace.gpu_rows
    starts[rows] = ends[rows] - trace.ints("dur_ns")[rows]
    lane = trace.ints("lane")[rows]
    for stream in np.unique(lane).tolist():
        own = rows[lane == stream]
        starts[own] = np.maximum.accumulate(starts[own])
    ends[rows] = starts[rows] + trace.ints("dur_ns")[rows]

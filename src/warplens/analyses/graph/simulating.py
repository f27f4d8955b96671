"""When every node of a graph is reached, with weights and lags of any kind, and how long a step then takes."""

from __future__ import annotations

from typing import Final

import numpy as np

from warplens import native_library
from warplens.analyses.graph.earlier_work import free_ns, waited_ns
from warplens.analyses.graph.records import MARK, Floats, StepGraph
from warplens.model.arrays import places_by_value
from warplens.model.kinds import NONE
from warplens.model.trace import Ints
from warplens_run.base.units import format_ms

COUNTED_WITHOUT_FIRST: Final = 3
"""Of this many steps, the first does not count."""
WARM_UP: Final = 1.5
"""A leading step so many times as long as the median of those after it is a warm-up."""
FEWEST_AFTER_WARM_UP: Final = 2
NOTED_SHARE: Final = 0.01
"""From this share of the step on, a note says what of it is not counted."""


def simulate(graph: StepGraph, weight_ns: Floats | None = None, lag_ns: Floats | None = None) -> Floats:
    """The time of every node; without arguments, the recorded one. Nodes without an edge begin when they did."""
    weights = graph.weight_ns if weight_ns is None else weight_ns
    lags = graph.lag_ns if lag_ns is None else lag_ns
    times: Floats = simulate_many(graph, weights[:, None], lags[:, None])[:, 0]
    return times


def simulate_many(graph: StepGraph, weight_ns: Floats, lag_ns: Floats) -> Floats:
    """The times of every node (rows) in several variants at once (columns), by weights and lags of the same form."""
    times = graph.recorded_ns[:, None] + (weight_ns - graph.weight_ns[:, None])
    weights = weight_ns + graph.residual_ns[:, None]
    if not _simulated_natively(graph, weights, lag_ns, times):
        (_simulate_one if times.shape[1] == 1 else _simulate_all)(graph, weights, lag_ns, times)
    return times


def _simulated_natively(graph: StepGraph, weights: Floats, lags: Floats, times: Floats) -> bool:
    """Fills in the times where the native library is there: nodes depend on each other in one long chain."""
    library = native_library.library()
    if library is None:
        return False
    edges = [np.ascontiguousarray(column, np.int64) for column in (graph.first_edge, graph.source)]
    values = [np.ascontiguousarray(column, np.float64) for column in (lags, weights)]
    pointers = [column.ctypes.data for column in (*edges, *values)]
    return bool(library.wl_simulate(*pointers[:2], len(times), *pointers[2:], times.shape[1], times.ctypes.data))


def _simulate_one(graph: StepGraph, weights: Floats, lags: Floats, times: Floats) -> None:
    """Plain lists and comparisons: for one variant a call of numpy per edge would cost more."""
    own_weights, own_lags, own_times = (column[:, 0].tolist() for column in (weights, lags, times))
    sources = graph.source.tolist()
    begin = 0
    for node, end in enumerate(graph.first_edge[1:].tolist()):
        if begin == end:
            continue
        latest = own_times[sources[begin]] + own_lags[begin]
        for edge in range(begin + 1, end):
            moment = own_times[sources[edge]] + own_lags[edge]
            if moment > latest:
                latest = moment
        own_times[node] = latest + own_weights[node]
        begin = end
    times[:, 0] = own_times


def _simulate_all(graph: StepGraph, weights: Floats, lags: Floats, times: Floats) -> None:
    """A call of numpy per edge costs as much for a hundred variants as for one."""
    sources = graph.source.tolist()
    begin = 0
    for node, end in enumerate(graph.first_edge[1:].tolist()):
        if begin == end:
            continue
        latest = times[node]
        np.add(times[sources[begin]], lags[begin], out=latest)
        for edge in range(begin + 1, end):
            np.maximum(latest, times[sources[edge]] + lags[edge], out=latest)
        latest += weights[node]
        begin = end


def step_ns(graph: StepGraph, times: Floats) -> float:
    """The time from the end of one step to that of the next, when host and GPU are done with it; without steps, of all.

    The median over the steps. Where the host runs ahead of the GPU, its marks come faster than steps are done, and a
    step that synchronises waits for those before it too. The time in which the first step waits for work that was
    launched before it does not count.
    """
    return float(steps_ns(graph, times[:, None])[0])


def marked_step_ns(graph: StepGraph, times: Floats) -> float:
    """The same, the time in which the first step waits for earlier work included."""
    return float(_lengths_ns(graph, times[:, None], has_waits=True)[0])


def warm_up(lengths: Floats) -> int:
    """How many leading steps take much longer than the median of all that follow.

    >>> warm_up(np.array([720.0, 63.0, 64.0, 63.0])), warm_up(np.array([64.0, 63.0, 720.0, 63.0]))
    (1, 0)
    """
    first = 0
    while len(lengths) - first > FEWEST_AFTER_WARM_UP and lengths[first] > WARM_UP * np.median(lengths[first + 1 :]):
        first += 1
    return first


def graph_notes(graph: StepGraph) -> tuple[str, ...]:
    """What a table of simulated steps says of the graph."""
    marked_ns = marked_step_ns(graph, graph.recorded_ns)
    left_out_ns = marked_ns - step_ns(graph, graph.recorded_ns)
    if left_out_ns <= NOTED_SHARE * marked_ns:
        return graph.notes
    marked, left_out = (format_ms(ns / 1e6) for ns in (marked_ns, left_out_ns))
    return (*graph.notes, f"{left_out} of {marked} are waits for work from before the step: not counted in it")


def steps_ns(graph: StepGraph, times: Floats) -> Floats:
    """The step of several variants: one per column."""
    return _lengths_ns(graph, times, has_waits=False)


def _lengths_ns(graph: StepGraph, times: Floats, *, has_waits: bool) -> Floats:
    if len(times) == 0:
        return np.zeros(times.shape[1])
    marks = np.flatnonzero(graph.kind == MARK)
    if graph.is_run:
        spans: Floats = np.ptp(times, axis=0)
        return spans
    on_host, begin = np.diff(times[marks], axis=0), times[marks[0]]
    ends = _last_work(graph, times, graph.step[marks[:-1]])
    if not has_waits and len(on_host) < COUNTED_WITHOUT_FIRST:
        free = free_ns(graph, times, begin)
        on_host[0] -= np.minimum(waited_ns(graph, times), free - begin)
        begin = free
    lengths = np.diff(np.maximum(times[marks[1:]], ends), axis=0)
    # The first step may have begun with an empty queue, or before all of it was recorded.
    if len(on_host) < COUNTED_WITHOUT_FIRST:
        lengths = np.concatenate([np.maximum(on_host[0], ends[0] - begin)[None], lengths])
    usual: Floats = np.median(lengths, axis=0)
    return usual


def _last_work(graph: StepGraph, times: Floats, steps: Ints) -> Floats:
    """When the last GPU event of each step ends; of a step without any, when the one before it did."""
    step_of = np.where(graph.is_work, graph.step, NONE)
    work, none = places_by_value(step_of.astype(np.int64)), np.zeros(0, np.int64)
    ends = np.array([times[work.get(step, none)].max(axis=0, initial=-np.inf) for step in steps.tolist()])
    return np.maximum.accumulate(np.maximum(ends, times.min(axis=0)))

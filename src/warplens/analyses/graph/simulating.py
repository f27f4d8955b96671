"""When every node of a graph is reached, with weights and lags of any kind, and how long a step then takes."""

from __future__ import annotations

import numpy as np

from warplens import native_library
from warplens.analyses.graph.records import MARK, Floats, StepGraph
from warplens.model.arrays import places_by_value
from warplens.model.kinds import NONE
from warplens.model.trace import Ints


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
    """The time from one step to the next, on the host or on the GPU, whichever goes slower; without steps, of all.

    The median over the steps. Where the host runs ahead of the GPU, its marks come faster than steps are done.
    """
    return float(steps_ns(graph, times[:, None])[0])


def steps_ns(graph: StepGraph, times: Floats) -> Floats:
    """The same of several variants: one per column."""
    if len(times) == 0:
        return np.zeros(times.shape[1])
    marks = np.flatnonzero(graph.kind == MARK)
    if len(marks) < 2:
        spans: Floats = np.ptp(times, axis=0)
        return spans
    on_host = np.diff(times[marks], axis=0)
    ends = _last_work(graph, times, graph.step[marks[:-1]])
    if len(on_host) == 1:
        longer: Floats = np.maximum(on_host[0], ends[0] - times[marks[0]])
        return longer
    # The first step may have begun with an empty queue, or before all of it was recorded.
    usual = [np.median(lengths[len(lengths) > 2 :], axis=0) for lengths in (on_host, np.diff(ends, axis=0))]
    return np.maximum(*usual)


def _last_work(graph: StepGraph, times: Floats, steps: Ints) -> Floats:
    """When the last GPU event of each step ends; of a step without any, when the one before it did."""
    step_of = np.where(graph.is_work, graph.step, NONE)
    work, none = places_by_value(step_of.astype(np.int64)), np.zeros(0, np.int64)
    ends = np.array([times[work.get(step, none)].max(axis=0, initial=-np.inf) for step in steps.tolist()])
    return np.maximum.accumulate(np.maximum(ends, times.min(axis=0)))

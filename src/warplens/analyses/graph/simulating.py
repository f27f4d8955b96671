"""When every node of a graph is reached, with weights and lags of any kind, and how long a step then takes."""

from __future__ import annotations

import numpy as np

from warplens.analyses.graph.records import MARK, Floats, StepGraph
from warplens.model.trace import Ints


def simulate(graph: StepGraph, weight_ns: Floats | None = None, lag_ns: Floats | None = None) -> Floats:
    """The time of every node; without arguments, the recorded one. Nodes without an edge begin when they did."""
    own_weights = graph.weight_ns if weight_ns is None else weight_ns
    weights = (own_weights + graph.residual_ns).tolist()
    lags = (graph.lag_ns if lag_ns is None else lag_ns).tolist()
    sources = graph.source.tolist()
    times: list[float] = (graph.recorded_ns + (own_weights - graph.weight_ns)).tolist()
    begin = 0
    # Plain lists and comparisons: nodes depend on each other in one long chain, which numpy cannot shorten.
    for node, end in enumerate(graph.first_edge[1:].tolist()):
        if begin == end:
            continue
        latest = times[sources[begin]] + lags[begin]
        for edge in range(begin + 1, end):
            moment = times[sources[edge]] + lags[edge]
            if moment > latest:
                latest = moment
        times[node] = latest + weights[node]
        begin = end
    return np.array(times)


def simulate_many(graph: StepGraph, weight_ns: Floats, lag_ns: Floats) -> Floats:
    """The times of every node (rows) in several variants at once (columns), by weights and lags of the same form.

    A call of numpy per edge costs as much for a hundred variants as for one.
    """
    weights = weight_ns + graph.residual_ns[:, None]
    sources = graph.source.tolist()
    times = graph.recorded_ns[:, None] + (weight_ns - graph.weight_ns[:, None])
    begin = 0
    for node, end in enumerate(graph.first_edge[1:].tolist()):
        if begin == end:
            continue
        latest = times[node]
        np.add(times[sources[begin]], lag_ns[begin], out=latest)
        for edge in range(begin + 1, end):
            np.maximum(latest, times[sources[edge]] + lag_ns[edge], out=latest)
        latest += weights[node]
        begin = end
    return times


def step_ns(graph: StepGraph, times: Floats) -> float:
    """The time from one step to the next, on the host or on the GPU, whichever goes slower; without steps, of all.

    The median over the steps. Where the host runs ahead of the GPU, its marks come faster than steps are done.
    """
    marks = np.flatnonzero(graph.kind == MARK)
    if len(marks) < 2:
        return float(times.max() - times.min()) if len(times) else 0.0
    on_host = np.diff(times[marks])
    ends = _last_work(graph, times, graph.step[marks[:-1]])
    if len(on_host) == 1:
        return float(max(on_host[0], ends[0] - times[marks[0]]))
    # The first step may have begun with an empty queue, or before all of it was recorded.
    later = slice(1, None) if len(on_host) > 2 else slice(None)
    return float(max(np.median(on_host[later]), np.median(np.diff(ends)[later])))


def _last_work(graph: StepGraph, times: Floats, steps: Ints) -> Floats:
    """When the last GPU event of each step ends; of a step without any, when the one before it did."""
    work = np.flatnonzero(graph.is_work & np.isin(graph.step, steps))
    ends = np.full(len(steps), times.min())
    np.maximum.at(ends, np.searchsorted(steps, graph.step[work]), times[work])
    return np.maximum.accumulate(ends)

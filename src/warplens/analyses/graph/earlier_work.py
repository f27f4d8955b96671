"""Work from before the first step of a graph: which events it is, and how long the step waits for it.

A step that begins while the GPU is busy with earlier work waits for it, in a synchronisation or in its streams. That
time is none of its own: in a run of such steps it would be the step before.
"""

from __future__ import annotations

import numpy as np

from warplens.analyses.graph.gpu_order import GpuOrder
from warplens.analyses.graph.host_waits import LONG_LAUNCH_NS
from warplens.analyses.graph.records import CALL, QUEUE, RETURN, SYNC, Floats, StepGraph
from warplens.model.kinds import NONE
from warplens.model.trace import Bools, Ints, Trace


def launched_before(trace: Trace, gpu: GpuOrder, launched_by: Ints, calls: Ints) -> Bools:
    """Per GPU event: whether it was launched before the first of these calls, and began before what they launched.

    Its launch is recorded, or its number says so: launches are numbered in their order, from 1 on. An event that has
    neither may be one of the step whose launch is lost.
    """
    is_own = launched_by != NONE
    first_ns = gpu.start_ns[is_own].min(initial=np.iinfo(np.int64).max)
    correlation = trace.ints("correlation")
    numbers = correlation[calls]
    first_number = int(numbers[numbers > 0].min(initial=np.iinfo(np.int64).max))
    own_number = correlation[gpu.row]
    is_numbered_before = (gpu.launch == NONE) & (own_number > 0) & (own_number < first_number) & (len(calls) > 0)
    is_before: Bools = ~is_own & (gpu.start_ns < first_ns) & ((gpu.launch != NONE) | is_numbered_before)
    return is_before


def free_ns(graph: StepGraph, times: Floats, begin_ns: Floats) -> Floats:
    """When the GPU has done the earlier work, as far as the step that begins at `begin_ns` depends on it.

    One value for each variant of the times (columns).
    """
    free = np.maximum(begin_ns, times[graph.is_earlier].max(axis=0, initial=-np.inf))
    free = np.maximum(free, times[_unrecorded_waits(graph)[1]].max(axis=0, initial=-np.inf))
    later: Floats = np.maximum(free, begin_ns + _held_up_ns(graph))
    return later


def waited_ns(graph: StepGraph, times: Floats) -> Floats:
    """How long the host's calls wait for earlier work: from their begin to the end of the last that they wait for."""
    edges = np.flatnonzero(np.isin(graph.edge_kind, (SYNC, QUEUE)) & graph.is_earlier[graph.source])
    returns, place = np.unique(graph.target[edges], return_inverse=True)
    ends = np.full((len(returns), times.shape[1]), -np.inf)
    np.maximum.at(ends, place, times[graph.source[edges]])
    calls = graph.source[graph.way_to[returns]]
    unrecorded_calls, unrecorded_returns = _unrecorded_waits(graph)
    recorded = np.maximum(0.0, ends - times[calls]).sum(axis=0)
    waited: Floats = recorded + (times[unrecorded_returns] - times[unrecorded_calls]).sum(axis=0)
    return waited


def _unrecorded_waits(graph: StepGraph) -> tuple[Ints, Ints]:
    """Calls that synchronise before anything in the graph is launched, take long, and wait for nothing that is
    recorded; and their returns."""
    launching = graph.call_of[graph.call_of != NONE]
    first_ns = graph.recorded_ns[launching].min(initial=np.inf)
    explained = np.zeros(len(graph), bool)
    explained[graph.target[np.isin(graph.edge_kind, (SYNC, QUEUE))]] = True
    returns = np.flatnonzero((graph.kind == RETURN) & ~explained & (graph.way_to != NONE))
    calls = graph.source[graph.way_to[returns]]
    begun = graph.recorded_ns[calls]
    chosen = (graph.kind[calls] == CALL) & (begun < first_ns) & (graph.recorded_ns[returns] - begun >= LONG_LAUNCH_NS)
    return calls[chosen], returns[chosen]


def _held_up_ns(graph: StepGraph) -> float:
    """What holds up the first event that the step launches, where that is not recorded and ran before."""
    launched = np.flatnonzero(graph.call_of != NONE)
    if not len(launched):
        return 0.0
    first = launched[np.argmin((graph.recorded_ns - graph.weight_ns)[launched])]
    return float(graph.residual_ns[first]) if graph.is_opening[first] else 0.0

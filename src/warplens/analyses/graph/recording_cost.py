"""What recording costs the host, and how fast the host is without it.

A profiler takes time for every op, call and frame that it records, and none while the host sleeps, loads data or waits.
So each part of the host's time is shortened by what was recorded in it. Where the time of an unrecorded step is known,
the costs of a record are those with which the simulated step takes about that long. Else they are estimated from the
ops of the trace that do next to nothing: the slower the host, the longer they take.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isinf
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from warplens.analyses.graph.as_recorded import recorded_reason
from warplens.analyses.graph.building import graph_of
from warplens.analyses.graph.host_gauge import nested_op_ns, pauses
from warplens.analyses.graph.records import Floats, StepGraph
from warplens.analyses.graph.simulating import simulate, step_ns
from warplens.analyses.shared import shared
from warplens.analyses.workspace import Workspace
from warplens.model.kinds import CODE
from warplens.model.trace import Trace


class RecordingCost(NamedTuple):
    """The host's time per recorded op, and the range in which the true one is expected."""

    per_op_ns: float
    low_ns: float
    high_ns: float
    origin: str

    @property
    def note(self) -> str:
        """What a table that is made with it says of it."""
        if self.origin in (CORRECTED, AS_RECORDED):
            return self.origin
        if self.per_op_ns < 0:
            return f"the step takes longer without the profiler than recorded: {self.origin}"
        per_op, low, high = (max(0.0, ns) / 1e3 for ns in (self.per_op_ns, self.low_ns, self.high_ns))
        return f"recording takes the host {per_op:.1f} µs per op ({low:.1f} to {high:.1f}): {self.origin}"


GIVEN: Final = "so the simulated step takes the given time"
MEASURED: Final = "so the simulated step takes the time measured without the profiler"
ESTIMATED: Final = "estimated from ops that only call another"
ESTIMATED_OF_CALLS: Final = "estimated from the shortest calls"
AS_RECORDED: Final = "times are as recorded"
USUAL: Final = "the usual cost, as the trace has no ops that only call another"
UNKNOWN: Final = "the trace has no ops or calls to estimate it from"
CORRECTED: Final = "the times are those without the profiler"
NOT_DECIDED: Final = "no host makes the simulated step take the known time"
PER_NESTED_OP: Final = (1.9, 1.5, 2.6)
"""Cost of a record over what an op takes that only calls another one (`nested_op_ns`), times the host's pauses:
expected, low, high. From 121 recordings of 24 programs on hosts with an H200, plain, with shapes and with stacks, a
third of them beside busy programs (docs/performance.md). With one of the programs left out, the others give 1.85
or 1.9, 1.5, and 2.4 to 2.6."""
PER_SHORT_CALL: Final = (1.5, 0.0, 3.0)
"""The same where only calls are recorded, over the duration of their shortest quarter. A host-bound step takes 1.12
times as long."""
LIGHT_RECORD_NS: Final = 20_000.0
"""Steps recorded without ops are slowed evenly, as if an op were recorded in this time: on an H200 they took 1.3 to 1.5
times as long as plain ones, and gains simulated this way agreed better with measured ones than with a cost per call."""
LONGEST_SHORT_NS: Final = 1_500.0
"""No host takes longer for a call that does nothing."""
USUAL_NESTED_NS: Final = 1_200.0
"""What an op takes usually that only calls another one."""
LEAST_SHARE: Final = 0.15
"""Of its recorded time, every part of the host's work keeps this share."""
MOST_FACTOR: Final = 2.0
"""A given step time may be longer than the recorded one, by as much as the host's own time."""
ROUNDS: Final = 16
FIT: Final = 0.003
"""Where the host decides the step's time, the simulated step takes the given time to within this share."""
ESTIMATE: Final = 0.25
"""The estimated cost is off by about this share: where the host hardly matters to the step, the estimate stands."""
STEPS_DIFFER: Final = 0.05
"""Steps of one program differ by about this share, so every cost fits that makes the simulated step differ by less."""
MOST_NS: Final = 500_000.0
TINY: Final = 1e-12


@shared
def recording_cost(work: Workspace) -> RecordingCost:
    return _cost_in(work, graph_of(work))


@shared
def cost_without_light(work: Workspace) -> RecordingCost:
    """The same where all of the host's time is that of the steps recorded with ops."""
    graph = graph_of(work)
    return recording_cost(work) if graph.light_host_ns is None else _cost_in(work, replace(graph, light_host_ns=None))


def _cost_in(work: Workspace, graph: StepGraph) -> RecordingCost:
    if work.options.is_corrected:
        return RecordingCost(0.0, 0.0, 0.0, CORRECTED)
    estimated = _estimated(work.trace)
    measured_ns = work.trace.meta.plain_step_ns
    if work.options.step_ns:
        return fitted_cost(graph, estimated, work.options.step_ns)
    if measured_ns:
        return fitted_cost(graph, estimated, measured_ns, MEASURED)
    return RecordingCost(0.0, 0.0, 0.0, AS_RECORDED) if recorded_reason(work) else estimated


def _estimated(trace: Trace) -> RecordingCost:
    expected, low, high = PER_NESTED_OP
    if (trace.ints("kind") == CODE["op"]).any():
        nested_ns, paused = nested_op_ns(trace), pauses(trace)
        if not nested_ns:
            return RecordingCost(expected * USUAL_NESTED_NS, 0.0, high * USUAL_NESTED_NS, USUAL)
        # Pauses come by chance, and the steps that were recorded may have had more of them than others.
        unit = nested_ns * paused
        return RecordingCost(expected * unit, low * unit, high * unit * paused, ESTIMATED)
    calls = trace.ints("dur_ns")[trace.runtime_rows]
    short_ns = min(LONGEST_SHORT_NS, float(np.percentile(calls, 25))) if len(calls) else 0.0
    if not short_ns:
        return RecordingCost(0.0, 0.0, high * USUAL_NESTED_NS, UNKNOWN)
    expected, low, high = (ratio * short_ns for ratio in PER_SHORT_CALL)
    return RecordingCost(expected, low, high, ESTIMATED_OF_CALLS)


def plain_host(graph: StepGraph, per_op_ns: float) -> Floats:
    """Per edge: the host's part of its lag without the recording."""
    plain = _without(per_op_ns * graph.records, graph.host_ns)
    if graph.light_host_ns is None:
        return plain
    light = _without(per_op_ns / LIGHT_RECORD_NS * graph.light_host_ns, graph.light_host_ns)
    return np.where(np.isnan(light), plain, light)


def _without(cost_ns: Floats | float, host_ns: Floats) -> Floats:
    return np.clip(host_ns - cost_ns, LEAST_SHARE * host_ns, MOST_FACTOR * host_ns)


def plain_lags(graph: StepGraph, per_op_ns: float) -> Floats:
    """The lags without the recording."""
    return graph.lag_ns - graph.host_ns + plain_host(graph, per_op_ns)


def fitted_cost(graph: StepGraph, estimated: RecordingCost, wanted_ns: float, origin: str = GIVEN) -> RecordingCost:
    """The costs with which the simulated step takes about this long, as far as they are likely.

    Where the GPU alone takes that long, all costs fit that make the host fast enough: the step's time bounds the host's
    time from above only.
    """

    def simulated(per_op_ns: float) -> float:
        return step_ns(graph, simulate(graph, lag_ns=plain_lags(graph, per_op_ns)))

    low, exact, high = (_crossing(simulated, share * wanted_ns) for share in (1 + STEPS_DIFFER, 1, 1 - STEPS_DIFFER))
    if low == inf or high == -inf:
        return estimated._replace(origin=f"{estimated.origin}; {NOT_DECIDED}")
    if low <= estimated.high_ns and estimated.low_ns <= high:
        low, high = max(low, estimated.low_ns), min(high, estimated.high_ns)
    elif isinf(high):
        high = low + estimated.high_ns - estimated.low_ns
    elif isinf(low):
        low = high - estimated.high_ns + estimated.low_ns
    if isinf(exact):
        return RecordingCost(min(max(low, estimated.per_op_ns), high), low, high, estimated.origin)
    # Two sources, weighted by how well each knows the cost: the step's time, and the estimate.
    unit = max(1.0, estimated.per_op_ns)
    off = abs(simulated(estimated.per_op_ns) / wanted_ns - 1)
    by_time = (off / FIT) ** 2
    by_estimate = ((exact / unit - 1) / ESTIMATE) ** 2 if off <= STEPS_DIFFER else 0.0
    per_op = (by_time * exact + by_estimate * estimated.per_op_ns) / max(by_time + by_estimate, TINY)
    return RecordingCost(per_op, min(low, per_op), max(high, per_op), origin)


def _crossing(simulated: Callable[[float], float], wanted_ns: float) -> float:
    """The cost with which the simulated step takes this long; infinite where every one makes it longer, or shorter."""
    low, high = (-MOST_NS, 0.0) if wanted_ns > simulated(0.0) else (0.0, MOST_NS)
    if simulated(low) <= wanted_ns:
        return -inf
    if simulated(high) >= wanted_ns:
        return inf
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        low, high = (low, middle) if simulated(middle) < wanted_ns else (middle, high)
    return (low + high) / 2

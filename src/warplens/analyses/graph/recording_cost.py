"""What recording costs the host, and how fast the host is without it.

A profiler takes time for every op, call and frame that it records, and none while the host sleeps, loads data or waits.
So each part of the host's time is shortened by what was recorded in it. Where the time of an unrecorded step is known,
the cost of a record is the one with which the simulated step takes that long. Else it is estimated from the shortest
ops of the trace, which do next to nothing: the slower the host, the longer they take.
"""

from __future__ import annotations

from collections.abc import Callable
from math import hypot
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from warplens.analyses.graph.as_recorded import recorded_reason
from warplens.analyses.graph.building import graph_of
from warplens.analyses.graph.records import Floats, StepGraph
from warplens.analyses.graph.simulating import simulate, step_ns
from warplens.analyses.shared import shared
from warplens.analyses.workspace import Workspace
from warplens.model.kinds import CODE
from warplens.model.trace import Ints, Trace


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
ESTIMATED: Final = "estimated from the shortest ops"
ESTIMATED_OF_CALLS: Final = "estimated from the shortest calls"
UNKNOWN: Final = "the trace has no short ops or calls to estimate it from"
AS_RECORDED: Final = "times are as recorded"
CORRECTED: Final = "the times are those without the profiler"
NOT_DECIDED: Final = "no host makes the simulated step take the known time"
PER_SHORT_OP: Final = (5.8, 4.0, 7.5)
"""Cost of a record over the duration that a quarter of the ops without callees stay below: expected, low, high. Nine
programs on two hosts with an H200, with and without stacks: 4.5 to 7.4."""
PER_SHORT_CALL: Final = (1.5, 0.0, 3.0)
"""The same where only calls are recorded, over the duration of their shortest quarter. A host-bound step takes 1.12
times as long."""
LIGHT_RECORD_NS: Final = 20_000.0
"""Steps recorded without ops are slowed evenly, as if an op were recorded in this time: on an H200 they took 1.3 to 1.5
times as long as plain ones, and gains simulated this way agreed better with measured ones than with a cost per call."""
LONGEST_SHORT_NS: Final = 1_500.0
"""No host takes longer for an op that does nothing; a trace of few ops may have none."""
USUAL_SHORT_NS: Final = 800.0
"""What they take usually; in a trace in whole microseconds they take none."""
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
"""Steps of one program differ by about this share, so a cost that one step time decides is not known better."""
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
    kind, duration = trace.ints("kind"), trace.ints("dur_ns")
    has_callee = np.zeros(len(trace) + 1, bool)
    has_callee[trace.ints("parent")] = True  # no parent is -1: the last
    ops = np.flatnonzero(kind == CODE["op"])
    if len(ops):
        without_callee = ops[~has_callee[ops]]
        return _per_short(duration[without_callee if len(without_callee) else ops], PER_SHORT_OP, ESTIMATED)
    return _per_short(duration[trace.runtime_rows], PER_SHORT_CALL, ESTIMATED_OF_CALLS)


def _per_short(durations: Ints, ratios: tuple[float, float, float], origin: str) -> RecordingCost:
    short = float(np.percentile(durations, 25)) if len(durations) else 0.0
    if not short:
        return RecordingCost(0.0, 0.0, ratios[-1] * USUAL_SHORT_NS, UNKNOWN)
    expected, low, high = (ratio * min(LONGEST_SHORT_NS, short) for ratio in ratios)
    return RecordingCost(expected, low, high, origin)


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
    """The cost with which the simulated step takes this long; the estimated one where that is as good."""

    def simulated(per_op_ns: float) -> float:
        return step_ns(graph, simulate(graph, lag_ns=plain_lags(graph, per_op_ns)))

    unit = max(1.0, estimated.per_op_ns)
    off = abs(simulated(estimated.per_op_ns) / wanted_ns - 1)
    exact = _crossing(simulated, wanted_ns)
    if exact is None:
        doubt = "" if off <= STEPS_DIFFER else f"; {NOT_DECIDED}"
        return estimated._replace(origin=estimated.origin + doubt)
    # Two sources, weighted by how well each knows the cost: the step's time, and the estimate.
    by_time = (off / FIT) ** 2
    by_estimate = ((exact / unit - 1) / ESTIMATE) ** 2 if off <= STEPS_DIFFER else 0.0
    per_op = (by_time * exact + by_estimate * estimated.per_op_ns) / max(by_time + by_estimate, TINY)
    slope = abs(simulated(per_op + unit / 10) - simulated(per_op - unit / 10)) / (0.2 * wanted_ns)
    spread = unit / hypot(1 / ESTIMATE, slope / STEPS_DIFFER)
    return RecordingCost(per_op, per_op - spread, per_op + spread, origin)


def _crossing(simulated: Callable[[float], float], wanted_ns: float) -> float | None:
    """The cost with which the simulated step takes this long, None where none does."""
    low, high = (-MOST_NS, 0.0) if wanted_ns > simulated(0.0) else (0.0, MOST_NS)
    if not simulated(high) < wanted_ns < simulated(low):
        return None
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        low, high = (low, middle) if simulated(middle) < wanted_ns else (middle, high)
    return (low + high) / 2

"""What recording costs the host, and how fast the host is without it.

A profiler takes time for every op, call and frame that it records, and none while the host sleeps, loads data or
computes. So a share of the host's time inside ops is the profiler's. Where the time of an unrecorded step is known, the
share is that with which the simulated step takes about that long. Else it is the usual one.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isinf
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from warplens.analyses.graph.as_recorded import recorded_reason
from warplens.analyses.graph.building import graph_of
from warplens.analyses.graph.records import Floats, StepGraph
from warplens.analyses.graph.simulating import simulate, step_ns
from warplens.analyses.shared import shared
from warplens.analyses.workspace import Workspace


class RecordingCost(NamedTuple):
    """The profiler's share of the host's time inside ops, and the range in which the true one is expected."""

    share: float
    low: float
    high: float
    origin: str

    @property
    def note(self) -> str:
        """What a table that is made with it says of it."""
        if self.origin in (CORRECTED, AS_RECORDED):
            return self.origin
        if self.share < 0:
            return f"the step takes longer without the profiler than recorded: {self.origin}"
        if self.high > 1:  # of steps recorded without ops: not a share of time in ops
            return f"the cost of recording is fitted to steps recorded without ops, {self.origin}"
        share, low, high = (100 * max(0.0, part) for part in (self.share, self.low, self.high))
        return f"recording takes {share:.0f} % of the host's time in ops ({low:.0f} to {high:.0f}), {self.origin}"


GIVEN: Final = "so the simulated step takes the given time"
MEASURED: Final = "so the simulated step takes the time measured without the profiler"
ESTIMATED: Final = "estimated, as is usual for PyTorch's profiler"
AS_RECORDED: Final = "times are as recorded"
CORRECTED: Final = "the times are those without the profiler"
NOT_DECIDED: Final = "no host makes the simulated step take the known time"
USUAL_SHARE: Final = RecordingCost(0.55, 0.42, 0.67, ESTIMATED)
"""From 159 recordings of 33 programs on hosts with an H200, plain, with shapes and with stacks: in processes that had
never been profiled, right after other recordings and beside busy programs. Leaving any program out, the others give
0.55 or 0.56. Recordings of one program in several processes differ by 13 %, estimates from the truth by 15 %
(docs/performance.md)."""
LIGHT_SHARE: Final = 0.3
"""Steps recorded without ops are slowed evenly, by this much of what time in ops is: their host took 0.83 times as long
without the profiler in the median of 14 bundles whose host decides, on an H200."""
USUAL_WITH_LIGHT: Final = RecordingCost(0.55, 0.0, 2.2, ESTIMATED)
"""In the same bundles it took 0.37 (in steps of 3 ms) to 1.02 times as long: the share is known from the measured step,
or not at all."""
LEAST_SHARE: Final = 0.15
"""Of its recorded time, every part of the host's work keeps this share."""
MOST_FACTOR: Final = 2.0
"""A given step time may be longer than the recorded one, by as much as the host's own time."""
ROUNDS: Final = 20
FIT: Final = 0.003
"""Where the host decides the step's time, the simulated step takes the given time to within this share."""
ESTIMATE: Final = 0.25
"""The estimated share is off by about this much of it: where the host hardly matters to the step, it stands."""
STEPS_DIFFER: Final = 0.05
"""Steps of one program differ by about this share, so every cost fits that makes the simulated step differ by less."""
MOST_SHARE: Final = 100.0
"""No part of the host's work is changed by more than `LEAST_SHARE` and `MOST_FACTOR` say: all fits within this."""
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
    usual = USUAL_SHARE if graph.light_host_ns is None else USUAL_WITH_LIGHT
    measured_ns = work.trace.meta.plain_step_ns
    if work.options.step_ns:
        return fitted_cost(graph, usual, work.options.step_ns)
    if measured_ns:
        return fitted_cost(graph, usual, measured_ns, MEASURED)
    return RecordingCost(0.0, 0.0, 0.0, AS_RECORDED) if recorded_reason(work) else usual


def plain_host(graph: StepGraph, share: float) -> Floats:
    """Per edge: the host's part of its lag without the recording."""
    plain = _without(share * graph.ops_ns, graph.host_ns)
    if graph.light_host_ns is None:
        return plain
    light = _without(share * LIGHT_SHARE * graph.light_host_ns, graph.light_host_ns)
    return np.where(np.isnan(light), plain, light)


def _without(cost_ns: Floats | float, host_ns: Floats) -> Floats:
    return np.clip(host_ns - cost_ns, LEAST_SHARE * host_ns, MOST_FACTOR * host_ns)


def plain_lags(graph: StepGraph, share: float) -> Floats:
    """The lags without the recording."""
    return graph.lag_ns - graph.host_ns + plain_host(graph, share)


def fitted_cost(graph: StepGraph, estimated: RecordingCost, wanted_ns: float, origin: str = GIVEN) -> RecordingCost:
    """The costs with which the simulated step takes about this long, as far as they are likely.

    Where the GPU alone takes that long, all costs fit that make the host fast enough: the step's time bounds the host's
    time from above only.
    """

    def simulated(share: float) -> float:
        return step_ns(graph, simulate(graph, lag_ns=plain_lags(graph, share)))

    low, exact, high = (_crossing(simulated, share * wanted_ns) for share in (1 + STEPS_DIFFER, 1, 1 - STEPS_DIFFER))
    if low == inf or high == -inf:
        return estimated._replace(origin=f"{estimated.origin}; {NOT_DECIDED}")
    if low <= estimated.high and estimated.low <= high:
        low, high = max(low, estimated.low), min(high, estimated.high)
    elif isinf(high):
        high = low + estimated.high - estimated.low
    elif isinf(low):
        low = high - estimated.high + estimated.low
    if isinf(exact):
        return RecordingCost(min(max(low, estimated.share), high), low, high, estimated.origin)
    # Two sources, weighted by how well each knows the cost: the step's time, and the estimate.
    off = abs(simulated(estimated.share) / wanted_ns - 1)
    by_time = (off / FIT) ** 2
    by_estimate = ((exact / estimated.share - 1) / ESTIMATE) ** 2 if off <= STEPS_DIFFER else 0.0
    share = (by_time * exact + by_estimate * estimated.share) / max(by_time + by_estimate, TINY)
    return RecordingCost(share, min(low, share), max(high, share), origin)


def _crossing(simulated: Callable[[float], float], wanted_ns: float) -> float:
    """The cost with which the simulated step takes this long; infinite where every one makes it longer, or shorter."""
    low, high = (-MOST_SHARE, 0.0) if wanted_ns > simulated(0.0) else (0.0, MOST_SHARE)
    if simulated(low) <= wanted_ns:
        return -inf
    if simulated(high) >= wanted_ns:
        return inf
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        low, high = (low, middle) if simulated(middle) < wanted_ns else (middle, high)
    return (low + high) / 2

"""How much faster the host is when nothing records it.

Recording costs time on the host for every op, call and frame. Where the time of an unrecorded step is known, the host's
times are scaled so that the simulated step takes that long. Else a factor is assumed from what recording usually costs.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from warplens.analyses.graph.building import graph_of
from warplens.analyses.graph.records import Floats, StepGraph
from warplens.analyses.graph.simulating import simulate, step_ns
from warplens.analyses.shared import shared
from warplens.analyses.workspace import Workspace
from warplens.model.kinds import CODE


class HostScale(NamedTuple):
    """What the host's times are multiplied by, and the range in which the true factor is expected."""

    factor: float
    low: float
    high: float
    origin: str


GIVEN: Final = "the unrecorded step's time"
RECORDED_OPS: Final = HostScale(0.55, 0.37, 0.85, "the usual cost of recording ops")
"""With PyTorch's profiler recording ops, host-bound steps on an H200 took 1.2 to 2.7 times as long."""
RECORDED_CALLS: Final = HostScale(0.9, 0.8, 1.0, "the usual cost of recording launches")
"""With GPU activity only, 1.12 times as long."""
ROUNDS: Final = 14
MOST: Final = 2.0


@shared
def host_scale(work: Workspace) -> HostScale:
    graph = graph_of(work)
    if work.options.step_ns:
        factor = fitted_factor(graph, work.options.step_ns)
        if factor is not None:
            return HostScale(factor, 0.9 * factor, 1.1 * factor, GIVEN)
    has_ops = bool((work.trace.ints("kind") == CODE["op"]).any())
    return RECORDED_OPS if has_ops else RECORDED_CALLS


def scaled_lags(graph: StepGraph, factor: float) -> Floats:
    """The lags with the host's part of them scaled."""
    return graph.lag_ns - (1 - factor) * graph.host_ns


def fitted_factor(graph: StepGraph, wanted_ns: float) -> float | None:
    """The factor with which the simulated step takes this long; None where the host's speed does not decide that."""

    def simulated(factor: float) -> float:
        return step_ns(graph, simulate(graph, lag_ns=scaled_lags(graph, factor)))

    low, high = 0.0, MOST
    if not simulated(low) < wanted_ns < simulated(high):
        return None
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        low, high = (middle, high) if simulated(middle) < wanted_ns else (low, middle)
    return (low + high) / 2

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

    @property
    def note(self) -> str:
        """What a table that is made with it says of it."""
        return (
            f"the host's times are multiplied by {self.factor:.2f} ({self.low:.2f} to {self.high:.2f}): {self.origin}"
        )


GIVEN: Final = "so the simulated step takes the given time"
NOT_DECIDED: Final = "the host's speed does not decide the given step time"
RECORDED_OPS: Final = HostScale(0.55, 0.37, 0.85, "what recording ops usually costs")
"""With PyTorch's profiler recording ops, host-bound steps on an H200 took 1.2 to 2.7 times as long."""
RECORDED_CALLS: Final = HostScale(0.9, 0.8, 1.0, "what recording launches usually costs")
"""With GPU activity only, 1.12 times as long."""
ROUNDS: Final = 14
SPREAD: Final = 0.1
"""Of a factor that a step's time decides: steps of one program differ by about as much."""
MOST: Final = 2.0


@shared
def host_scale(work: Workspace) -> HostScale:
    graph = graph_of(work)
    has_ops = bool((work.trace.ints("kind") == CODE["op"]).any())
    assumed = RECORDED_OPS if has_ops else RECORDED_CALLS
    if not work.options.step_ns:
        return assumed
    factor = fitted_factor(graph, work.options.step_ns)
    if factor is None:
        return assumed._replace(origin=f"{assumed.origin}; {NOT_DECIDED}")
    return HostScale(factor, (1 - SPREAD) * factor, (1 + SPREAD) * factor, GIVEN)


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

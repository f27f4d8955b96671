"""How long a step takes without the profiler, how long while it was recorded, and how the former is known."""

from __future__ import annotations

from typing import Final

import msgspec

from warplens.analyses.graph.bounds import step_bounds
from warplens.analyses.graph.building import graph_of, has_graph
from warplens.analyses.graph.simulating import NOTED_SHARE
from warplens.analyses.workspace import Workspace

GIVEN: Final = "given"
MEASURED: Final = "measured in the bundle"
ESTIMATED: Final = "estimated from recorded ops"


class PlainStep(msgspec.Struct, frozen=True):
    """Of a step, or of the whole run where no steps are marked."""

    plain_ms: float
    recorded_ms: float
    origin: str
    is_step: bool
    matters: bool
    """The two differ, or the plain time was given or measured, or the step's mark is longer."""
    low_ms: float
    """The least that the plain time is expected to be: the plain time itself where it was given or measured."""
    high_ms: float
    """The most."""
    left_out_ms: float = 0.0
    """Time in which the step waits for work that was launched before it; neither of the two contains it. 0 where it is
    little."""

    @property
    def name(self) -> str:
        return "step" if self.is_step else "run"


def plain_step(work: Workspace) -> PlainStep | None:
    """None where it is not known: without launches, or with many waits that nothing recorded explains."""
    if work.options.is_corrected or not has_graph(work):
        return None
    bounds = step_bounds(work)
    if not bounds.is_known and graph_of(work).unexplained_ns:
        return None
    known = GIVEN if work.options.step_ns else MEASURED
    has_left_out = bounds.left_out_ms > NOTED_SHARE * (bounds.recorded_ms + bounds.left_out_ms)
    return PlainStep(
        bounds.plain_ms,
        bounds.recorded_ms,
        origin=known if bounds.is_known else ESTIMATED,
        is_step=work.trace.steps.height > 0,
        matters=bounds.is_known or bounds.is_estimated or has_left_out,
        low_ms=bounds.plain_low_ms,
        high_ms=bounds.plain_high_ms,
        left_out_ms=bounds.left_out_ms if has_left_out else 0.0,
    )

"""Iterations without the profiler: recording slows the host, and where the host is the limit every token with it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from warplens.analyses.graph.bounds import LITTLE, calibration, step_bounds
from warplens.analyses.graph.building import graph_of, has_graph
from warplens.analyses.graph.corrected import corrected_trace
from warplens.analyses.graph.plain_step import PlainStep, plain_step
from warplens.analyses.serving.iterations import Windows, held_until, iteration_windows, served
from warplens.analyses.shared import shared
from warplens.analyses.workspace import Workspace
from warplens.model.kinds import NONE

AS_RECORDED = "times and rates are as recorded, with what recording costs the host"


class PlainTimes(NamedTuple):
    """The windows of iterations as the simulation without the profiler has them, and how that is known."""

    windows: Windows
    scale: float
    """What simulated times are multiplied by so that the step takes the time that is known."""
    step: PlainStep

    @property
    def time_ms(self) -> pl.Series:
        return pl.Series(self.windows.time_ns * (self.scale / 1e6))


@shared
def plain_times(work: Workspace) -> PlainTimes | None:
    """None where they are not known, and where they are those of the trace: nothing that is recorded slows it."""
    found = served(work)
    if found is None or not has_graph(work):
        return None
    step = plain_step(work)
    if step is None or not step.matters or graph_of(work).unexplained_ns:
        return None
    start = corrected_trace(work).ints("start_ns")[work.gpu["id"].to_numpy()]
    end = start + work.gpu["dur_ns"].to_numpy()
    free = held_until(work)
    held = np.flatnonzero(work.gpu["start_ns"].to_numpy() == free)
    first_free = int(start[held[0]]) if len(held) else NONE
    return PlainTimes(iteration_windows(found, start, end, first_free), calibration(work), step)


def recording_note(work: Workspace) -> str:
    """Whether times contain the profiler's cost, for every table that has rates of iterations."""
    if work.options.is_corrected:
        return "times and rates are corrected for what recording cost the host"
    plain = plain_times(work)
    if plain is not None:
        least, most = (ms / plain.step.plain_ms for ms in (plain.step.low_ms, plain.step.high_ms))
        sure = f", times between {least:.2f} and {most:.2f} of these" if least < most else ""
        return f"{AS_RECORDED}; columns plain_… are without it, simulated ({plain.step.origin}{sure})"
    if not has_graph(work) or plain_step(work) is None:
        return f"{AS_RECORDED}, which is not known here"
    bounds = step_bounds(work)
    little = abs(bounds.recorded_ms - bounds.plain_ms) <= LITTLE * bounds.plain_ms
    return f"{AS_RECORDED}: {'less than 1 % of the step by estimate' if little else 'not known here'}"

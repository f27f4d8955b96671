"""The step of a job that everything is said of: which recorded steps it stands for, how long it takes, and between
what a simulated gain of it lies."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from warplens.analyses.graph.simulating import WARM_UP
from warplens.analyses.graph.what_if import SHARE_OF_GAIN, SHARE_OF_STEP
from warplens.analyses.shared import shared
from warplens.model.clock import RECORDED, Clock
from warplens.ranks.own_pace import JobModel
from warplens.ranks.slow.records import Straggler
from warplens.ranks.straggling import stragglers

HIDDEN_SHARE: Final = 0.001
"""Of the step: what would win less is hidden by other work."""
SEEN_SHARE: Final = 0.005
"""Of the step: a least gain below it is none, since the step would be printed with hardly another number."""
COUNTED: Final = (
    "of the job's steps since the costliest straggler delays them; without one, of those after a warm-up (leading "
    f"steps over {WARM_UP:g} × the median of the rest)"
)
AS_RECORDED: Final = "what recording cost the ranks is not taken off"


class GainRange(NamedTuple):
    low_ms: float
    high_ms: float


@shared
def deciding_straggler(model: JobModel) -> Straggler | None:
    """The one that delays the job most; None where no rank does."""
    costliest = stragglers(model)[:1]
    delays = [each for each in costliest if 1e6 * each.gain_ms >= HIDDEN_SHARE * float(np.median(model.step_ns))]
    return delays[0] if delays else None


@shared
def job_steps(model: JobModel) -> list[int]:
    """The steps that the job's step is the median of: what it is like now, not what it was before a rank was slow."""
    straggler, usual = deciding_straggler(model), model.usual_steps
    since = [step for step in usual if straggler is not None and step >= straggler.since]
    return since or usual


def places_of_steps(model: JobModel) -> list[int]:
    """The same as columns of the arrays of the graph's steps."""
    return [model.graph.steps.index(step) for step in job_steps(model)]


@shared
def job_clock(model: JobModel) -> Clock | None:
    """None where no step was recorded by all ranks."""
    if not model.is_known:
        return None
    steps = job_steps(model)
    ms = float(np.median(model.step_ns[places_of_steps(model)])) / 1e6
    since = f"; of the steps since step {steps[0]}" if len(steps) < len(model.graph.steps) else ""
    return Clock(ms, ms, ms, RECORDED, ms, "step", len(steps), f"{AS_RECORDED}{since}")


def gain_range(gain_ms: float, step_ms: float, is_sure: bool = True) -> GainRange:
    """As for one trace, simulated gains are off by 20 % of the gain and 2.5 % of the step; what is not sure may win
    nothing, nor what is least expected to win next to nothing.

    >>> gain_range(1.7, 63.2).low_ms
    0.0
    >>> [round(ms, 1) for ms in gain_range(70.0, 153.6)], gain_range(1.0, 100.0, is_sure=False).low_ms
    ([55.5, 84.5], 0.0)
    """
    off_ms = math.hypot(SHARE_OF_GAIN * gain_ms, SHARE_OF_STEP * step_ms)
    least_ms = gain_ms - off_ms if is_sure else 0.0
    is_none = gain_ms >= 0 and least_ms < SEEN_SHARE * step_ms
    return GainRange(0.0 if is_none else least_ms, min(step_ms, gain_ms + off_ms))

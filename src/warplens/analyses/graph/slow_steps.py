"""How much longer some steps take than the others, as recorded and without the profiler.

A step is slow for what only happens in it, so nothing is taken over from the light pass here: its steps may have had
nothing of the kind. What was recorded in each part of the host's time is taken off as elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec
import numpy as np
from msgspec.structs import replace

from warplens.analyses.graph.recording_cost import plain_lags
from warplens.analyses.graph.records import Floats, StepGraph
from warplens.analyses.graph.simulating import simulate


class StepExcess(msgspec.Struct, frozen=True):
    """What slow steps take more than the median step, summed, and all steps together."""

    excess_ms: float
    all_ms: float


def step_excess(graph: StepGraph, steps: Collection[int], share: float = 0.0) -> StepExcess:
    """With what recording costs taken off the host's time; by default as recorded."""
    own = replace(graph, light_host_ns=None)
    # A cost below 0 fits a known step time that is a mean with the slow steps in it: it would lengthen them again.
    times = simulate(own, lag_ns=plain_lags(own, max(0.0, share)))
    lengths = _lengths_ns(own, times)
    usual_ns = float(np.median(list(lengths.values()))) if lengths else 0.0
    excess_ns = sum(length - usual_ns for step, length in lengths.items() if step in steps)
    return StepExcess(excess_ns / 1e6, sum(lengths.values()) / 1e6)


def _lengths_ns(graph: StepGraph, times: Floats) -> dict[int, float]:
    """From the first GPU event of each step to that of the next, as the table `steps` has it; the last one until its
    work ends."""
    own = np.flatnonzero(graph.is_work & (graph.step >= 0))
    numbers = np.unique(graph.step[own])
    if len(numbers) == 0:
        return {}
    starts = times[own] - graph.weight_ns[own]
    begins = np.array([starts[graph.step[own] == number].min() for number in numbers])
    order = np.argsort(begins, kind="stable")
    last_end = times[own[graph.step[own] == numbers[order[-1]]]].max()
    lengths = np.diff(np.append(begins[order], last_end))
    return dict(zip(numbers[order].tolist(), lengths.tolist(), strict=True))

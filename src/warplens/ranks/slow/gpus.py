"""GPUs that compute much longer than their peers, though that decides no step."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.graph.records import Floats
from warplens.ranks.own_pace import JobModel
from warplens.ranks.roles import roles, stages
from warplens.ranks.slow.causes import cause_on_gpu
from warplens.ranks.slow.comparing import change_point, excess_over_peers, first_usable
from warplens.ranks.slow.records import Excess, Straggler
from warplens.ranks.slow.removing import gain_ms, without

MUCH_LONGER: Final = 2.0
"""A rank that computes so many times as long as its peers is named whatever that costs the job."""
ALWAYS: Final = 1.5
"""So many times as long it computes in three of four steps: a GPU that is shared is slow in some of them only."""
NAMED_SHARE: Final = 0.005
"""Of the step: less is not worth a word, however many times as long it is."""


def slow_gpus(model: JobModel) -> list[Straggler]:
    """By the time in which kernels run, whether or not they show in the steps; stages of a pipeline differ anyway."""
    if max(stages(model.job)) > 0:
        return []
    begin, typical = first_usable(model), float(np.median(model.step_ns))
    used = model.pace.steps[begin:]
    times = _computation(model, used)
    excess = excess_over_peers(times, roles(model.job))
    found = []
    for position in range(len(times)):
        first, mean = change_point(excess[position])
        own, more = times[position, first:], excess[position, first:]
        ratio = own / np.maximum(own - more, 1.0)
        if mean < NAMED_SHARE * typical or np.median(ratio) < MUCH_LONGER or np.quantile(ratio, 0.25) < ALWAYS:
            continue
        usual = float(np.median(more))
        slow = Excess((position,), first + begin, gpu_ns=usual)
        cause, place = cause_on_gpu(model, slow)
        gain = max(0.0, gain_ms(model, without(model, slow), slow.first))
        what = f"computes {np.median(ratio):.1f} × as long as its peers: {100 * usual / typical:.1f} % of the step more"
        confidence = "high" if len(own) > 1 else "low"
        found.append(Straggler((position,), used[first], cause, usual / 1e6, gain, 1.0, place, confidence, what))
    return found


def _computation(model: JobModel, steps: list[int]) -> Floats:
    """How long the GPU of each rank (rows) computes in each step (columns): without copies and communication."""
    times = np.zeros((len(model.job.digests), len(steps)))
    for position, digest in enumerate(model.job.digests):
        own = digest.steps.filter(pl.col("step").is_in(steps))
        times[position, np.searchsorted(steps, own["step"].to_numpy())] = own["compute_ns"].fill_null(0).to_numpy()
    return times

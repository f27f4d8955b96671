"""Hosts that are slower than their peers though other work hides it, and ranks that start late."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.graph.records import Floats
from warplens.ranks.condensing import ORIGIN
from warplens.ranks.job_graph import job_step_lengths, simulate
from warplens.ranks.own_pace import JobModel
from warplens.ranks.roles import roles
from warplens.ranks.slow.causes import cause_on_host, longer_on_host
from warplens.ranks.slow.comparing import change_point, excess_over_peers, first_usable, grown, usual_difference
from warplens.ranks.slow.records import BEFORE_FIRST_STEP, HOST, NOISE, Excess, Straggler
from warplens.ranks.slow.removing import gain_ms, without, without_unseen_waits

FEW_STEPS: Final = 3
HIDDEN_SHARE: Final = 0.08
"""Of the step: a host that is slower by so much is named even where nobody waits for it."""
HIDDEN_IN_ONE: Final = 0.6
"""Of such an excess: what has to be in one place, to tell it from a host that is a little slow everywhere."""
LATE_SHARE: Final = 0.1
"""Of the step: how much later than the others a rank has to begin."""
LATE_SPREAD: Final = 6.0
"""How many times the usual differences that is."""


def slow_hosts(model: JobModel) -> list[Straggler]:
    """By the host's own time, whether or not it shows in the steps."""
    begin = first_usable(model)
    used = model.pace.steps[begin:]
    excess = excess_over_peers(_host_time(model, used), roles(model.job))
    noise, typical = usual_difference(excess), float(np.median(model.step_ns))
    found = []
    for position in range(len(excess)):
        first, mean = change_point(excess[position])
        count = len(used) - first
        if count < FEW_STEPS or mean < max(HIDDEN_SHARE * typical, NOISE * noise / np.sqrt(count)):
            continue
        changed = grown(excess[position], 0, first)
        own = Excess((position,), first + begin, host_ns=mean)
        most = float(longer_on_host(model, own)["more"][0]) - (mean - changed)
        if most < max(HIDDEN_IN_ONE * mean, HIDDEN_SHARE * typical):
            continue
        own = replace(own, host_ns=min(changed, most))
        cause, place = cause_on_host(model, own)
        gain = max(0.0, gain_ms(model, without(model, own), own.first))
        found.append(Straggler((position,), used[first], cause, own.host_ns / 1e6, gain, 1.0, place, "high"))
    return found


def _host_time(model: JobModel, steps: list[int]) -> Floats:
    """The host's own time of each rank (rows) in each step (columns)."""
    times = np.zeros((len(model.job.digests), len(steps)))
    for position, digest in enumerate(model.job.digests):
        sums = digest.frames["host"].filter(pl.col("step").is_in(steps)).group_by("step").agg(pl.col("host_ns").sum())
        times[position, np.searchsorted(steps, sums["step"].to_numpy())] = sums["host_ns"].to_numpy()
    return times


def late_starts(model: JobModel) -> list[Straggler]:
    """Ranks that begin the first step after the others: what made them late ran before the recording.

    Of a single step, the last one; of more, one that is far behind all others.
    """
    late, typical = model.pace.late_ns, float(np.median(model.step_ns))
    order = np.argsort(late, kind="stable")
    if len(model.pace.steps) <= 2:
        latest = order[-1:] if np.ptp(late) >= LATE_SHARE * typical else order[:0]
    else:
        spread = 1.48 * float(np.median(np.abs(late)))
        latest = order[late[order] > max(LATE_SHARE * typical, LATE_SPREAD * spread)]
    return [_late(model, int(position)) for position in latest.tolist()]


def _late(model: JobModel, position: int) -> Straggler:
    graph, late = model.graph, model.pace.late_ns
    own = (graph.rank[graph.target] == position) & (graph.kind[graph.source] == ORIGIN)
    lengths = np.where(own, graph.length_ns - max(0.0, late[position]), graph.length_ns)
    earlier = without_unseen_waits(model, graph.with_lengths(lengths), model.pace.steps[:1])
    after = job_step_lengths(simulate(earlier))
    gain = max(0.0, float((model.step_ns - after).mean()) / 1e6)
    late_ms = float(late[position] - late.min()) / 1e6
    what = f"its first step begins {late_ms:.1f} ms after the first rank's"
    return Straggler((position,), model.pace.steps[0], HOST, late_ms, gain, 1.0, BEFORE_FIRST_STEP, "high", what)

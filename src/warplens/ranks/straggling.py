"""`stragglers`: all that are slower than their peers, each once, the costliest first."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from warplens.analyses.shared import shared
from warplens.ranks.own_pace import JobModel
from warplens.ranks.slow.behind import behind
from warplens.ranks.slow.experts import hot_experts
from warplens.ranks.slow.gpus import slow_gpus
from warplens.ranks.slow.hosts import late_starts, slow_hosts
from warplens.ranks.slow.links import slow_links
from warplens.ranks.slow.ranks import slow_ranks, slow_sets
from warplens.ranks.slow.records import LEAST_SHARE, Straggler
from warplens.ranks.slow.stages import uneven_stages

__all__ = ["Straggler", "stragglers"]


@shared
def stragglers(model: JobModel) -> list[Straggler]:
    """Those that cost the job some of its step; and hosts, GPUs, stages and late starts that are clear without."""
    if not model.is_known or len(model.job.digests) < 2:
        return []
    least = LEAST_SHARE * float(np.median(model.step_ns)) / 1e6
    costly = [*hot_experts(model), *slow_sets(model), *slow_ranks(model), *slow_links(model)]
    clear = [*uneven_stages(model), *late_starts(model), *slow_hosts(model), *slow_gpus(model)]
    found = _each_once([*(each for each in costly if each.gain_ms >= least), *clear])
    found += behind(model, found, [each for each in costly if each.gain_ms < least])
    return sorted(found, key=lambda each: -each.gain_ms)


def _each_once(found: Iterable[Straggler]) -> list[Straggler]:
    """The first word on some ranks counts, where the next one has the same cause or is about the same time."""
    kept: list[Straggler] = []
    for each in found:
        said = [other for other in kept if set(each.positions) <= set(other.positions)]
        if not any(other.cause == each.cause or other.since == each.since for other in said):
            kept.append(each)
    return kept

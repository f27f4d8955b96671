"""Slow ranks behind a slower one: they cost little while it is there, and delay the job once it is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from warplens.ranks.job_graph import JobGraph, job_step_lengths, simulate
from warplens.ranks.own_pace import JobModel
from warplens.ranks.slow.records import LEAST_SHARE, UNCLEAR, Straggler
from warplens.ranks.slow.removing import without


def behind(model: JobModel, found: Sequence[Straggler], hidden: Sequence[Straggler]) -> list[Straggler]:
    """Of `hidden`, those that cost the job some of its step once all that was found is gone."""
    known = {position for each in found for position in each.positions}
    candidates = [each for each in hidden if each.cause != UNCLEAR and not known & set(each.positions)]
    removable = [each for each in found if each.excess is not None]
    if not removable or not candidates:
        return []
    graph = model.graph
    for each in removable:
        graph = _removed(model, each, graph)
    before = job_step_lengths(simulate(graph))
    least_ns = LEAST_SHARE * float(np.median(before))
    named = []
    for each in candidates:
        first = model.pace.steps.index(each.since)
        after = job_step_lengths(simulate(_removed(model, each, graph)))
        gain_ns = float((before - after)[first:].mean())
        if gain_ns >= least_ns:
            named.append(replace(each, later_ms=gain_ns / 1e6))
    return named


def _removed(model: JobModel, straggler: Straggler, graph: JobGraph) -> JobGraph:
    return graph if straggler.excess is None else without(model, straggler.excess, graph)

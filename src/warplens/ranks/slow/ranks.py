"""Slow ranks and replicas: those whose own pace is slower than their peers'."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.graph.records import Floats
from warplens.ranks.job_graph import JobGraph
from warplens.ranks.own_pace import JobModel
from warplens.ranks.roles import roles, stages
from warplens.ranks.slow.causes import cause_of, part_of
from warplens.ranks.slow.comparing import (
    MANY_STEPS,
    change_point,
    excess_over_peers,
    first_usable,
    grown,
    usual_change,
    usual_difference,
)
from warplens.ranks.slow.records import EXPLAINS, IMBALANCE, LEAST_SHARE, NOISE, Excess, Straggler
from warplens.ranks.slow.removing import PARTS, gain_ms, with_even_messages, without

MOST_CANDIDATES: Final = 24
"""Ranks that the job is simulated without the excess of."""
APART: Final = 4.0
"""Two sets of ranks are apart where the gap between them is so many times what ranks of one set differ."""
MOST_OF_A_JOB: Final = 0.6


def slow_ranks(model: JobModel) -> list[Straggler]:
    """Each rank by itself."""
    pace, role = model.pace, roles(model.job)
    parts = {name: excess_over_peers(getattr(pace, f"{name}_ns"), role) for name in PARTS}
    own = excess_over_peers(pace.own_ns, role)
    begin, typical = first_usable(model), float(np.median(model.step_ns))
    # Stages of a pipeline differ anyway, each by its own.
    is_pipeline = max(stages(model.job)) > 0
    noise = (usual_difference if is_pipeline else usual_change)(own[:, begin:])
    candidates = []
    for position in range(len(own)):
        first, mean = change_point(own[position, begin:])
        first += begin
        count = own.shape[1] - first
        is_once = count == 1 and own.shape[1] >= MANY_STEPS
        if is_once or mean < LEAST_SHARE * typical or mean < NOISE * noise / np.sqrt(count):
            continue
        means = {f"{name}_ns": grown(part[position], begin, first) for name, part in parts.items()}
        candidates.append(Excess((position,), first, **means))
    candidates.sort(key=lambda each: -each.total_ns)
    return [described(model, excess) for excess in candidates[:MOST_CANDIDATES]]


def described(model: JobModel, excess: Excess, what: str = "") -> Straggler:
    """With its cause, and what the job wins without it."""
    cause, explained, place = cause_of(model, excess)
    removed = part_of(excess, cause)
    graph = without(model, removed)
    if cause == IMBALANCE:
        graph = with_even_messages(model, _without_shared(model, graph, excess), excess.positions)
    of_job = stages(model.job)
    own_stages = {of_job[position] for position in excess.positions}
    stage = min(own_stages) if len(own_stages) == 1 else -1
    affected = model.pace.steps[excess.first :]
    return Straggler(
        excess.positions,
        affected[0],
        cause,
        excess.total_ns / 1e6,
        gain_ms(model, graph, excess.first),
        explained,
        place,
        "high" if explained >= EXPLAINS and len(affected) > 1 else "low",
        what or (f"stage {stage}" if stage >= 0 and cause == IMBALANCE else ""),
        removed,
    )


def _without_shared(model: JobModel, graph: JobGraph, excess: Excess) -> JobGraph:
    """Ranks that compute on tokens of the slow ones compute as long as those of other groups then."""
    calls = model.job.matched.filter(pl.col("kind") == "all_to_all")
    groups = calls.filter(pl.col("rank").is_in(list(excess.positions)))["group_key"].unique()
    sharing = set(calls.filter(pl.col("group_key").is_in(groups.implode()))["rank"].to_list()) - set(excess.positions)
    outside = sorted(set(range(len(model.job.digests))) - sharing - set(excess.positions))
    if not sharing or not outside:
        return graph
    gpu = model.pace.gpu_ns[:, excess.first :].mean(axis=1)
    more = float(gpu[sorted(sharing)].mean() - np.median(gpu[outside]))
    return without(model, Excess(tuple(sorted(sharing)), excess.first, gpu_ns=max(0.0, more)), graph)


def slow_sets(model: JobModel) -> list[Straggler]:
    """Ranks that are slow together, such as a replica with longer data: half of a job has no usual half beside it."""
    begin, typical = first_usable(model), float(np.median(model.step_ns))
    own = model.pace.own_ns[:, begin:].mean(axis=1)
    stage = np.array(stages(model.job))
    for number in np.unique(stage).tolist():  # stages differ; a slow replica is slow in each of them
        own[stage == number] -= own[stage == number].min()
    upper = _upper_set(own, LEAST_SHARE * typical)
    if len(upper) < 2 or len(upper) > MOST_OF_A_JOB * len(own):
        return []
    rest = np.setdiff1d(np.arange(len(own)), upper)
    series = {name: _difference(getattr(model.pace, f"{name}_ns"), upper, rest) for name in PARTS}
    total = np.asarray(sum(series.values()))[begin:]
    first, mean = change_point(total)
    after = total[first:]
    # Of a few ranks, two are apart from the others by chance: they have to be in step after step.
    spread = float(np.std(after, ddof=1)) / np.sqrt(len(after)) if len(after) > 1 else 0.0
    first += begin
    if mean < max(LEAST_SHARE * typical, NOISE * spread):
        return []
    means = {f"{name}_ns": grown(values, begin, first) for name, values in series.items()}
    return [described(model, Excess(tuple(upper.tolist()), first, **means))]


def _upper_set(own: Floats, least: float) -> np.ndarray:
    """The ranks above the widest gap between neighbours, where it is clear."""
    order = np.argsort(own, kind="stable")
    gaps = np.diff(own[order])
    if len(gaps) == 0:
        return order[:0]
    widest = int(np.argmax(gaps))
    lower, upper = own[order[: widest + 1]], own[order[widest + 1 :]]
    within = max(float(np.std(lower)), float(np.std(upper)))
    return order[widest + 1 :] if gaps[widest] >= max(least, APART * within) else order[:0]


def _difference(values: Floats, upper: Iterable[int], rest: Iterable[int]) -> Floats:
    return np.median(values[list(upper)], axis=0) - np.median(values[list(rest)], axis=0)

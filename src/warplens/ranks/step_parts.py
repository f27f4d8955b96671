"""Where the job's step goes on each rank: what its GPU does, what it waits for, and why it is idle.

The parts are means over the steps that the job's step stands for, as long together as that step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.graph.breakdown import COMPUTATION, EXPOSED_COMMUNICATION, EXPOSED_COPIES, IDLE
from warplens.analyses.shared import shared
from warplens.model.answer import Part
from warplens.passes.steps import PROFILER_STEP
from warplens.ranks.job_step import deciding_straggler, gain_range, job_clock, job_steps
from warplens.ranks.own_pace import JobModel
from warplens.ranks.records import RankDigest

HOST: Final = "host"
PARTS: Final = {HOST: "the host works on the step, where no GPU is used; place: what takes it longest"}
"""Of a job, besides those of a trace."""
WAITING: Final = "waits for other ranks"
TRANSFER: Final = "transfers"
UNMATCHED: Final = "without a counterpart"
COPIES: Final = "copies"
BETWEEN: Final = "no work of the step"
CAUSES: Final = {
    WAITING: "a collective waits until the last rank begins it",
    TRANSFER: "a collective moves data: all its ranks have begun it",
    UNMATCHED: "communication of which no other rank has a record: waits and transfers are not told apart",
    COPIES: "copies that nothing hides",
    BETWEEN: "this rank begins the step late or is done with it before others are",
}


@shared
def parts_by_rank(model: JobModel) -> dict[int, tuple[Part, ...]]:
    """By position; empty where no step was recorded by all ranks."""
    clock, exposed = job_clock(model), _exposed(model)
    if clock is None:
        return {}
    parts: dict[int, tuple[Part, ...]] = {}
    for position, digest in enumerate(model.job.digests):
        own = [part for part in _parts(model, digest, exposed.filter(pl.col("rank") == position)) if part.time_ms > 0]
        missing_ms = clock.step_ms - sum(part.time_ms for part in own)
        if missing_ms > 0:
            own.append(_rest(model, digest, missing_ms))
        scale = clock.step_ms / sum(part.time_ms for part in own)
        parts[position] = tuple(_scaled(part, scale, clock.step_ms) for part in own)
    return parts


def deciding_position(model: JobModel) -> int:
    """The rank whose parts stand for the job: the costliest straggler, if it surely delays the job, else the rank with
    most work of its own."""
    straggler, clock = deciding_straggler(model), job_clock(model)
    if straggler and clock and gain_range(straggler.gain_ms, clock.step_ms, straggler.confidence == "high").low_ms > 0:
        return straggler.positions[0]
    return int(np.argmax(np.median(model.pace.own_ns, axis=1)))


def kernels_of(model: JobModel, position: int) -> pl.DataFrame:
    """What the rank's GPU ran in the steps that count: kernel, op, part of the step, `us` and `count`."""
    ran = model.job.digests[position].frames["kernels"].filter(pl.col("step").is_in(job_steps(model)))
    us = (pl.col("gpu_ns").sum() / 1e3).alias("us")
    return ran.group_by("kernel", "op", "part").agg(us, pl.col("count").sum())


def _exposed(model: JobModel) -> pl.DataFrame:
    """Of each rank: exposed communication by what it is, in the steps that count."""
    wait = pl.min_horizontal("exposed_ns", pl.col("wait_ns").fill_null(0))
    is_matched = pl.col("match") >= 0
    return (
        model.job.calls.filter(pl.col("step").is_in(job_steps(model)))
        .group_by("rank")
        .agg(
            wait.filter(is_matched).sum().alias(WAITING),
            (pl.col("exposed_ns") - wait).filter(is_matched).sum().alias(TRANSFER),
            pl.col("exposed_ns").filter(~is_matched).sum().alias(UNMATCHED),
        )
    )


def _parts(model: JobModel, digest: RankDigest, exposed: pl.DataFrame) -> Iterator[Part]:
    """What the GPU does, and why it is idle, per step."""
    counted, steps = pl.col("step").is_in(job_steps(model)), len(job_steps(model))
    names = ("busy_ns", "compute_ns", "exposed_ns")
    sums = digest.steps.filter(counted).select(pl.col(names).fill_null(0).sum()).row(0)
    busy_ms, compute_ms, exposed_ms = (ns / steps / 1e6 for ns in sums)
    ops = digest.frames["work"].filter(counted).group_by("op").agg(pl.col("gpu_ns").sum()).sort("gpu_ns", "op").tail(1)
    yield _placed(Part(COMPUTATION, "", compute_ms, 0.0), ops, steps)
    by_cause = {name: int(exposed[name].sum()) for name in (WAITING, TRANSFER, UNMATCHED)}
    for cause, ns in by_cause.items():
        yield Part(EXPOSED_COMMUNICATION, cause, exposed_ms * ns / max(1, sum(by_cause.values())), 0.0)
    if digest.facts.gpu_events:
        yield Part(EXPOSED_COPIES, COPIES, busy_ms - compute_ms - exposed_ms, 0.0)
    idle = digest.frames["idle"].filter(counted).group_by("cause").agg(pl.col("idle_ns").sum())
    for cause, ns in idle.sort("idle_ns", "cause", descending=[True, False]).iter_rows():
        yield Part(IDLE, cause, ns / steps / 1e6, 0.0)


def _rest(model: JobModel, digest: RankDigest, missing_ms: float) -> Part:
    """The time of the step in which nothing of it is on the GPU; without a GPU it is the host's."""
    if digest.facts.gpu_events:
        return Part(IDLE, BETWEEN, missing_ms, 0.0)
    steps = job_steps(model)
    is_named = ~pl.col("name").str.contains(PROFILER_STEP.pattern)
    named = digest.frames["host"].filter(pl.col("step").is_in(steps) & is_named)
    done = named.group_by("name").agg(pl.col("host_ns").sum())
    return _placed(Part(HOST, "", missing_ms, 0.0), done.sort("host_ns", "name").tail(1), len(steps))


def _placed(part: Part, most: pl.DataFrame, steps: int) -> Part:
    """With what takes most of it, and how long that takes."""
    if most.is_empty():
        return part
    name, ns = most.row(0)
    return replace(part, place=name, place_ms=min(part.time_ms, ns / steps / 1e6))


def _scaled(part: Part, scale: float, step_ms: float) -> Part:
    """Of a step as recorded: its parts have no interval."""
    ms, place_ms = part.time_ms * scale, None if part.place_ms is None else part.place_ms * scale
    return replace(part, time_ms=ms, percent=100 * ms / step_ms, place_ms=place_ms, low_ms=ms, high_ms=ms)

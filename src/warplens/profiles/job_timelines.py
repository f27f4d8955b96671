"""Ranks of a job as timelines on one clock, with arrows between their matched collectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from warplens.model.rank_timeline import RankFlow, RankTimeline, SliceTrack
from warplens.model.trace import Ints, Trace
from warplens.profiles.job import JobProfile
from warplens.profiles.options import Rules
from warplens.profiles.reading import read
from warplens.profiles.timelines import gpu_facts, steps_track
from warplens.profiles.trace import Profile
from warplens.ranks.job import Job
from warplens_run.base.errors import FormatError

MOST_RANKS: Final = 8
"""Timelines that are written where none are chosen: more are hard to read."""


@dataclass(frozen=True)
class JobTimelines:
    """The timelines of some ranks, and arrows between them."""

    ranks: tuple[int, ...]
    timelines: tuple[RankTimeline, ...]
    flows: tuple[RankFlow, ...]


def job_timelines(
    profile: JobProfile, ranks: Sequence[int] = (), *, cache: bool = True, rules: Rules = (), max_bytes: int = 0
) -> JobTimelines:
    """Of these ranks, or of those that matter, their clocks corrected as the job's tables are."""
    job = profile.job
    positions = profile.positions_of(ranks) if ranks else ranks_that_matter(profile)
    timelines = tuple(_timeline(job, position, cache, rules, max_bytes) for position in positions)
    return JobTimelines(tuple(job.ranks[position] for position in positions), timelines, _flows(job, positions))


def ranks_that_matter(profile: JobProfile, most: int = MOST_RANKS) -> list[int]:
    """Positions of the first rank, of those that delay others, and of the slowest, the median and the fastest."""
    job = profile.job
    if len(job.digests) <= most:
        return list(range(len(job.digests)))
    frame = profile.table("ranks").frame
    own = frame.select(pl.coalesce("own_ms", "step_ms", pl.lit(0.0))).to_series().to_numpy()
    order = np.argsort(-own, kind="stable").tolist()
    chosen = [0, order[0], order[-1], order[len(order) // 2]]
    chosen += [job.ranks.index(rank) for rank in profile.table("stragglers").frame["rank"] if rank in job.ranks]
    return sorted(dict.fromkeys(chosen[:most]))


def _timeline(job: Job, position: int, cache: bool, rules: Rules, max_bytes: int) -> RankTimeline:
    source = job.digests[position].facts.source
    trace = read(Path(source), cache=cache, max_bytes=max_bytes)
    if not isinstance(trace, Trace):
        raise FormatError("sums by call path, not a trace", where=source)
    gpu = gpu_facts(Profile(trace, rules).workspace)
    origin = np.array([trace.meta.origin_ns], np.int64)
    begin = int(job.clocks.corrected(np.array([position]), origin)[0])
    waits = _waits(job, position, begin)
    trace = _without_drift(trace, float(job.clocks.drift[position]))
    tracks = [track for track in (steps_track(trace), waits) if len(track.slices)]
    return RankTimeline(trace, gpu, tracks, f"rank {job.ranks[position]} · ", begin - job.origin_ns)


def _without_drift(trace: Trace, drift: float) -> Trace:
    """The trace in the pace of the job's clock, from its own begin."""
    if not drift:
        return trace

    def scaled(times: pl.Series) -> pl.Series:
        own: Ints = times.to_numpy().astype(np.int64)
        return pl.Series(times.name, own - np.round(own * drift).astype(np.int64), times.dtype)

    events = trace.events
    start = scaled(events["start_ns"])
    end = scaled((events["start_ns"] + events["dur_ns"]).rename("end_ns"))
    return replace(
        trace,
        events=events.with_columns(start, (end - start).cast(events.schema["dur_ns"]).alias("dur_ns")),
        steps=trace.steps.with_columns(scaled(trace.steps["start_ns"]), scaled(trace.steps["end_ns"])),
        memory=trace.memory.with_columns(scaled(trace.memory["start_ns"])),
    )


def _waits(job: Job, position: int, begin_ns: int) -> SliceTrack:
    """A slice per wait of the rank, named by the rank that came last; times since the begin of its trace."""
    number = pl.Series(job.ranks, dtype=pl.Int64)
    last = (
        job.matched.filter(pl.col("start_ns") == pl.col("last_start_ns"))
        .unique("match", keep="first", maintain_order=True)
        .select("match", pl.col("rank").alias("last"))
    )
    own = job.matched.filter((pl.col("rank") == position) & (pl.col("wait_ns") > 0)).join(last, on="match")
    slices = own.select(
        pl.col("start_ns") - begin_ns,
        pl.col("wait_ns").alias("dur_ns"),
        pl.format("wait for rank {}", pl.lit(number.gather(own["last"].cast(pl.Int64)))).alias("name"),
        "kind",
        "group",
        "match",
    )
    return SliceTrack("waits for other ranks", "wait", slices.sort("start_ns"))


def _flows(job: Job, positions: Sequence[int]) -> tuple[RankFlow, ...]:
    """Per collective an arrow from each rank to the one that comes next, so that the last is where arrows end."""
    calls = (
        job.matched.filter(pl.col("rank").is_in(list(positions)))
        .sort("match", "start_ns", "rank")
        .select("match", "kind", "id", pl.col("rank").cast(pl.Int64))
    )
    place = {position: number for number, position in enumerate(positions)}
    rows = calls.rows()
    return tuple(
        RankFlow(place[before[3]], before[2], place[after[3]], after[2], after[1])
        for before, after in pairwise(rows)
        if before[0] == after[0]
    )

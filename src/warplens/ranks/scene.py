"""The timelines of a job's page: all ranks of a small job, of a large one those that matter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from warplens.model.job_scene import DrawnRank, JobScene
from warplens.ranks.kinds import RECEIVE
from warplens.ranks.own_pace import JobModel
from warplens.ranks.roles import stages
from warplens.ranks.straggling import stragglers

MOST_DRAWN: Final = 16
EACH: Final = 3
"""So many of the slowest, the fastest and the median ranks; slow ones that are named come before."""
CALLS: Final = ("dur_ns", "wait_ns", "match", "kind", "group", "bytes", "step", "peer")


def job_scene(model: JobModel, chosen: Sequence[int] = ()) -> JobScene:
    """What the page draws; `chosen` are numbers of ranks that it draws whatever they are like."""
    job = model.job
    stage = stages(job)
    drawn = drawn_ranks(model, stage, chosen)
    places = pl.DataFrame(
        {"rank": list(drawn), "place": range(len(drawn))}, schema={"rank": pl.Int32, "place": pl.Int32}
    )
    origin = job.origin_ns
    steps = job.steps.join(places, on="rank").select("place", "step", *_since(origin, "start_ns", "end_ns"))
    calls = job.calls.join(places, on="rank").select("place", *_since(origin, "start_ns"), *CALLS)
    return JobScene(
        ranks=job.ranks,
        drawn=[DrawnRank(job.ranks[at], job.hosts[at], stage[at], why) for at, why in drawn.items()],
        steps=steps.sort("place", "start_ns"),
        compute=_compute(model, list(drawn)),
        calls=calls.sort("place", "start_ns", "match"),
    )


def _since(origin_ns: int, *columns: str) -> list[pl.Expr]:
    return [pl.col(column) - origin_ns for column in columns]


def _compute(model: JobModel, drawn: Sequence[int]) -> pl.DataFrame:
    job = model.job
    parts = []
    for place, position in enumerate(drawn):
        frame = job.digests[position].frames["compute"]
        at = np.full(len(frame), position)
        times = [
            pl.Series(name, job.clocks.corrected(at, frame[name].to_numpy()) - job.origin_ns)
            for name in ("start_ns", "end_ns")
        ]
        parts.append(frame.with_columns(*times, pl.lit(place).cast(pl.Int32).alias("place")))
    return pl.concat(parts).select("place", "start_ns", "end_ns").sort("place", "start_ns")


def drawn_ranks(model: JobModel, stage: Sequence[int], chosen: Sequence[int] = ()) -> dict[int, str]:
    """Positions of the ranks that are drawn, in their order, each with why; all of a small job.

    Chosen ones are drawn in addition: they take the place of none that matters.
    """
    job = model.job
    count = len(job.digests)
    if count <= MOST_DRAWN:
        return dict.fromkeys(range(count), "")
    position = {rank: place for place, rank in enumerate(job.ranks)}
    asked = {position[rank] for rank in chosen if rank in position}
    slow = np.argsort(-_own_time(model), kind="stable").tolist()
    middle = slow[max(0, count // 2 - EACH // 2):][:EACH]  # fmt: skip
    wanted = [
        *((at, "chosen") for at in asked),
        *((at, "straggler") for straggler in stragglers(model)[:EACH] for at in straggler.positions[:EACH]),
        (slow[0], "slowest"), (slow[-1], "fastest"), (middle[0], "median"),
        *((at, "pipeline") for at in pipeline_of(model, stage, slow[0])),
        *((at, "slowest") for at in slow[:EACH]),
        *((at, "fastest") for at in slow[-EACH:]),
        *((at, "median") for at in middle),
    ]  # fmt: skip
    reasons: dict[int, str] = {}
    for at, why in wanted:
        if len(reasons) < MOST_DRAWN + len(asked):
            reasons.setdefault(at, why)
    return {at: reasons[at] for at in sorted(reasons)}


def _own_time(model: JobModel) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """What tells slow ranks from fast ones: the time of a step that others do not cause."""
    if model.is_known:
        return np.asarray(np.median(model.pace.own_ns, axis=1), np.float64)
    busy = model.job.steps.group_by("rank").agg(pl.col("compute_ns").mean().fill_null(0)).sort("rank")
    own = np.zeros(len(model.job.digests))
    own[busy["rank"].to_numpy()] = busy["compute_ns"].to_numpy()
    return own


def pipeline_of(model: JobModel, stage: Sequence[int], member: int) -> list[int]:
    """One rank of each stage that pass on to each other, with this rank if it takes part; empty without a pipeline."""
    last = max(stage, default=-1)
    if last < 1 or last >= MOST_DRAWN:
        return []
    position = {rank: place for place, rank in enumerate(model.job.ranks)}
    receives = model.job.matched.filter((pl.col("kind") == RECEIVE) & (pl.col("peer") >= 0))
    pairs = {(at, position.get(peer, -1)) for at, peer in receives.select("rank", "peer").unique().iter_rows()}
    pairs |= {(giver, taker) for taker, giver in pairs}
    chain = {stage[member]: member} if stage[member] >= 0 else {0: stage.index(0)}
    start = next(iter(chain))
    for number in [*range(start + 1, last + 1), *range(start - 1, -1, -1)]:
        beside = chain.get(number - 1 if number > start else number + 1)
        near = [other for at, other in sorted(pairs) if at == beside and other >= 0 and stage[other] == number]
        if near:
            chain[number] = near[0]
    return [chain[number] for number in sorted(chain)]

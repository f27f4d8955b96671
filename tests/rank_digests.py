"""Digests of ranks made by hand: only what matching, clocks and tables of a job read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from make_ranks import Truth
from warplens.model.trace import ProcessGroup
from warplens.ranks.job import Job
from warplens.ranks.records import FRAMES, RankDigest, RankFacts

US = 1_000
CALL: dict[str, Any] = {
    "step": -1, "kind": "all_reduce", "group": "0", "group_size": -1, "group_ranks": "", "dtype": "Float", "bytes": 4096,
    "seq": -1, "peer": -1, "member": -1, "in_splits": "", "out_splits": "", "device": 0, "stream": 7, "exposed_ns": 0, "module": "",
    "kernel": "ncclDevKernel_AllReduce",
}  # fmt: skip


def call(start_us: float, duration_us: float = 10, **values: Any) -> dict[str, Any]:
    """A communication kernel, launched 5 µs before it starts."""
    start = round(start_us * US)
    times = {"launch_ns": start - 5 * US, "start_ns": start, "end_ns": start + round(duration_us * US)}
    return CALL | times | values


def digest(
    rank: int,
    calls: Iterable[dict[str, Any]],
    groups: Sequence[tuple[str, tuple[int, ...]]] = (),
    steps: Sequence[tuple[int, float, float]] = (),
    **facts: Any,
) -> RankDigest:
    """A rank with these kernels, groups (name, ranks) and steps (number, begin and end in µs)."""
    rows = [{"id": number} | each for number, each in enumerate(calls)]
    frames = {name: pl.DataFrame(schema=schema) for name, schema in FRAMES.items()}
    frames["collectives"] = pl.DataFrame(rows, schema=FRAMES["collectives"])
    marks = [
        {"step": number, "start_ns": round(begin * US), "end_ns": round(end * US), "gpu_ns": round((end - begin) * US)}
        for number, begin, end in steps
    ]
    frames["steps"] = pl.DataFrame(marks, schema=FRAMES["steps"])
    known = tuple(ProcessGroup(name=name, description="", ranks=ranks) for name, ranks in groups)
    end = max((row["end_ns"] for row in rows), default=0)
    return RankDigest(RankFacts(f"rank{rank}.json", rank=rank, groups=known, last_ns=end, **facts), frames)


def matches(job: Job) -> set[frozenset[tuple[int, int]]]:
    """The matched kernels as sets of (rank, place among its kernels in the order of their launches)."""
    frame = job.calls.sort("rank", "launch_ns", "start_ns", "id").with_columns(
        pl.int_range(pl.len()).over("rank").alias("place")
    )
    found: dict[int, set[tuple[int, int]]] = {}
    for position, place, match in frame.select("rank", "place", "match").iter_rows():
        if match >= 0:
            found.setdefault(match, set()).add((job.ranks[position], place))
    return {frozenset(each) for each in found.values()}


def true_matches(truth: Truth, ranks: Sequence[int]) -> set[frozenset[tuple[int, int]]]:
    """The same as `matches`, of the kernels of these ranks, as the simulation knows it."""
    launched: dict[int, list[int]] = {rank: [] for rank in ranks}
    for each in truth.collectives:
        for rank, correlation in each.correlations.items():
            launched[rank].append(correlation)
    place = {rank: {number: at for at, number in enumerate(sorted(own))} for rank, own in launched.items()}
    sets = [
        frozenset((rank, place[rank][correlation]) for rank, correlation in each.correlations.items())
        for each in truth.collectives
    ]
    return {each for each in sets if len(each) > 1}

"""`collectives`, `collective_kinds`, `groups` and `waits`: what ranks do together, and who waits for whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from warplens.costs.collective import algbw_gbps, busbw_gbps
from warplens.model.table import Column, Table
from warplens.ranks.job import Job
from warplens.ranks.job_step import COUNTED, job_steps
from warplens.ranks.kinds import POINT_TO_POINT
from warplens.ranks.own_pace import JobModel
from warplens.ranks.tables.shared import STEP, in_ms, in_us, numbered
from warplens_run.base.units import ranges

ONE_NODE, NODES, UNKNOWN_NODES = "one node", "several nodes", ""
KIND = Column("kind", "kind of collective", "", pl.String)
GROUP = Column("group", "name of the process group", "", pl.String)
MEMBERS = Column("members", "ranks that were matched", "", pl.Int64)
BYTES = Column("message_bytes", "bytes of the larger side of the message on one rank", "bytes", pl.Int64)
BETWEEN = Column("between", f"{ONE_NODE}, {NODES}, or empty where machines are not named", "", pl.String)
ALGBW = Column("algbw_gbps", "message_bytes over the transfer", "GB/s", pl.Float64)
BUSBW = Column(
    "busbw_gbps", "algbw times the collective's factor: comparable with the links' speed", "GB/s", pl.Float64
)
COLLECTIVE_COLUMNS = (
    Column("collective", "number of the call", "", pl.Int64),
    STEP,
    KIND,
    GROUP,
    MEMBERS,
    Column("dtype", "element type", "", pl.String),
    BYTES,
    Column("start_ms", "when the first rank began it, since the job's first event", "ms", pl.Float64),
    Column("wait_max_us", "longest wait of a rank for the last one", "us", pl.Float64),
    Column("wait_sum_us", "sum of all waits", "us", pl.Float64),
    Column("transfer_us", "from the last rank's start to the last end", "us", pl.Float64),
    Column("least_us", "shortest duration of a rank", "us", pl.Float64),
    Column("start_skew_us", "from the first start to the last", "us", pl.Float64),
    Column("end_skew_us", "from the first end to the last", "us", pl.Float64),
    Column("first_rank", "rank that began first", "", pl.Int64),
    Column("last_rank", "rank that the others waited for", "", pl.Int64),
    ALGBW,
    BUSBW,
    BETWEEN,
)
KIND_COLUMNS = (
    KIND,
    BYTES,
    Column("group_size", "ranks of a call, also missing ones", "", pl.Int64),
    BETWEEN,
    Column("groups", "different process groups", "", pl.Int64),
    Column("count", "calls", "", pl.Int64),
    Column("wait_ms", "waits for the last rank, mean of the ranks, in all", "ms", pl.Float64),
    Column("transfer_ms", "transfers in all", "ms", pl.Float64),
    Column("transfer_us", "median transfer", "us", pl.Float64),
    Column("slowest_us", "longest transfer", "us", pl.Float64),
    Column("exposed_ms", "not hidden by computation, mean of the ranks, in all", "ms", pl.Float64),
    ALGBW,
    BUSBW,
)
GROUP_COLUMNS = (
    GROUP,
    Column("description", "as the program describes it", "", pl.String),
    Column("size", "ranks in it, also missing ones", "", pl.Int64),
    Column("ranks", "its ranks", "", pl.String),
    BETWEEN,
    Column("count", "matched calls", "", pl.Int64),
    Column("wait_ms", "waits for the last rank, mean of its ranks, in all", "ms", pl.Float64),
    Column("transfer_ms", "transfers in all", "ms", pl.Float64),
)
WAIT_COLUMNS = (
    Column("rank", "rank that waited", "", pl.Int64),
    Column("for_rank", "rank that it waited for: the last to begin the collective", "", pl.Int64),
    Column("count", "collectives in which it did", "", pl.Int64),
    Column("wait_ms", "time that it waited so, in the whole recording", "ms", pl.Float64),
    Column("wait_ms_per_step", f"the same per step: mean {COUNTED}", "ms", pl.Float64),
)


def _described(job: Job) -> pl.DataFrame:
    """One row per matched call."""
    first, last = pl.col("rank").sort_by("start_ns").first(), pl.col("rank").sort_by("start_ns").last()
    hosts = pl.Series(job.hosts, dtype=pl.String)
    calls = job.matched.with_columns(hosts.gather(job.matched["rank"].cast(pl.UInt32)).alias("host"))
    is_named = (pl.col("host") != "").all()
    between = (
        pl.when(~is_named).then(pl.lit(UNKNOWN_NODES))
        .when(pl.col("host").n_unique() == 1).then(pl.lit(ONE_NODE))
        .otherwise(pl.lit(NODES))
    )  # fmt: skip
    frame = calls.group_by("match").agg(
        pl.col("step", "kind", "group", "group_key", "dtype", "members").first(),
        pl.col("bytes").max(),
        pl.when(pl.col("kind").first().is_in(POINT_TO_POINT)).then(pl.col("members").first())
        .otherwise(pl.max_horizontal(pl.col("group_size").max(), pl.col("members").first()))
        .cast(pl.Int64).alias("whole_size"),
        pl.col("first_start_ns", "last_start_ns", "first_end_ns", "last_end_ns", "least_ns", "transfer_ns").first(),
        pl.col("wait_ns").max().alias("wait_max_ns"),
        pl.col("wait_ns").sum().alias("wait_sum_ns"),
        pl.col("exposed_ns").mean(),
        first.alias("first_rank"),
        last.alias("last_rank"),
        between.alias("between"),
    ).sort("match")  # fmt: skip
    # Ranks that are missing took part all the same.
    rows = frame.select("kind", "whole_size", "bytes", "transfer_ns").rows()
    algbw = [algbw_gbps(size, ns / 1e3) for _, _, size, ns in rows]
    busbw = [busbw_gbps(kind, ranks, size, ns / 1e3) for kind, ranks, size, ns in rows]
    return frame.with_columns(
        numbered(job, "first_rank").alias("first_rank"),
        numbered(job, "last_rank").alias("last_rank"),
        pl.when(pl.col("bytes") >= 0).then("bytes").alias("message_bytes"),
        pl.col("members").cast(pl.Int64),
        pl.Series("algbw_gbps", algbw, dtype=pl.Float64),
        pl.Series("busbw_gbps", busbw, dtype=pl.Float64),
    )


def collectives(model: JobModel) -> Table:
    job = model.job
    frame = _described(job).with_columns(
        pl.col("match").alias("collective"),
        ((pl.col("first_start_ns") - job.origin_ns) / 1e6).alias("start_ms"),
        *(in_us(name) for name in ("wait_max_ns", "wait_sum_ns", "transfer_ns", "least_ns")),
        ((pl.col("last_start_ns") - pl.col("first_start_ns")) / 1e3).alias("start_skew_us"),
        ((pl.col("last_end_ns") - pl.col("first_end_ns")) / 1e3).alias("end_skew_us"),
    )
    return Table.from_frame(
        "collectives", "one row per call that was matched across ranks", COLLECTIVE_COLUMNS, frame, *_no_match(frame)
    )


def _no_match(frame: pl.DataFrame) -> tuple[str, ...]:
    return () if len(frame) else ("no communication of two ranks could be matched",)


def collective_kinds(model: JobModel) -> Table:
    keys = ["kind", "message_bytes", "whole_size", "between"]
    frame = (
        _described(model.job)
        .group_by(keys)
        .agg(
            pl.col("group_key").n_unique().cast(pl.Int64).alias("groups"),
            pl.len().cast(pl.Int64).alias("count"),
            (pl.col("wait_sum_ns") / pl.col("members")).sum().alias("wait_ns"),
            (pl.col("transfer_ns").sum() / 1e6).alias("transfer_ms"),
            (pl.col("transfer_ns").median() / 1e3).alias("transfer_us"),
            (pl.col("transfer_ns").max() / 1e3).alias("slowest_us"),
            in_ms("exposed_ns").sum(),
            pl.col("algbw_gbps", "busbw_gbps").median(),
        )
        .with_columns(in_ms("wait_ns"), pl.col("whole_size").alias("group_size"))
        .sort("transfer_ms", *keys, descending=[True, *[False] * len(keys)])
    )
    return Table.from_frame("collective_kinds", "one row per kind, size and group size", KIND_COLUMNS, frame)


def groups(model: JobModel) -> Table:
    job = model.job
    known = {(group.name, group.ranks): group.description for digest in job.digests for group in digest.facts.groups}
    sums = _described(job).group_by("group_key").agg(
        pl.col("group", "kind").first(),
        pl.len().cast(pl.Int64).alias("count"),
        (pl.col("wait_sum_ns") / pl.col("members")).sum().alias("wait_ns"),
        pl.col("transfer_ns").sum(),
        pl.col("between").first(),
    )  # fmt: skip
    members = job.matched.group_by("group_key").agg(numbered(job).unique().sort().alias("members"))
    frame = sums.join(members, on="group_key").sort("wait_ns", "group_key", descending=[True, False])
    columns = ("group", "kind", "members", "between", "count", "wait_ns", "transfer_ns")
    rows = [
        (name, known.get((name, own), ""), len(own), ranges(own), between, count, wait / 1e6, transfer / 1e6)
        for name, kind, matched, between, count, wait, transfer in frame.select(columns).iter_rows()
        for own in (_whole_group(known, name, kind, matched),)
    ]
    return Table.from_rows("groups", "one row per process group; sends and receives by their pair", GROUP_COLUMNS, rows)


def _whole_group(
    known: Mapping[tuple[str, tuple[int, ...]], str], name: str, kind: str, matched: Sequence[int]
) -> tuple[int, ...]:
    """The ranks of a group, also those that are missing; of sends and receives their two."""
    own = tuple(matched)
    if kind in POINT_TO_POINT or (name, own) in known:
        return own
    possible = [ranks for other, ranks in known if other == name and set(own) <= set(ranks)]
    return possible[0] if len(possible) == 1 else own


def waits(model: JobModel) -> Table:
    job = model.job
    steps = job_steps(model)
    last = job.matched.group_by("match").agg(pl.col("rank").sort_by("start_ns").last().alias("for_rank"))
    frame = (
        job.matched.join(last, on="match")
        .filter((pl.col("rank") != pl.col("for_rank")) & (pl.col("wait_ns") > 0))
        .group_by("rank", "for_rank")
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            pl.col("wait_ns").sum(),
            (pl.col("wait_ns").filter(pl.col("step").is_in(steps)).sum() / 1e6 / max(1, len(steps))).alias(
                "wait_ms_per_step"
            ),
        )
        .with_columns(numbered(job).alias("rank"), numbered(job, "for_rank").alias("for_rank"), in_ms("wait_ns"))
    )
    frame = frame.sort("wait_ms", "rank", "for_rank", descending=[True, False, False])
    return Table.from_frame(
        "waits", "one row per rank and other rank that it waited for in collectives", WAIT_COLUMNS, frame
    )

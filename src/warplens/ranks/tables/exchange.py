"""`pipeline`, `all_to_all` and `exposed_by_module`: who sends how much to whom, and what nothing hides."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import polars as pl

from warplens.analyses.work.comm import ELEMENT_BYTES
from warplens.model.table import Column, Table
from warplens.model.trace import ProcessGroup
from warplens.ranks.job_step import COUNTED, job_clock, job_steps
from warplens.ranks.kinds import RECEIVE, split_sizes
from warplens.ranks.own_pace import JobModel
from warplens.ranks.records import RankDigest
from warplens.ranks.roles import stages
from warplens_run.base.units import ranges

PIPELINE_COLUMNS = (
    Column("stage", "number of the stage", "", pl.Int64),
    Column("ranks", "its ranks", "", pl.String),
    Column("step_ms", "the job's step, as `step_time` has it", "ms", pl.Float64),
    Column("compute_ms", "computation of a step, the same median", "ms", pl.Float64),
    Column("bubble_percent", "share of the step without computation", "%", pl.Float64),
    Column(
        "ideal_percent", "the same of an even pipeline: (stages − 1) / (microbatches + stages − 1)", "%", pl.Float64
    ),
    Column("microbatches", "messages from one neighbour, per step", "", pl.Float64),
    Column("receive_wait_ms", "in receives, until the sender began: idle, per step", "ms", pl.Float64),
    Column("receive_transfer_ms", "in receives, after that, per step", "ms", pl.Float64),
)
EXCHANGE_COLUMNS = (
    Column("from_rank", "sender", "", pl.Int64),
    Column("to_rank", "receiver", "", pl.Int64),
    Column("sent_bytes", "bytes per step", "bytes", pl.Float64),
    Column("count", "calls", "", pl.Int64),
)
EXPOSED_COLUMNS = (
    Column("module", "module that issued it; empty outside of any", "", pl.String),
    Column("kind", "kind of collective", "", pl.String),
    Column("count", "calls per step and rank", "", pl.Float64),
    Column("exposed_ms", f"not hidden by computation, per step and rank: mean {COUNTED}", "ms", pl.Float64),
    Column("most_ms", "the same of the rank with most", "ms", pl.Float64),
    Column("wait_ms", "part of exposed_ms that may be waits for other ranks", "ms", pl.Float64),
)


def pipeline(model: JobModel) -> Table:
    job, stage = model.job, np.array(stages(model.job))
    meaning = "one row per stage of the pipeline"
    if stage.max(initial=-1) < 1:
        return Table.from_rows("pipeline", meaning, PIPELINE_COLUMNS, [], "no pipeline: no rank sends to another")
    count = int(stage.max()) + 1
    counted, clock = job_steps(model), job_clock(model)
    steps = job.steps.filter(pl.col("step").is_in(counted)).group_by("rank", maintain_order=True).agg(
        pl.col("gpu_ns", "compute_ns").median(), pl.len().alias("steps")
    )  # fmt: skip
    steps = steps.with_columns((pl.lit(1e6 * clock.step_ms) if clock else pl.col("gpu_ns")).alias("step_ns"))
    receives = job.matched.filter((pl.col("kind") == RECEIVE) & pl.col("step").is_in(counted)).with_columns(
        (pl.col("dur_ns") - pl.col("wait_ns")).alias("moved_ns")
    )
    sums = receives.group_by("rank").agg(pl.col("wait_ns", "moved_ns").sum(), pl.len(), pl.col("peer").n_unique())
    frame = steps.join(sums, on="rank", how="left", maintain_order="left").fill_null(0).with_columns(
        pl.Series("stage", stage).gather(steps["rank"].cast(pl.UInt32)).alias("stage")
    )  # fmt: skip
    rows = []
    for number in range(count):
        own = frame.filter(pl.col("stage") == number)
        step, compute = (float(own[name].median() or 0) for name in ("step_ns", "compute_ns"))  # type: ignore[arg-type]
        made = max(1.0, float(own["steps"].median() or 1))  # type: ignore[arg-type]
        microbatches = float((own["len"] / own["peer"].clip(1) / made).mean() or 0)  # type: ignore[arg-type]
        ideal = 100 * (count - 1) / (microbatches + count - 1) if microbatches else None
        ranks = [job.ranks[position] for position in np.flatnonzero(stage == number).tolist()]
        waits = [float(own[name].mean() or 0) / made / 1e6 for name in ("wait_ns", "moved_ns")]  # type: ignore[arg-type]
        rows.append((number, ranges(ranks), step / 1e6, compute / 1e6, 100 * (1 - compute / step) if step else None,
                     ideal, microbatches, *waits))  # fmt: skip
    return Table.from_rows("pipeline", meaning, PIPELINE_COLUMNS, rows)


def all_to_all(model: JobModel) -> Table:
    """From the splits that calls record; rank i of a group gets the i-th part. Without splits the parts are equal."""
    job = model.job
    calls = job.calls.filter((pl.col("kind") == "all_to_all") & (pl.col("in_splits") != ""))
    members = [{group.name: group.ranks for group in _own_groups(digest)} for digest in job.digests]
    whole = {len(job.digests), *(digest.facts.world_size for digest in job.digests)}
    sent: dict[tuple[int, int], float] = defaultdict(float)
    count: dict[tuple[int, int], int] = defaultdict(int)
    sums = calls.group_by("rank", "group", "dtype", "in_splits", "bytes").len()
    for position, group, dtype, splits, size, calls_made in sums.iter_rows():
        parts = split_sizes(splits)
        # Without its name, a group is known only where it is as large as the job.
        ranks = members[position].get(group) or (tuple(range(len(parts))) if len(parts) in whole else ())
        width = ELEMENT_BYTES.get(str(dtype).lower().removeprefix("c10::"), 0)
        bytes_to = [part * width for part in parts] or [max(0, size) / max(1, len(ranks))] * len(ranks)
        if len(bytes_to) != len(ranks):
            continue
        for other, part in zip(ranks, bytes_to, strict=True):
            pair = (job.ranks[position], other)
            sent[pair] += part * calls_made
            count[pair] += calls_made
    steps = max(1, job.steps["step"].n_unique())
    rows = [(*pair, sent[pair] / steps, count[pair]) for pair in sorted(sent)]
    notes = _imbalance(rows) if rows else ("no all-to-all records how much goes to each rank",)
    return Table.from_rows("all_to_all", "one row per sender and receiver", EXCHANGE_COLUMNS, rows, *notes)


def _own_groups(digest: RankDigest) -> list[ProcessGroup]:
    """Names are used again: only the groups that a rank is in count for it."""
    own = digest.facts.rank
    return [group for group in digest.facts.groups if own < 0 or own in group.ranks]


def _imbalance(rows: list[tuple[int, int, float, int]]) -> tuple[str, ...]:
    received: dict[int, float] = defaultdict(float)
    for _, to, size, _ in rows:
        received[to] += size
    most = max(received, key=received.__getitem__)
    mean = sum(received.values()) / len(received)
    return (f"rank {most} receives {received[most] / mean:.2f} times the mean",) if mean else ()


def exposed_by_module(model: JobModel) -> Table:
    job = model.job
    counted = job_steps(model)
    ranks, steps = len(job.digests), max(1, len(counted))
    exposed_wait = pl.min_horizontal("exposed_ns", pl.col("wait_ns").fill_null(0))
    calls = job.calls.filter(pl.col("step").is_in(counted)) if counted else job.calls
    each = calls.with_columns(exposed_wait.alias("waited_ns")).group_by("module", "kind", "rank").agg(
        pl.len(), pl.col("exposed_ns", "waited_ns").sum()
    )  # fmt: skip
    frame = (
        each.group_by("module", "kind")
        .agg(
            (pl.col("len").sum() / ranks / steps).alias("count"),
            (pl.col("exposed_ns").sum() / ranks / steps / 1e6).alias("exposed_ms"),
            (pl.col("exposed_ns").max() / steps / 1e6).alias("most_ms"),
            (pl.col("waited_ns").sum() / ranks / steps / 1e6).alias("wait_ms"),
        )
        .sort("exposed_ms", "module", "kind", descending=[True, False, False])
    )
    return Table.from_frame(
        "exposed_by_module",
        "communication that no computation hides: one row per module and kind of collective",
        EXPOSED_COLUMNS,
        frame,
    )

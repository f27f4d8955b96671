"""`quality`, `ranks`, `rank_steps` and `rank_idle`: each rank by itself."""

from __future__ import annotations

import numpy as np
import polars as pl

from warplens.analyses.quality import COLUMNS as QUALITY_COLUMNS
from warplens.model.table import Column, Table
from warplens.ranks.own_pace import JobModel
from warplens.ranks.tables.shared import RANK, STEP, in_ms, numbered

TIMES = (
    Column("step_ms", "time of a step, from its begin on the host to the next one's", "ms", pl.Float64),
    Column("compute_ms", "computation on the GPU", "ms", pl.Float64),
    Column("exposed_ms", "communication that no computation hides", "ms", pl.Float64),
    Column("wait_ms", "sum of the waits for other ranks in collectives", "ms", pl.Float64),
    Column("idle_ms", "GPU idle", "ms", pl.Float64),
    Column("own_ms", "the step if no rank made it wait, without transfers; simulated", "ms", pl.Float64),
    Column("own_host_ms", "part of own_ms: the host", "ms", pl.Float64),
    Column("own_gpu_ms", "part of own_ms: computation on the GPU", "ms", pl.Float64),
)
RANK_COLUMNS = (
    RANK,
    *TIMES,
    Column("last_count", "collectives that it came last to", "", pl.Int64),
    Column("steps", "recorded steps", "", pl.Int64),
    Column("gpu", "name of the GPU", "", pl.String),
    Column("host", "name of the machine, where it is known", "", pl.String),
    Column("clock_offset_us", "its clock minus the job's, at the begin", "us", pl.Float64),
    Column("clock_drift_ppm", "how fast that grows, in millionths", "", pl.Float64),
    Column("clock_spread_us", "how far its small collectives end from those of the others, then", "us", pl.Float64),
    Column("source", "file that was read", "", pl.String),
)
STEP_COLUMNS = (
    RANK,
    STEP,
    Column("start_ms", "begin on the host, since the job's first event", "ms", pl.Float64),
    *TIMES,
)
IDLE_COLUMNS = (
    RANK,
    Column("cause", "why the GPU was idle", "", pl.String),
    Column("idle_ms", "idle for this cause, per step", "ms", pl.Float64),
)


def quality(model: JobModel) -> Table:
    notes = [("job", note.severity, 0, note.message) for note in model.job.notes()]
    return Table.from_rows("quality", "one row per note on the job", QUALITY_COLUMNS, notes)


def _step_frame(model: JobModel) -> pl.DataFrame:
    job = model.job
    waits = job.matched.group_by("rank", "step").agg(pl.col("wait_ns").sum())
    begun = pl.col("start_ns").shift(-1).over("rank", order_by="start_ns")
    frame = job.steps.sort("rank", "start_ns").with_columns(
        (begun.fill_null(pl.col("end_ns")) - pl.col("start_ns")).alias("step_ns")
    )
    frame = frame.join(waits, on=["rank", "step"], how="left", maintain_order="left")
    return frame.join(_pace_frame(model), on=["rank", "step"], how="left", maintain_order="left")


def _pace_frame(model: JobModel) -> pl.DataFrame:
    names = ("own_ns", "own_host_ns", "own_gpu_ns")
    schema = {"rank": pl.Int32, "step": pl.Int64} | dict.fromkeys(names, pl.Float64)
    if not model.is_known:
        return pl.DataFrame(schema=schema)
    pace = model.pace
    count = len(pace.steps)
    arrays = (pace.own_ns, pace.host_ns, pace.gpu_ns)
    columns = {name: array.ravel() for name, array in zip(names, arrays, strict=True)}
    positions = np.repeat(np.arange(len(pace.own_ns)), count)
    return pl.DataFrame({"rank": positions, "step": np.tile(pace.steps, len(pace.own_ns)), **columns}, schema=schema)


def rank_steps(model: JobModel) -> Table:
    frame = _step_frame(model).with_columns(
        numbered(model.job).alias("rank"),
        ((pl.col("start_ns") - model.job.origin_ns) / 1e6).alias("start_ms"),
        *_times(),
    )
    return Table.from_frame("rank_steps", "one row per rank and step", STEP_COLUMNS, frame.sort("rank", "step"))


def _times() -> list[pl.Expr]:
    names = ("step_ns", "compute_ns", "exposed_ns", "wait_ns", "idle_ns", "own_ns", "own_host_ns", "own_gpu_ns")
    return [in_ms(name) for name in names]


def ranks(model: JobModel) -> Table:
    job, clocks = model.job, model.job.clocks
    means = (
        _step_frame(model)
        .group_by("rank")
        .agg(
            pl.col("step_ns").median(),
            pl.col("compute_ns", "exposed_ns", "wait_ns", "idle_ns", "own_ns", "own_host_ns", "own_gpu_ns").mean(),
        )
    )
    last = job.matched.filter(pl.col("start_ns") == pl.col("last_start_ns")).group_by("rank").agg(
        pl.len().cast(pl.Int64).alias("last_count")
    )  # fmt: skip
    facts = pl.DataFrame(
        {
            "rank": pl.Series(range(len(job.digests)), dtype=pl.Int32),
            "steps": [digest.steps.height for digest in job.digests],
            "gpu": [digest.facts.gpu for digest in job.digests],
            "host": job.hosts,
            "clock_offset_us": clocks.offset_at(job.origin_ns) / 1e3,
            "clock_drift_ppm": clocks.drift * 1e6,
            "clock_spread_us": pl.Series(clocks.spread_ns / 1e3).fill_nan(None),
            "source": [digest.facts.source for digest in job.digests],
        },
        schema_overrides={"steps": pl.Int64},
    )
    frame = facts.join(means, on="rank", how="left").join(last, on="rank", how="left").with_columns(*_times())
    frame = frame.with_columns(numbered(job).alias("rank"), pl.col("last_count").fill_null(0)).sort("rank")
    return Table.from_frame("ranks", "one row per rank; times are per step", RANK_COLUMNS, frame)


def rank_idle(model: JobModel) -> Table:
    job = model.job
    parts = [
        digest.frames["idle"]
        .group_by("cause")
        .agg(pl.col("idle_ns").sum() / max(1, digest.steps.height))
        .with_columns(pl.lit(position).cast(pl.Int32).alias("rank"))
        for position, digest in enumerate(job.digests)
    ]
    frame = pl.concat(parts).with_columns(numbered(job).alias("rank"), in_ms("idle_ns"))
    frame = frame.sort("rank", "idle_ms", "cause", descending=[False, True, False])
    return Table.from_frame("rank_idle", "one row per rank and cause of idleness", IDLE_COLUMNS, frame)

"""`quality`, `ranks`, `rank_steps` and `rank_idle`: each rank by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.quality import COLUMNS as QUALITY_COLUMNS
from warplens.model.table import Column, Table
from warplens.ranks.job_graph import step_ends
from warplens.ranks.job_step import COUNTED, job_steps
from warplens.ranks.own_pace import JobModel
from warplens.ranks.records import RankDigest
from warplens.ranks.tables.shared import RANK, STEP, in_ms, numbered

TIMES = (
    Column(
        "step_ms",
        "the job's step, the same for all ranks: from when the last of them was done with the step before, its GPU's "
        "work included, until the last was done with this one",
        "ms",
        pl.Float64,
    ),
    Column("compute_ms", "computation on the GPU that the step launched", "ms", pl.Float64),
    Column("exposed_ms", "communication of the step that no computation hides", "ms", pl.Float64),
    Column("wait_ms", "sum of the waits for other ranks in collectives", "ms", pl.Float64),
    Column("idle_ms", "GPU idle, neither computing nor communicating", "ms", pl.Float64),
    Column("own_ms", "the step if no rank made it wait, without transfers; simulated", "ms", pl.Float64),
    Column("own_host_ms", "part of own_ms: the host", "ms", pl.Float64),
    Column("own_gpu_ms", "part of own_ms: computation on the GPU", "ms", pl.Float64),
)
RANK_COLUMNS = (
    RANK,
    *(replace(column, meaning=f"{column.meaning}; median {COUNTED}") for column in TIMES),
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
    Column(
        "start_ms",
        "when the job's step begins: when the last rank was done with that before it; since the job's first event",
        "ms",
        pl.Float64,
    ),
    *TIMES,
)
IDLE_COLUMNS = (
    RANK,
    Column("cause", "why the GPU was idle", "", pl.String),
    Column("idle_ms", f"idle for this cause in a step; median {COUNTED}", "ms", pl.Float64),
)


def quality(model: JobModel) -> Table:
    notes = [("job", note.severity, 0, note.message) for note in model.job.notes()]
    return Table.from_rows("quality", "one row per note on the job", QUALITY_COLUMNS, notes)


def _step_frame(model: JobModel) -> pl.DataFrame:
    """One row per rank and step; of work on the host alone its marks are the step's where no graph joins the ranks."""
    job = model.job
    waits = job.matched.group_by("rank", "step").agg(pl.col("wait_ns").sum())
    frame = job.steps.sort("rank", "start_ns").join(waits, on=["rank", "step"], how="left", maintain_order="left")
    frame = frame.join(_pace_frame(model), on=["rank", "step"], how="left", maintain_order="left")
    if model.is_known:
        return frame.with_columns(pl.col("begun_ns").alias("start_ns"))
    marked = pl.col("start_ns").shift(-1).over("rank", order_by="start_ns").fill_null(pl.col("end_ns"))
    on_host = not any(digest.facts.gpu_events for digest in job.digests)
    return frame.with_columns((marked - pl.col("start_ns") if on_host else pl.lit(None, pl.Int64)).alias("step_ns"))


def _pace_frame(model: JobModel) -> pl.DataFrame:
    """What the job's graph tells of each rank and step."""
    names = ("begun_ns", "step_ns", "own_ns", "own_host_ns", "own_gpu_ns")
    schema = {"rank": pl.Int32, "step": pl.Int64} | dict.fromkeys(names, pl.Float64)
    if not model.is_known:
        return pl.DataFrame(schema=schema)
    pace, count = model.pace, len(model.pace.steps)
    own = (pace.own_ns, pace.host_ns, pace.gpu_ns)
    begun = step_ends(model.recorded).max(axis=0) - model.step_ns + model.job.origin_ns
    arrays = (*np.broadcast_arrays(begun, model.step_ns, own[0])[:2], *own)
    columns = {name: array.ravel() for name, array in zip(names, arrays, strict=True)}
    positions = np.repeat(np.arange(len(pace.own_ns)), count)
    return pl.DataFrame({"rank": positions, "step": np.tile(pace.steps, len(pace.own_ns)), **columns}, schema=schema)


def _notes(model: JobModel) -> tuple[str, ...]:
    return () if model.is_known else ("step_ms and own_ms need steps that all ranks recorded, with their launches",)


def rank_steps(model: JobModel) -> Table:
    frame = _step_frame(model).with_columns(
        numbered(model.job).alias("rank"),
        ((pl.col("start_ns") - model.job.origin_ns) / 1e6).alias("start_ms"),
        *_times(),
    )
    return Table.from_frame(
        "rank_steps", "one row per rank and step", STEP_COLUMNS, frame.sort("rank", "step"), *_notes(model)
    )


def _times() -> list[pl.Expr]:
    return [in_ms(name) for name in TIMES_NS]


TIMES_NS: Final = tuple(column.name.replace("_ms", "_ns") for column in TIMES)


def ranks(model: JobModel) -> Table:
    job, clocks = model.job, model.job.clocks
    usual = (
        _step_frame(model)
        .filter(pl.col("step").is_in(job_steps(model)))
        .group_by("rank")
        .agg(pl.col(TIMES_NS).median())
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
    frame = facts.join(usual, on="rank", how="left").join(last, on="rank", how="left").with_columns(*_times())
    frame = frame.with_columns(numbered(job).alias("rank"), pl.col("last_count").fill_null(0)).sort("rank")
    return Table.from_frame("ranks", "one row per rank; times are of a step", RANK_COLUMNS, frame, *_notes(model))


def _usual_idle(digest: RankDigest, counted: Sequence[int]) -> pl.DataFrame:
    """The median over these steps, also those without this cause; of a rank without steps the whole of it."""
    idle, steps = digest.frames["idle"], digest.steps.select("step").filter(pl.col("step").is_in(counted))
    if steps.is_empty():
        return idle.group_by("cause").agg(pl.col("idle_ns").sum().cast(pl.Float64))
    every = steps.join(idle.select("cause").unique(), how="cross").join(idle, on=["step", "cause"], how="left")
    return every.group_by("cause").agg(pl.col("idle_ns").fill_null(0).median().cast(pl.Float64))


def rank_idle(model: JobModel) -> Table:
    job = model.job
    parts = [
        _usual_idle(digest, job_steps(model)).with_columns(pl.lit(position).cast(pl.Int32).alias("rank"))
        for position, digest in enumerate(job.digests)
    ]
    frame = pl.concat(parts).with_columns(numbered(job).alias("rank"), in_ms("idle_ns"))
    frame = frame.sort("rank", "idle_ms", "cause", descending=[False, True, False])
    return Table.from_frame("rank_idle", "one row per rank and cause of idleness", IDLE_COLUMNS, frame)

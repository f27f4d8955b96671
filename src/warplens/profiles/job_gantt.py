"""The GPU work of several ranks on the job's clock: as events for a chart, and as one timeline for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from warplens.analyses import Workspace
from warplens.analyses.page.scene import scene
from warplens.categories import load_categorizer
from warplens.model.builder import TraceBuilder
from warplens.model.trace import Meta, Trace
from warplens.outputs import Document, Extras
from warplens.profiles.describing import definitions
from warplens.profiles.job import JobProfile
from warplens.profiles.rank_task import RankEvents, gpu_events_of_rank
from warplens.ranks.job import Job

MOST_RANKS: Final = 16
"""Drawn where none are chosen: more are hard to read."""


def job_gpu_events(profile: JobProfile, positions: Sequence[int]) -> pl.DataFrame:
    """One row per GPU event of these ranks, with its `rank`; times in ns since the job's first event."""
    job = profile.job
    assert profile.reading is not None
    read = profile.reading.each(gpu_events_of_rank, [job.digests[position] for position in positions])
    # Names as numbers: as texts they would take ten times the memory of the times.
    every = pl.concat([each.kernels.drop("name") for each in read])
    kinds: Mapping[Any, Any] = {name: pl.Enum(every[name].unique().sort()) for name in every.columns}
    return pl.concat([_on_clock(job, *each, kinds) for each in zip(positions, read, strict=True)])


def _on_clock(job: Job, position: int, read: RankEvents, kinds: Mapping[Any, Any]) -> pl.DataFrame:
    start = read.events["start_ns"].to_numpy()
    at = np.full(len(start), position)
    begin = job.clocks.corrected(at, start)
    end = job.clocks.corrected(at, start + read.events["dur_ns"].to_numpy())
    times = [pl.Series("start_ns", begin - job.origin_ns), pl.Series("dur_ns", end - begin)]
    events = read.events.with_columns(*times, pl.lit(job.ranks[position], pl.Int64).alias("rank"))
    return events.join(read.kernels.cast(kinds), on="name", how="left", maintain_order="left").drop("name")


def job_gantt_document(profile: JobProfile, events: pl.DataFrame, *, command: str, start: str) -> Document:
    """A page of the timeline alone, as of one trace: the GPUs of all ranks are its GPUs."""
    work = Workspace(
        _one_trace(events, profile.source), load_categorizer(profile.reading.rules if profile.reading else ())
    )
    document = profile.document(("quality", "ranks"))
    drawn = scene(work, Path(profile.source).name, document.facts.get("GPU", ""), {})
    extras = Extras(scenes=[drawn], command=command, start=start, definitions=definitions())
    return replace(document, kind="gantt", extras=lambda: extras)


def _one_trace(events: pl.DataFrame, source: str) -> Trace:
    gpus = events.select("rank", "device").unique().sort("rank", "device")
    several = gpus["rank"].is_duplicated().any()
    # A rank mostly has one GPU, which then has its number.
    numbers = gpus.with_row_index("gpu").with_columns(pl.col("gpu" if several else "rank").cast(pl.Int64).alias("gpu"))
    builder = TraceBuilder()
    names = events["kernel"].unique()
    codes = pl.DataFrame({"kernel": names, "code": [builder.names[name] for name in names]})
    events = events.join(numbers, on=("rank", "device")).join(codes, on="kernel")
    kind, name, begin, duration, gpu, stream = (
        events[column].to_numpy() for column in ("kind", "code", "start_ns", "dur_ns", "gpu", "stream")
    )
    builder.add_columns(kind, name, begin, duration, lane=builder.lanes["GPU", 0], device=gpu, stream=stream)
    trace = builder.build(Meta(source, "ranks of a job"))
    titles = [f"rank {rank} GPU {device}" if several else f"rank {rank}" for rank, device in gpus.iter_rows()]
    lanes = pl.col("process").replace([f"GPU {gpu}" for gpu in numbers["gpu"]], titles)
    return replace(
        trace,
        lanes=trace.lanes.with_columns(lanes),
        # Times of a trace begin with its first event, those of the job before it.
        events=trace.events.with_columns(pl.col("start_ns") + trace.meta.origin_ns),
    )

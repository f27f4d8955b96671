"""`phases`: GPU time by part of a training step: forward, recomputed forward, backward, optimizer."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.shared import shared
from warplens.analyses.work.kernels import PERCENT, STEP_TIME, STEP_US
from warplens.analyses.work.modules import AUTOGRAD_CALLS, OPTIMIZER_CALLS, line_context
from warplens.analyses.workspace import Workspace, percent_of
from warplens.model.kinds import NONE
from warplens.model.table import Column, Table
from warplens.model.trace import Ints
from warplens.passes.climb import climb

MARKS: Final = {
    # phase: the names of frames, annotations and ops that open it
    "optimizer": re.compile("|".join(map(re.escape, OPTIMIZER_CALLS))),
    "recompute": re.compile(r"(?:.*/)?torch/utils/checkpoint\.py\(\d+\): (?:recompute_fn|backward)"),
    "backward": re.compile("|".join(map(re.escape, AUTOGRAD_CALLS))),
}
MEANINGS: Final = {
    "forward": "launched by the forward pass, and everything that belongs to no other phase",
    "recompute": "forward work repeated during the backward pass (activation checkpointing)",
    "backward": "launched by the autograd engine",
    "optimizer": "launched inside Optimizer.step",
    "earlier": "no launch recorded, before the first event with one: queued before the recording began",
    "unknown": "no launch recorded, among events with one",
}
COLUMNS = (
    Column("phase", "part of the step; `warplens explain phases` defines each", "", pl.String),
    Column("count", "GPU events", "", pl.Int64),
    Column("total_us", "sum of their durations", "us", pl.Float64),
    PERCENT,
    Column(
        "span_us", "from the first to the last GPU event of each optimizer step, idle time included", "us", pl.Float64
    ),
    Column("ops", "ops with most of that time", "", pl.String),
    STEP_TIME,
)


def phases(work: Workspace) -> Table:
    frame = work.gpu.select("op", "dur_ns", "step").with_columns(phase_of(work))
    summed = (
        frame.group_by("phase")
        .agg(pl.len().cast(pl.Int64).alias("count"), (pl.col("dur_ns").sum() / 1000).alias("total_us"), STEP_US)
        .join(_top_ops(frame), on="phase", how="left")
        .with_columns(percent_of("total_us", work.gpu_total_ns).alias("percent"))
        .sort("total_us", "phase", descending=[True, False])
    )
    span = pl.when(pl.col("phase") == "optimizer").then(_optimizer_span_ns(work) / 1000).alias("span_us")
    return Table.from_frame("phases", "one row per part of the step", COLUMNS, summed.with_columns(span))


@shared
def phase_of(work: Workspace) -> pl.Series:
    """The phase of each GPU event."""
    return pl.Series("phase", list(MEANINGS), dtype=pl.String).gather(_phases(work))


def _phases(work: Workspace) -> Ints:
    """For each GPU event the place of its phase in `MEANINGS`: that of the nearest mark above it."""
    names = list(MEANINGS)
    owner = work.gpu["owner"].to_numpy()
    marks = marks_of_phases(work)
    nearest = climb(owner, work.trace.ints("parent"), marks >= 0)
    phase = np.where(nearest >= 0, marks[np.maximum(nearest, 0)], names.index("forward"))
    # Compiled backward code has no mark of its own, but its ops point to the forward ops that made them.
    phase[(nearest < 0) & line_context(work).backward] = names.index("backward")
    start = work.gpu["start_ns"].to_numpy()
    recorded = start[owner >= 0].min(initial=np.iinfo(np.int64).max)
    queued = start < recorded if (owner >= 0).any() else np.zeros(len(start), bool)
    phase[owner < 0] = names.index("unknown")
    phase[(owner < 0) & queued] = names.index("earlier")
    return phase


@shared
def marks_of_phases(work: Workspace) -> Ints:
    """For each event of the trace the index of the phase that its name opens, -1 for none and for GPU events."""
    names = list(MEANINGS)
    opens = np.full(len(work.trace.names), NONE, np.int64)
    for code in work.trace.host_names.tolist():
        text = work.trace.names[code]
        for phase, pattern in MARKS.items():
            if pattern.match(text):
                opens[code] = names.index(phase)
    of_event: Ints = opens[work.trace.ints("name")]
    return of_event


def _optimizer_span_ns(work: Workspace) -> int:
    """Σ over the calls of Optimizer.step of the time from their first GPU event to their last."""
    trace, gpu = work.trace, work.gpu
    own = (phase_of(work) == "optimizer").to_numpy()
    if not own.any():
        return 0
    marks = marks_of_phases(work) == list(MEANINGS).index("optimizer")
    call = climb(gpu["owner"].to_numpy()[own], trace.ints("parent"), marks)
    frame = gpu.select("start_ns", "dur_ns").filter(own).with_columns(pl.Series("call", call))
    end = (pl.col("start_ns") + pl.col("dur_ns")).max()
    return int(frame.group_by("call").agg((end - pl.col("start_ns").min()).alias("span"))["span"].sum())


def _top_ops(frame: pl.DataFrame) -> pl.DataFrame:
    return (
        frame.group_by("phase", "op")
        .agg(pl.col("dur_ns").sum())
        .sort("dur_ns", "op", descending=[True, False])
        .group_by("phase", maintain_order=True)
        .agg(pl.col("op").head(4))
        .with_columns(pl.col("op").list.join(", ").alias("ops"))
        .drop("op")
    )

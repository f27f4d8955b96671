"""`counters`: the hardware counters that CUPTI measured of the kernels of a trace, by kernel and op."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.inside_kernels.counters import with_short_names
from warplens.analyses.work.kernels import EVENTS
from warplens.analyses.workspace import Workspace
from warplens.model.kinds import NONE
from warplens.model.table import Column, Table
from warplens.model.trace import Ints
from warplens.passes.climb import climb

NEEDS_RANGES: Final = (
    "a CSV page of Nsight Compute, or counters of CUPTI, which torch.profiler records in place of kernels' times "
    "(experimental_config=torch.profiler._ExperimentalConfig(profiler_metrics=[…], profiler_measure_per_kernel=True))"
)
KERNEL_LAUNCH: Final = re.compile(r"(?:cuda|hip|cu)Launch(?:Cooperative)?Kernel")
MEANING: Final = "one row per kernel, op and metric, in the order of the launches"
COLUMNS: Final = (
    Column("kernel", "name as recorded in the trace", "", pl.String),
    Column("op", "op that launched it, empty where that is not known", "", pl.String),
    Column("metric", "what was counted, as CUPTI names it", "", pl.String),
    Column("count", "launches that were measured", "", pl.Int64),
    Column("total", "sum of their values", "", pl.Float64),
    Column("mean", "mean of a launch", "", pl.Float64),
    Column("min", "the least of a launch", "", pl.Float64),
    Column("max", "the most of a launch", "", pl.Float64),
    Column("outer_op", "the outermost op around op", "", pl.String),
)


def has_ranges(work: Workspace) -> bool:
    return bool(work.trace.is_kind("counter").any())


def counters(work: Workspace) -> Table:
    trace, ranges = work.trace, work.trace.rows_of("counter")
    ranges = ranges[np.argsort(trace.ints("start_ns")[ranges], kind="stable")]
    launch, notes = _launches(work, ranges)
    op = climb(launch, trace.ints("parent"), trace.is_kind("op"))
    texts = {"kernel": ranges, "op": op, "outer_op": _outermost(work, op)}
    measured = pl.DataFrame({"id": ranges, **{name: trace.names_at(rows) for name, rows in texts.items()}})
    values = trace.metrics.with_columns(pl.col("id").cast(pl.Int64))
    value = pl.col("value")
    frame = (
        measured.join(values, on="id", how="inner", maintain_order="left_right")
        .group_by("kernel", "op", "outer_op", "metric", maintain_order=True)
        .agg(
            EVENTS,
            value.sum().alias("total"),
            value.mean().alias("mean"),
            value.min().alias("min"),
            value.max().alias("max"),
        )
    )
    return with_short_names(Table.from_frame("counters", MEANING, COLUMNS, frame, *notes), work.categorizer)


def _outermost(work: Workspace, op: Ints) -> Ints:
    """The outermost op around each of these, itself included; -1 for -1."""
    enclosing = np.append(work.enclosing_op, NONE)  # of -1, the last
    while ((above := enclosing[op]) >= 0).any():
        op = np.where(above >= 0, above, op)
    return op


def _launches(work: Workspace, ranges: Ints) -> tuple[Ints, list[str]]:
    """The call that launched what each range measured: both come in the same order, one kernel after the other."""
    trace = work.trace
    names = np.array([KERNEL_LAUNCH.match(text) is not None for text in trace.names], bool)
    calls = trace.rows_of("runtime")
    calls = calls[names[trace.ints("name")[calls]]]
    calls = calls[np.argsort(trace.ints("start_ns")[calls], kind="stable")]
    if len(calls) == len(ranges) and len(np.unique(trace.ints("lane")[ranges])) == 1:
        return calls, []
    why = f"{len(ranges):,} ranges and {len(calls):,} launches of kernels: which belong together is not known"
    return np.full(len(ranges), NONE, np.int64), [why]

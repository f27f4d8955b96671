"""GPU work compared by kernel category, kernel, module and host op."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from warplens.analyses.diff.columns import COUNTS, TIMES, compare
from warplens.analyses.diff.sides import Pair, Side
from warplens.analyses.missing_data import NO_STACKS, quality_note_or
from warplens.analyses.work.kernels import CATEGORY
from warplens.analyses.work.modules import OPTIMIZER, OUTSIDE, module_context, module_paths
from warplens.analyses.work.places import pattern_of
from warplens.analyses.workspace import NO_LAUNCH
from warplens.model.table import Column, Table

KERNEL = Column("kernel_short", "readable short form of the kernel's name", "", pl.String)


def diff_categories(pair: Pair) -> Table:
    frame = compare(pair, [side.events for side in pair.sides], ["kernel_category"])
    return Table.from_frame(
        "diff_categories", "one row per kernel category, A against B", (CATEGORY, *TIMES, *COUNTS), frame, *pair.notes
    )


def diff_kernels(pair: Pair) -> Table:
    keys = ["kernel_category", "kernel_short"]
    frame = compare(pair, [side.events for side in pair.sides], keys)
    columns = (CATEGORY, KERNEL, *TIMES, *COUNTS)
    return Table.from_frame("diff_kernels", "one row per kernel (short name), A against B", columns, frame, *pair.notes)


def diff_modules(pair: Pair) -> Table:
    """By path; paths that only one side has are matched without their instances' numbers, where that helps."""
    a, b = (_with_modules(side) for side in pair.sides)
    exact = set(a["module"].unique()) & set(b["module"].unique())
    loose = set(a["pattern"].filter(~a["module"].is_in(list(exact))).unique())
    loose &= set(b["pattern"].filter(~b["module"].is_in(list(exact))).unique())
    as_pattern = ~pl.col("module").is_in(list(exact)) & pl.col("pattern").is_in(list(loose))
    key = pl.when(as_pattern).then("pattern").otherwise("module").alias("module")
    frame = compare(pair, [a.with_columns(key), b.with_columns(key)], ["module"])
    columns = (
        Column(
            "module",
            "path of nn.Module instances; * replaces their numbers where the paths match only without them",
            "",
            pl.String,
        ),
        *TIMES,
        *COUNTS,
    )
    return Table.from_frame(
        "diff_modules", "one row per nn.Module path, A against B", columns, frame, *_module_notes(pair)
    )


def diff_layers(pair: Pair) -> Table:
    frame = compare(pair, [_with_modules(side) for side in pair.sides], ["pattern"]).rename({"pattern": "layer"})
    columns = (
        Column("layer", "path of nn.Modules, * for the numbers of inner instances", "", pl.String),
        *TIMES,
        *COUNTS,
    )
    return Table.from_frame(
        "diff_layers", "one row per kind of nn.Module, A against B", columns, frame, *_module_notes(pair)
    )


def _module_notes(pair: Pair) -> tuple[str, ...]:
    without = [side for side in pair.sides if not side.work.trace.is_kind("module").any()]
    reasons = [quality_note_or(side.work, NO_STACKS, "no nn.Module calls on record") for side in without]
    return (*pair.notes, *(f"{side.label}: {reason}" for side, reason in zip(without, reasons, strict=True)))


def _with_modules(side: Side) -> pl.DataFrame:
    """The compared events with the path of the innermost module around each, and its pattern."""
    context = module_context(side.work)
    rows = context.row[side.chosen]
    paths = module_paths(side.work)
    calls, call_of_event = np.unique(rows, return_inverse=True)
    texts = [paths.get(call, OUTSIDE) for call in calls.tolist()]
    module = pl.Series("module", texts, dtype=pl.String).gather(call_of_event)
    pattern = pl.Series("pattern", [pattern_of(text) for text in texts], dtype=pl.String).gather(call_of_event)
    updates = pl.Series("updates", context.optimizer[side.chosen])
    outside = pl.when(pl.col("owner") < 0).then(pl.lit(NO_LAUNCH)).when(updates).then(pl.lit(OPTIMIZER))
    return side.events.with_columns(module, pattern).with_columns(
        outside.otherwise(name).alias(name) for name in ("module", "pattern")
    )


def diff_host(pair: Pair) -> Table:
    runs = max(1, len(pair.a.host_steps)), max(1, len(pair.b.host_steps))
    frame = compare(pair, [_host_ops(side) for side in pair.sides], ["op"], runs)
    meanings = {"a_us": "host time inside the op, inner ops excluded, in A", "a_count": "calls in A"}
    times = [replace(column, meaning=meanings.get(column.name, column.meaning)) for column in (*TIMES, *COUNTS)]
    columns = (Column("op", "framework op", "", pl.String), *times)
    return Table.from_frame("diff_host", "host time: one row per op name, A against B", columns, frame, pair.host_basis)


def _host_ops(side: Side) -> pl.DataFrame:
    """One row per op call: its name, step and the host time in no inner op."""
    trace, rows = side.work.trace, side.host_rows
    duration, enclosing = trace.ints("dur_ns"), side.work.enclosing_op
    ops = trace.rows_of("op")
    nested = ops[enclosing[ops] >= 0]
    inner = np.bincount(enclosing[nested], weights=duration[nested], minlength=len(trace))
    names = pl.Series("op", trace.names, dtype=pl.String).gather(trace.ints("name")[rows])
    own = np.maximum(duration[rows] - inner[rows], 0).astype(np.int64)
    return side.in_steps(pl.DataFrame({"op": names, "step": trace.ints("step")[rows], "dur_ns": own}))

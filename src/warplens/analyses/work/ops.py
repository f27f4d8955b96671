"""`ops` and `op_shapes`: GPU and CPU time by framework op."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl

from warplens.analyses.roofline.tables import COLUMNS as ROOFLINE_COLUMNS
from warplens.analyses.roofline.tables import ROOFLINE_SET, roofline_by_inputs
from warplens.analyses.shared import shared
from warplens.analyses.work.kernels import OP, OP_CATEGORY, PERCENT
from warplens.analyses.workspace import Workspace, percent_of
from warplens.categories import op_category
from warplens.model.kinds import NONE
from warplens.model.table import Column, Table
from warplens.model.trace import Bools, Ints, Trace
from warplens.passes.climb import DEEP
from warplens.passes.graphs.captures import captured_ops
from warplens.passes.graphs.grafting import LANE

SPEC_COLUMNS = (
    Column("input_dims", "shapes of the inputs, as recorded", "", pl.String),
    Column("input_types", "dtypes of the inputs", "", pl.String),
    Column("input_strides", "strides of the inputs", "", pl.String),
    Column("concrete_inputs", "values of the scalar inputs", "", pl.String),
)


def ops(work: Workspace) -> Table:
    frame = (
        _host_side(work)
        .join(_direct(work), on="op", how="full", coalesce=True)
        .join(_subtree(work), on="op", how="left")
        .with_columns(
            pl.col("count").fill_null(pl.col("launches")),
            pl.col("replayed_calls").fill_null(0),
            pl.col("kernel_us", "cpu_us", "cpu_self_us").fill_null(0.0),
        )
        # Work launched outside any op has no subtree of its own.
        .with_columns(pl.max_horizontal("subtree_kernel_us", "kernel_us").fill_null(0.0).alias("subtree_kernel_us"))
        .with_columns(percent_of("kernel_us", work.gpu_total_ns).alias("percent"))
        .sort("kernel_us", "subtree_kernel_us", "cpu_us", "op", descending=[True, True, True, False])
    )
    names = frame.select("op", "op_category").rows()
    filled = pl.Series("op_category", [category or op_category(op) for op, category in names], dtype=pl.String)
    columns = (
        OP,
        OP_CATEGORY,
        Column("count", "calls of the op, replayed ones of graphs included; launches outside any op", "", pl.Int64),
        Column("kernel_us", "GPU time of the kernels it launched itself", "us", pl.Float64),
        Column("subtree_kernel_us", "GPU time of all kernels launched inside it", "us", pl.Float64),
        Column("cpu_us", "host time inside the op, callees included; recursive calls count once", "us", pl.Float64),
        PERCENT,
        Column("cpu_self_us", "host time inside the op, inner ops excluded", "us", pl.Float64),
        Column("replayed_calls", "those of the calls that graphs replayed, which take no host time", "", pl.Int64),
    )
    return Table.from_frame("ops", "one row per op name", columns, frame.with_columns(filled))


def _counted_calls(trace: Trace, replayed: Bools) -> Ints:
    """Op calls: those with a time, those that graphs replayed, and recorded callers of names that no timed call has."""
    rows, names = trace.rows_of("op"), trace.ints("name")
    if trace.frames.is_empty():
        return rows
    recorded = np.isin(rows, trace.frames["id"].to_numpy())
    return rows[~recorded | replayed[rows] | ~np.isin(names[rows], names[rows[~recorded]])]


def _host_side(work: Workspace) -> pl.DataFrame:
    """Calls and host time per op name. Of a graph that is captured in the same trace, the replays are what counts."""
    trace = work.trace
    replayed = (trace.lanes["process"] == LANE).to_numpy()[trace.ints("lane")]
    rows = _counted_calls(trace, replayed)
    enclosing, names, duration = work.enclosing_op, trace.ints("name"), trace.ints("dur_ns")
    nested = rows[enclosing[rows] >= 0]
    inner = np.bincount(enclosing[nested], weights=duration[nested], minlength=len(trace))
    counts = np.ones(len(trace), bool)
    if replayed.any():
        captured = captured_ops(trace)
        counts[captured[np.isin(names[captured], names[replayed])]] = False
    frame = pl.DataFrame(
        {
            "name": names[rows],
            "count": counts[rows].astype(np.int64),
            "replayed_calls": replayed[rows].astype(np.int64),
            "cpu_us": np.where(_recursive_calls(work)[rows], 0, duration[rows]) / 1000,
            "cpu_self_us": np.maximum(duration[rows] - inner[rows], 0) / 1000,
        }
    )
    counted = frame.group_by("name").agg(pl.all().sum())
    texts = pl.Series("op", trace.names, dtype=pl.String).gather(counted["name"])
    return counted.with_columns(texts.alias("op"))


@shared
def _recursive_calls(work: Workspace) -> Bools:
    """Which events are op calls inside a call of the same op."""
    trace = work.trace
    rows, names, enclosing = trace.rows_of("op"), trace.ints("name"), work.enclosing_op
    is_recursive = np.zeros(len(trace), bool)
    row, outer = rows[enclosing[rows] >= 0], enclosing[rows[enclosing[rows] >= 0]]
    level = 0
    while len(row):
        if level == DEEP:
            is_recursive[_inside_their_name(rows, names, enclosing)] = True
            break
        level += 1
        same = names[outer] == names[row]
        is_recursive[row[same]] = True
        row, outer = row[~same], enclosing[outer[~same]]
        row, outer = row[outer >= 0], outer[outer >= 0]
    return is_recursive


def _inside_their_name(rows: Ints, names: Ints, enclosing: Ints) -> list[int]:
    """The same call by call: each once, however deep it is."""
    inner: dict[int, list[int]] = {}
    for row, outer in zip(rows.tolist(), enclosing[rows].tolist(), strict=True):
        inner.setdefault(outer, []).append(row)
    name_of, running = names.tolist(), Counter[int]()
    recursive: list[int] = []
    waiting = list(inner.get(NONE, ()))
    while waiting:
        row = waiting.pop()
        if row < 0:  # the end of a call
            running[name_of[~row]] -= 1
            continue
        name = name_of[row]
        if running[name]:
            recursive.append(row)
        running[name] += 1
        waiting.append(~row)
        waiting += inner.get(row, ())
    return recursive


def _direct(work: Workspace) -> pl.DataFrame:
    return work.gpu.group_by("op").agg(
        pl.col("op_category").first(),
        (pl.col("dur_ns").sum() / 1000).alias("kernel_us"),
        pl.col("owner").n_unique().cast(pl.Int64).alias("launches"),
    )


def _subtree(work: Workspace) -> pl.DataFrame:
    """GPU time under each op name; a kernel counts once per name however often the name is on its path.

    It counts for the outermost call of each name, the one that is inside no other of that name.
    """
    trace = work.trace
    at = work.gpu["op_row"].to_numpy().astype(np.int64)
    duration = work.gpu["dur_ns"].to_numpy()
    names, enclosing = trace.ints("name").astype(np.int64), work.enclosing_op
    inner = _recursive_calls(work)
    totals, counts = np.zeros(len(trace.names)), np.zeros(len(trace.names), np.int64)
    duration, at = duration[at >= 0], at[at >= 0]
    level = 0
    while len(at):
        if level == DEEP:
            at, duration = _sums_up(at, duration, trace.ints("depth"), enclosing)
            enclosing = np.full(len(trace), NONE)
        level += 1
        own = ~inner[at]
        totals += np.bincount(names[at[own]], weights=duration[own], minlength=len(totals))
        counts += np.bincount(names[at[own]], minlength=len(totals))
        at = enclosing[at]
        duration, at = duration[at >= 0], at[at >= 0]
    codes = np.flatnonzero(counts)
    return pl.DataFrame(
        {"op": [trace.names[code] for code in codes], "subtree_kernel_us": totals[codes] / 1000},
        schema={"op": pl.String, "subtree_kernel_us": pl.Float64},
    )


def _sums_up(at: Ints, duration: Ints, depth: Ints, enclosing: Ints) -> tuple[Ints, Ints]:
    """Calls with the time of all that is inside them, given the time that each has itself."""
    sums: dict[int, int] = {}
    for row, ns in zip(at.tolist(), duration.tolist(), strict=True):
        sums[row] = sums.get(row, 0) + ns
    by_depth: dict[int, list[int]] = {}
    for row in sums:
        by_depth.setdefault(int(depth[row]), []).append(row)
    for level in range(max(by_depth, default=0), -1, -1):
        for row in by_depth.get(level, ()):
            outer = int(enclosing[row])
            if outer >= 0 and outer not in sums:
                by_depth.setdefault(int(depth[outer]), []).append(outer)
            if outer >= 0:
                sums[outer] = sums.get(outer, 0) + sums[row]
    return np.array(list(sums), np.int64), np.array(list(sums.values()), np.int64)


def _calls_with_kernels(work: Workspace) -> pl.DataFrame:
    """One row per call of an op that launched GPU work itself, with its time and its kernels as one text."""
    events = work.gpu.filter((pl.col("op_row") >= 0) & (pl.col("op_row") == pl.col("owner")))
    calls = events.group_by("op_row", maintain_order=True).agg(
        pl.col("op", "op_category").first(),
        pl.col("dur_ns").sum(),
        pl.col("kernel_short"),
        pl.col("kernel_short").first().alias("kernels"),
        pl.len().alias("launched"),
    )
    # Nearly every call launches one kernel: to join the names of all takes a third of the table's time.
    several = calls["launched"].to_numpy() > 1
    joined = calls["kernel_short"].filter(several).list.join(" + ")
    place = np.arange(len(calls))
    place[several] = len(calls) + np.arange(len(joined))
    return calls.with_columns(pl.concat([calls["kernels"], joined]).gather(place).alias("kernels"))


def op_shapes(work: Workspace) -> Table:
    trace = work.trace
    calls = _calls_with_kernels(work)
    calls = calls.with_columns(trace.events["spec"].gather(calls["op_row"]))
    us = pl.col("dur_ns") / 1000
    frame = (
        calls.group_by("op", "op_category", "spec")
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            (pl.col("dur_ns").sum() / 1000).alias("kernel_us"),
            us.mean().alias("kernel_us_mean"),
            us.min().alias("kernel_us_min"),
            us.max().alias("kernel_us_max"),
            us.std().fill_null(0.0).alias("kernel_us_std"),
            pl.col("launched").max().cast(pl.Int64).alias("kernels_per_call"),
            pl.col("kernels").mode().sort().first(),
        )
        .with_columns(percent_of("kernel_us", work.gpu_total_ns).alias("percent"))
    )
    specs = trace.specs.with_row_index("spec").with_columns(pl.col("spec").cast(pl.Int32))
    frame = frame.join(specs, on="spec", how="left").with_columns(
        pl.col(column.name).fill_null("") for column in SPEC_COLUMNS
    )
    frame = frame.sort("kernel_us", "op", "input_dims", "spec", descending=[True, False, False, False])
    columns = (
        OP,
        OP_CATEGORY,
        *SPEC_COLUMNS,
        Column("count", "calls of the op with these inputs that launched GPU work", "", pl.Int64),
        Column("kernel_us", "GPU time of the kernels it launched itself", "us", pl.Float64),
        Column("kernel_us_mean", "mean per call", "us", pl.Float64),
        Column("kernel_us_min", "minimum per call", "us", pl.Float64),
        Column("kernel_us_max", "maximum per call", "us", pl.Float64),
        Column("kernel_us_std", "standard deviation over calls", "us", pl.Float64),
        Column("kernels_per_call", "GPU events per call (maximum)", "", pl.Int64),
        Column("kernels", "the kernel sequence that most calls launch", "", pl.String),
        PERCENT,
        *(column for column in ROOFLINE_COLUMNS if column.name in ROOFLINE_SET),
    )
    frame = frame.join(roofline_by_inputs(work), on=["op", "spec"], how="left", maintain_order="left")
    return Table.from_frame("op_shapes", "one row per op, shapes, dtypes, strides and scalar inputs", columns, frame)

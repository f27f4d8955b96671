"""`diff_summary`: where the difference comes from, in parts that add up to it."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from warplens.analyses.diff.columns import TIMES, with_delta
from warplens.analyses.diff.gpu_work import diff_categories, diff_kernels
from warplens.analyses.diff.sides import Pair
from warplens.analyses.diff.times import diff_idle, diff_timeline
from warplens.model.diff_rows import BOTH, ONLY_A, ONLY_B
from warplens.model.records import records
from warplens.model.table import Column, Table

TOTAL = "total"
CATEGORY = "kernel category"
IDLE = "idle"
REST = "overlap and step edges"
TRIFLE = 0.1
"""A kernel or a number of launches that differs by less than this share explains nothing."""


def diff_summary(pair: Pair) -> Table:
    categories, idle = diff_categories(pair).frame, _idle(pair)
    keep = [column.name for column in TIMES if column.name != "percent_of_change"]
    work = categories.select(pl.lit(CATEGORY).alias("kind"), pl.col("kernel_category").alias("part"), *keep)
    total = diff_timeline(pair).frame.filter(pl.col("measure") == TOTAL)
    whole = total.select(pl.lit(TOTAL).alias("kind"), pl.lit("step" if pair.per_step else "trace").alias("part"), *keep)
    parts = pl.concat([work, idle.select(pl.lit(IDLE).alias("kind"), pl.col("cause").alias("part"), *keep)])
    parts = pl.concat([parts, _rest(whole, parts).select(parts.columns)])
    sizes = [pl.col("delta_us").abs(), pl.max_horizontal("a_us", "b_us")]
    parts = parts.sort(*sizes, "part", descending=[True, True, False])
    frame = pl.concat([whole, parts])
    change = float(whole["delta_us"].sum())
    share = (100 * pl.col("delta_us") / change) if change else pl.lit(None, pl.Float64)
    texts = pl.Series("what_changed", _texts(pair, frame), dtype=pl.String)
    columns = (
        Column("part", "kernel category, cause of idle time, or the rest of the total", "", pl.String),
        Column("kind", "total, kernel category, idle, or rest", "", pl.String),
        *TIMES,
        Column("what_changed", "the kernels behind it, A → B", "", pl.String),
    )
    frame = frame.with_columns(share.alias("percent_of_change"), texts)
    return Table.from_frame(
        "diff_summary", "the total, then the parts it is made of, A against B", columns, frame, *pair.notes
    )


def _idle(pair: Pair) -> pl.DataFrame:
    """By cause; with several GPUs their causes do not add up to the time in which none worked."""
    if all(side.work.gpu["device"].n_unique() <= 1 for side in pair.sides):
        return diff_idle(pair).frame
    row = diff_timeline(pair).frame.filter(pl.col("measure") == IDLE)
    return row.with_columns(pl.lit("all GPUs idle").alias("cause"))


def _rest(whole: pl.DataFrame, parts: pl.DataFrame) -> pl.DataFrame:
    """What makes the parts add up: kernels that ran side by side, and work across the edges of steps."""
    left = {name: float(whole[name].sum()) - float(parts[name].sum()) for name in ("a_us", "b_us")}
    row = with_delta(pl.DataFrame({name: [value] for name, value in left.items()}))
    return row.with_columns(
        pl.lit("rest").alias("kind"),
        pl.lit(REST).alias("part"),
        pl.lit(BOTH).alias("status"),
        pl.lit(None, pl.Boolean).alias("within_noise"),
        pl.lit(None, pl.Float64).alias("noise_us"),
    )


def _texts(pair: Pair, frame: pl.DataFrame) -> list[str]:
    kernels = diff_kernels(pair).frame
    parts = frame.select("kind", "part").rows()
    return [kernel_change(kernels, part) if kind == CATEGORY else "" for kind, part in parts]


def kernel_change(kernels: pl.DataFrame, category: str) -> str:
    """What a category ran in A and what in B: other kernels, other numbers of launches, or the same at another pace."""
    rows = kernels.filter(pl.col("kernel_category") == category)
    gone, new = _heaviest(rows, "a_us", ONLY_A), _heaviest(rows, "b_us", ONLY_B)
    change = float(rows["delta_us"].abs().max() or 0.0)  # type: ignore[arg-type]
    if gone and new and min(gone.a_us, new.b_us) >= TRIFLE * change:
        return f"{gone.kernel_short} → {new.kernel_short}"
    a, b = (float(rows[f"{side}_count"].sum()) for side in "ab")
    top = _first(rows)
    if top is None:
        return ""
    if top.status != BOTH:
        return f"{top.kernel_short} {top.status}"
    if abs(a - b) > TRIFLE * max(a, b):
        return f"{a:,.4g} → {b:,.4g} launches, mostly {top.kernel_short}"
    return f"{top.kernel_short} {span_us(top.a_us, top.b_us)}"


class ComparedKernel(NamedTuple):
    """A row of `diff_kernels`, as far as it is needed here."""

    kernel_short: str
    status: str
    a_us: float
    b_us: float


def _heaviest(rows: pl.DataFrame, column: str, status: str) -> ComparedKernel | None:
    return _first(rows.filter(pl.col("status") == status).sort(column, "kernel_short", descending=[True, False]))


def _first(rows: pl.DataFrame) -> ComparedKernel | None:
    return next(iter(records(rows.head(1), ComparedKernel)), None)


def span_us(a: float, b: float) -> str:
    """From A's to B's time, in one unit.

    >>> span_us(12779.8, 8761.5), span_us(950, 0), span_us(3.25, 31)
    ('12.78 → 8.76 ms', '0.95 → 0 ms', '3.25 → 31.0 µs')
    """
    unit, factor = ("ms", 1e3) if max(a, b) >= 500 else ("µs", 1.0)
    return f"{_short(a / factor)} → {_short(b / factor)} {unit}"


def _short(value: float) -> str:
    return (
        "0" if value < 0.005 else f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 20 else f"{value:.2f}"
    )

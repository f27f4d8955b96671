"""`diff_ops`: GPU time by op and shapes, matched across versions and GPUs."""

from __future__ import annotations

import polars as pl

from warplens.analyses.diff.columns import COUNTS, TIMES, compare
from warplens.analyses.diff.match import Matching, has_shapes, match_ops, shares_matched
from warplens.analyses.diff.sides import Pair, Side
from warplens.model.table import Column, Table

MOST_KERNELS = 3
OUTER = "outer op and shapes"
ONE_ROW = ("op", "outer op", "kernel", "kernel category")
"""Levels whose rows hold several shapes."""
COLUMNS = (
    Column(
        "op",
        "framework op: the innermost, or the outermost where only that matches; A → B where the names differ",
        "",
        pl.String,
    ),
    Column(
        "input_dims", "shapes of its inputs; A → B where they differ, empty where a row covers several", "", pl.String
    ),
    Column("matched_by", "what A and B have in common; empty for rows without a counterpart", "", pl.String),
    *TIMES,
    *COUNTS,
    Column("kernel_category", "category of most of its GPU time", "", pl.String),
    Column("a_kernels", "the kernels that take most of it in A", "", pl.String),
    Column("b_kernels", "the same in B", "", pl.String),
)


def diff_ops(pair: Pair) -> Table:
    matching = match_ops(pair)
    a, b = (_with_rows(side, rows) for side, rows in zip(pair.sides, _event_rows(matching), strict=True))
    frame = compare(pair, [a, b], ["row"]).join(_labels(matching), on="row", how="left", maintain_order="left")
    frame = frame.join(_kernels(a, "a"), on="row", how="left").join(_kernels(b, "b"), on="row", how="left")
    frame = frame.with_columns(pl.col("a_kernels", "b_kernels").fill_null(""))
    order = ["op", "input_dims", "a_kernels", "b_kernels"]
    sizes = [pl.col("delta_us").abs(), pl.max_horizontal("a_us", "b_us")]
    frame = frame.sort(*sizes, *order, descending=[True, True, *[False] * len(order)])
    return Table.from_frame(
        "diff_ops", "one row per op and shapes, A against B", COLUMNS, frame, *pair.notes, matched_note(pair)
    )


def matched_note(pair: Pair) -> str:
    a, b = shares_matched(pair)
    what = "op and shapes" if has_shapes(pair) else "op (without recorded shapes)"
    return f"{a:.0f} % of A's and {b:.0f} % of B's GPU time is matched by {what}"


def _event_rows(matching: Matching) -> tuple[pl.Series, pl.Series]:
    return matching.a_event_row, matching.b_event_row


def _with_rows(side: Side, rows: pl.Series) -> pl.DataFrame:
    return side.events.select("step", "dur_ns", "kernel_short").with_columns(rows.alias("row"))


def _kernels(events: pl.DataFrame, prefix: str) -> pl.DataFrame:
    """Per row the kernels that take most of its time, most first."""
    name = f"{prefix}_kernels"
    sums = events.group_by("row", "kernel_short").agg(pl.col("dur_ns").sum())
    sums = sums.sort("dur_ns", "kernel_short", descending=[True, False])
    top = sums.group_by("row", maintain_order=True).agg(pl.col("kernel_short").head(MOST_KERNELS).alias(name))
    return top.with_columns(pl.col(name).list.join(" + "))


def _labels(matching: Matching) -> pl.DataFrame:
    """The texts of each row: what A calls it, and → what B calls it where that is another name."""
    a, b = (_side_labels(units) for units in (matching.a, matching.b))
    joined = a.join(b, on="row", how="full", coalesce=True, suffix="_b")
    texts = [_both(name).alias(name) for name in ("op", "input_dims")]
    others = [pl.coalesce(name, f"{name}_b").alias(name) for name in ("matched_by", "kernel_category")]
    return joined.select("row", *texts, *others)


def _both(name: str) -> pl.Expr:
    a, b = pl.col(name), pl.col(f"{name}_b")
    differ = a.is_not_null() & b.is_not_null() & (a != b)
    return pl.when(differ).then(pl.concat_str(a, pl.lit(" → "), b)).otherwise(pl.coalesce(a, b))


def _side_labels(units: pl.DataFrame) -> pl.DataFrame:
    by_outer = pl.col("matched_by") == OUTER
    one_row = pl.col("matched_by").is_in(ONE_ROW)
    shown = units.with_columns(
        pl.when(by_outer | (pl.col("matched_by") == "outer op")).then("outer").otherwise("op").alias("op"),
        pl.when(by_outer).then("outer_dims").when(one_row).then(pl.lit("")).otherwise("input_dims").alias("input_dims"),
    )
    heaviest = shown.sort("dur_ns", "op", "input_dims", descending=[True, False, False])
    return heaviest.group_by("row", maintain_order=True).agg(
        pl.col("op", "input_dims", "matched_by", "kernel_category").first()
    )

"""The columns every comparison has, from one row per event on either side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from warplens.analyses.diff.noise import noise_us
from warplens.analyses.diff.sides import Pair
from warplens.model.diff_rows import BOTH, ONLY_A, ONLY_B
from warplens.model.table import Column

TIMES: Final = (
    Column("a_us", "GPU time in A, per step or of the whole trace (see the note)", "us", pl.Float64),
    Column("b_us", "the same in B", "us", pl.Float64),
    Column("delta_us", "B less A: negative where B is faster", "us", pl.Float64),
    Column("ratio", "B over A; empty where A has none", "", pl.Float64),
    Column(
        "percent_of_change",
        "share of the change of the total; over 100 where parts of opposite sign cancel",
        "%",
        pl.Float64,
    ),
    Column("status", "both, only in A, or only in B", "", pl.String),
    Column(
        "within_noise", "whether the difference is within noise_us; empty where the noise is unknown", "", pl.Boolean
    ),
    Column(
        "noise_us",
        "difference that the variation between the runs' own steps explains (95 %)",
        "us",
        pl.Float64,
    ),
)
COUNTS: Final = (
    Column("a_count", "GPU events in A, per step or in the whole trace", "", pl.Float64),
    Column("b_count", "the same in B", "", pl.Float64),
)


def compare(
    pair: Pair, events: Sequence[pl.DataFrame], keys: Sequence[str], runs: tuple[int, int] | None = None
) -> pl.DataFrame:
    """One row per key: times and counts of both sides, largest difference first.

    `events` are those of A and those of B, one row each: the keys, `step` and `dur_ns`; `runs` are the numbers of steps
    that they are of, where these are not the compared ones.
    """
    a, b = events
    a_runs, b_runs = runs or (pair.a.runs, pair.b.runs)
    joined = _sums(a_runs, a, keys, "a").join(_sums(b_runs, b, keys, "b"), on=list(keys), how="full", coalesce=True)
    numbers = [name for name in joined.columns if name not in keys]
    in_a, in_b = pl.col("a_us").is_not_null(), pl.col("b_us").is_not_null()
    status = pl.when(in_a & in_b).then(pl.lit(BOTH)).when(in_a).then(pl.lit(ONLY_A)).otherwise(pl.lit(ONLY_B))
    frame = joined.with_columns(status.alias("status")).with_columns(pl.col(numbers).fill_null(0.0))
    frame = with_noise(with_delta(frame), a_runs, b_runs)
    total = pl.col("delta_us").sum()
    order = [pl.col("delta_us").abs(), pl.max_horizontal("a_us", "b_us")]
    return frame.with_columns(_share(total)).sort(*order, *keys, descending=[True, True, *[False] * len(keys)])


def _share(total: pl.Expr) -> pl.Expr:
    return pl.when(total != 0).then(100 * pl.col("delta_us") / total).alias("percent_of_change")


def _sums(runs: int, keyed: pl.DataFrame, keys: Sequence[str], prefix: str) -> pl.DataFrame:
    """Per key the mean over a side's steps and its variance; a step without the key counts as 0."""
    mean = pl.col("dur_ns").sum() / runs
    steps = keyed.group_by(*keys, "step").agg(pl.col("dur_ns").sum(), pl.len().alias("count"))
    spread = (pl.col("dur_ns") - mean).pow(2).sum() + (runs - pl.len()) * mean.pow(2)
    return steps.group_by(keys).agg(
        (mean / 1e3).alias(f"{prefix}_us"),
        (spread / max(1, runs - 1) / 1e6).alias(f"{prefix}_var"),
        (pl.col("count").sum() / runs).alias(f"{prefix}_count"),
    )


def with_delta(frame: pl.DataFrame) -> pl.DataFrame:
    ratio = pl.when(pl.col("a_us") > 0).then(pl.col("b_us") / pl.col("a_us"))
    return frame.with_columns((pl.col("b_us") - pl.col("a_us")).alias("delta_us"), ratio.alias("ratio"))


def with_noise(frame: pl.DataFrame, a_runs: int, b_runs: int) -> pl.DataFrame:
    """Adds noise_us and within_noise, from a_var and b_var over so many steps."""
    noise = noise_us(frame["a_var"].to_numpy(), frame["b_var"].to_numpy(), a_runs, b_runs)
    with_noise_us = frame.with_columns(pl.Series("noise_us", noise, dtype=pl.Float64).fill_nan(None))
    return with_noise_us.with_columns((pl.col("delta_us").abs() <= pl.col("noise_us")).alias("within_noise"))

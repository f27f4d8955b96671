"""`serving_phases` and `serving_categories`: prefill against decode."""

from __future__ import annotations

from typing import Final

import polars as pl

from warplens.analyses.graph.clock import clock
from warplens.analyses.serving.iterations import served
from warplens.analyses.serving.notes import notes
from warplens.analyses.serving.rates import peaks
from warplens.analyses.serving.tables import GROUPS, OTHER, iteration_rows, own_events, rate_columns
from warplens.analyses.workspace import Workspace
from warplens.model.iteration_marks import PHASES
from warplens.model.table import Column, Table

ALL: Final = "all"
PHASE_COLUMNS: Final = (
    Column("phase", "prefill, decode, mixed (both in one iteration), or all of several", "", pl.String),
    Column("iterations", "iterations (forward passes)", "", pl.Int64),
    Column("steady_iterations", "of those, in steady state", "", pl.Int64),
    Column("requests", "mean requests per iteration, in steady state where there is one", "", pl.Float64),
    Column("prefill_tokens", "tokens of prompts", "", pl.Int64),
    Column("decode_tokens", "tokens of requests that generate", "", pl.Int64),
    Column("time_ms", "time of all its iterations", "ms", pl.Float64),
    Column("percent", "share of the time of all iterations", "%", pl.Float64),
    Column("median_ms", "median time of an iteration", "ms", pl.Float64),
    Column("gap_ms", "time before the first GPU event of its iterations", "ms", pl.Float64),
    Column("busy_percent", "share of the time in which the GPU is busy", "%", pl.Float64),
    Column(
        "tokens_per_s", "prompt and generated tokens per second, in steady state where there is one", "1/s", pl.Float64
    ),
    Column("generated_per_s", "of those, generated tokens", "1/s", pl.Float64),
    Column("mfu_percent", "known operations over what the GPU could do in that time", "%", pl.Float64),
    Column("mbu_percent", "known bytes over what the memory could move in that time", "%", pl.Float64),
    Column("costed_percent", "share of the GPU time whose operations and bytes are known", "%", pl.Float64),
    Column("plain_median_ms", "median_ms without the profiler, simulated; empty where not known", "ms", pl.Float64),
    Column(
        "plain_tokens_per_s", "tokens_per_s without the profiler, simulated; empty where not known", "1/s", pl.Float64
    ),
    Column("plain_generated_per_s", "of those, generated tokens", "1/s", pl.Float64),
    Column("low_tokens_per_s", "the least that plain_tokens_per_s is expected to be", "1/s", pl.Float64),
    Column("high_tokens_per_s", "the most", "1/s", pl.Float64),
    Column("kernel_ms", "sum of the durations of its GPU events", "ms", pl.Float64),
    Column("gemm_ms", "of that, matrix products", "ms", pl.Float64),
    Column("attention_ms", "of that, attention", "ms", pl.Float64),
    Column("moe_ms", "of that, routing and experts", "ms", pl.Float64),
    Column("communication_ms", "of that, collectives", "ms", pl.Float64),
    Column("quantization_ms", "of that, changing number formats", "ms", pl.Float64),
    Column("other_ms", "of that, everything else", "ms", pl.Float64),
)
CATEGORY_COLUMNS: Final = (
    Column("phase", "prefill, decode, or mixed: both in one iteration", "", pl.String),
    Column("kernel_category", "kind of GPU work", "", pl.String),
    Column("count", "GPU events", "", pl.Int64),
    Column("total_us", "sum of their durations", "us", pl.Float64),
    Column("percent", "share of the phase's GPU time", "%", pl.Float64),
    Column("us_per_iteration", "the same per iteration", "us", pl.Float64),
)
TABLES: Final = {
    "serving_phases": ("one row per phase of serving, and one of all", PHASE_COLUMNS),
    "serving_categories": ("one row per phase of serving and kernel category", CATEGORY_COLUMNS),
}
SUMMED: Final = ("prefill_tokens", "decode_tokens", "generated_tokens", "time_ms", "gap_ms", "busy_ms", "kernel_ms",
                 "costed_ms", "flop", "bytes", "plain_ms", *GROUPS, OTHER)  # fmt: skip


def serving_phases(work: Workspace) -> Table:
    rows, limits = iteration_rows(work), peaks(work)
    if rows["phase"].n_unique() > 1:
        rows = pl.concat([rows, rows.with_columns(pl.lit(ALL).alias("phase"))])
    everything = _summed(rows)
    # Where a phase has iterations in steady state, its rates are theirs.
    in_steady = pl.col("steady") | ~pl.col("steady").any().over("phase")
    generated, plain_generated = (
        pl.when(pl.col(name) > 0).then(1e3 * pl.col("generated_tokens") / pl.col(name))
        for name in ("time_ms", "plain_ms")
    )
    plain = pl.when(pl.col("plain_ms") > 0).then(pl.col("tokens_per_s") * pl.col("time_ms") / pl.col("plain_ms"))
    rates = _summed(rows.filter(in_steady)).with_columns(
        *rate_columns(limits.flops, limits.bytes_per_s), generated.alias("generated_per_s")
    )
    rates = rates.with_columns(plain.alias("plain_tokens_per_s"), plain_generated.alias("plain_generated_per_s"))
    rates = rates.with_columns(
        (pl.col("plain_tokens_per_s") * ratio).alias(name) for name, ratio in _rate_range(work).items()
    )
    shown = ("phase", "requests", "tokens_per_s", "generated_per_s", "mfu_percent", "mbu_percent", "costed_percent",
             "plain_tokens_per_s", "plain_generated_per_s", "low_tokens_per_s", "high_tokens_per_s")  # fmt: skip
    busy = pl.when(pl.col("time_ms") > 0).then(100 * pl.col("busy_ms") / pl.col("time_ms")).otherwise(0.0)
    frame = everything.drop("requests").join(rates.select(shown), on="phase", how="left")
    frame = frame.with_columns(busy.alias("busy_percent"))
    whole = float(iteration_rows(work)["time_ms"].sum())
    frame = frame.with_columns(
        (pl.col("time_ms") * (100 / whole if whole else 0.0)).alias("percent"),
        pl.col("phase").replace_strict({phase: place for place, phase in enumerate((*PHASES, ALL))}).alias("place"),
    ).sort("place")
    return Table.from_frame("serving_phases", *TABLES["serving_phases"], frame, *notes(work))


def _rate_range(work: Workspace) -> dict[str, float]:
    """The least and the most of a rate over the expected one: iterations are slower and faster as the step is."""
    own = clock(work)
    if own is None:
        return {"low_tokens_per_s": 1.0, "high_tokens_per_s": 1.0}
    return {"low_tokens_per_s": own.step_ms / own.high_ms, "high_tokens_per_s": own.step_ms / own.low_ms}


def _summed(rows: pl.DataFrame) -> pl.DataFrame:
    def total(name: str) -> pl.Expr:
        is_whole = pl.col(name).null_count() == 0
        return pl.when(is_whole).then(pl.col(name).sum()).alias(name)

    return rows.group_by("phase").agg(
        pl.len().cast(pl.Int64).alias("iterations"),
        pl.col("steady").sum().cast(pl.Int64).alias("steady_iterations"),
        pl.col("requests").mean(),
        pl.col("time_ms").median().alias("median_ms"),
        pl.col("plain_ms").median().alias("plain_median_ms"),
        *map(total, SUMMED),
    )


def serving_categories(work: Workspace) -> Table:
    found = served(work)
    assert found is not None
    counts = {place: len(found.rows_of_phase(phase)) for place, phase in enumerate(PHASES)}
    total = pl.col("dur_ns").sum() / 1e3
    frame = (
        own_events(work)
        .group_by("phase", "kernel_category")
        .agg(pl.len().cast(pl.Int64).alias("count"), total.alias("total_us"))
        .with_columns(
            (100 * pl.col("total_us") / pl.col("total_us").sum().over("phase")).fill_nan(0.0).alias("percent"),
            (pl.col("total_us") / pl.col("phase").replace_strict(counts)).alias("us_per_iteration"),
            pl.col("phase").alias("place"),
        )
        .sort("place", "total_us", "kernel_category", descending=[False, True, False])
        .with_columns(pl.col("place").replace_strict(dict(enumerate(PHASES)), return_dtype=pl.String).alias("phase"))
    )
    return Table.from_frame("serving_categories", *TABLES["serving_categories"], frame, *notes(work))

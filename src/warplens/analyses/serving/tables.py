"""`iterations`: one row per forward pass."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.serving.iterations import served, windows
from warplens.analyses.serving.notes import notes
from warplens.analyses.serving.plain_times import plain_times
from warplens.analyses.serving.rates import iteration_work, peaks
from warplens.analyses.serving.shares import (
    exposed_communication_ns,
    graph_batches,
    padding_percent,
    sampling_ns,
)
from warplens.analyses.serving.steady import steady_state
from warplens.analyses.shared import shared
from warplens.analyses.workspace import COMMUNICATION, Workspace
from warplens.model.iteration_marks import PHASES, IterationMark
from warplens.model.kinds import CODE
from warplens.model.table import Column, Table

GROUPS: Final = {
    # column: kernel categories whose time it has
    "gemm_ms": ("GEMM",),
    "attention_ms": ("Flash Attention Forward", "Attention (other)"),
    "moe_ms": ("MoE",),
    "communication_ms": (COMMUNICATION,),
    "quantization_ms": ("Quantization",),
}
OTHER: Final = "other_ms"
COLUMNS: Final = (
    Column("iteration", "number of the forward pass, from 0", "", pl.Int64),
    Column("engine", "who marked it; empty where it is inferred", "", pl.String),
    Column("phase", "prefill, decode, or mixed: both in one pass", "", pl.String),
    Column("source", "mark of the engine, annotation of the program, or inferred", "", pl.String),
    Column("requests", "requests in the pass", "", pl.Int64),
    Column("prefill_tokens", "tokens of prompts", "", pl.Int64),
    Column("decode_tokens", "tokens of requests that generate: one each, more with speculation", "", pl.Int64),
    Column("graph_batch", "size that the replayed graph was captured for, where it is known", "", pl.Int64),
    Column("padding_percent", "share of that size without a request", "%", pl.Float64),
    Column("start_ms", "start on the host, since the trace's start", "ms", pl.Float64),
    Column("host_ms", "length on the host, up to the end of the mark", "ms", pl.Float64),
    Column("time_ms", "from the end of the previous iteration's GPU work to the end of its own", "ms", pl.Float64),
    Column("gap_ms", "of that, before its first GPU event", "ms", pl.Float64),
    Column("busy_ms", "of that, GPU busy", "ms", pl.Float64),
    Column("busy_percent", "busy share of time_ms", "%", pl.Float64),
    Column(
        "gpu_start_ms", "start of its first GPU event that no work from before the recording holds up", "ms", pl.Float64
    ),
    Column("count", "GPU events that it launched", "", pl.Int64),
    Column("kernel_ms", "sum of their durations", "ms", pl.Float64),
    Column("gemm_ms", "of that, matrix products", "ms", pl.Float64),
    Column("attention_ms", "of that, attention", "ms", pl.Float64),
    Column("moe_ms", "of that, routing and experts", "ms", pl.Float64),
    Column("communication_ms", "of that, collectives", "ms", pl.Float64),
    Column("quantization_ms", "of that, changing number formats", "ms", pl.Float64),
    Column(OTHER, "of that, everything else", "ms", pl.Float64),
    Column("sampling_ms", "logits and choosing tokens, a part of the groups above", "ms", pl.Float64),
    Column("exposed_communication_ms", "of time_ms, collectives while nothing computes", "ms", pl.Float64),
    Column("tokens_per_s", "prompt tokens and generated tokens per second of time_ms", "1/s", pl.Float64),
    Column("mfu_percent", "known operations over what the GPU could do in time_ms", "%", pl.Float64),
    Column("mbu_percent", "known bytes over what the memory could move in time_ms", "%", pl.Float64),
    Column("costed_percent", "share of kernel_ms whose operations and bytes are known", "%", pl.Float64),
    Column("kv_cache_bytes", "keys and values that attention reads, where its sizes are known", "bytes", pl.Int64),
    Column("plain_ms", "time_ms without the profiler, simulated; empty where not known or the same", "ms", pl.Float64),
    Column("steady", "in steady state, which rates are taken from", "", pl.Boolean),
    Column("name", "name of the mark", "", pl.String),
)
TABLES: Final = {"iterations": ("one row per forward pass", COLUMNS)}


def iterations(work: Workspace) -> Table:
    return Table.from_frame("iterations", *TABLES["iterations"], iteration_rows(work), *notes(work))


@shared
def iteration_rows(work: Workspace) -> pl.DataFrame:
    """The columns of the table, and `generated_tokens`."""
    found, times, sums, limits = served(work), windows(work), iteration_work(work), peaks(work)
    assert found is not None
    marks = [span.mark for span in found.spans]
    frame = pl.DataFrame(
        {
            "iteration": np.arange(len(marks), dtype=np.int64),
            "engine": [mark.engine for mark in marks],
            "phase": [mark.phase for mark in marks],
            "requests": pl.Series([_requests(mark) for mark in marks], dtype=pl.Int64),
            "prefill_tokens": pl.Series([mark.context.query_tokens for mark in marks], dtype=pl.Int64),
            "decode_tokens": pl.Series([_decode_tokens(mark) for mark in marks], dtype=pl.Int64),
            "generated_tokens": pl.Series([mark.generation.requests for mark in marks], dtype=pl.Int64),
            "graph_batch": pl.Series(graph_batches(work), dtype=pl.Int64),
            "padding_percent": pl.Series(padding_percent(work), dtype=pl.Float64),
            "start_ms": np.array([span.start_ns for span in found.spans]) / 1e6,
            "host_ms": np.array([span.end_ns - span.start_ns for span in found.spans]) / 1e6,
            "time_ms": times.time_ns / 1e6,
            "gap_ms": times.gap_ns / 1e6,
            "busy_ms": times.busy_ns / 1e6,
            "gpu_start_ms": pl.Series((times.start_ns + times.gap_ns) / 1e6),
            "kernel_ms": sums.kernel_ns / 1e6,
            "sampling_ms": sampling_ns(work) / 1e6,
            "exposed_communication_ms": exposed_communication_ns(work) / 1e6,
            "flop": sums.flop,
            "bytes": sums.bytes,
            "costed_ms": sums.costed_ns / 1e6,
            "kv_cache_bytes": sums.cache_bytes.astype(np.int64),
            "plain_ms": _plain_ms(work),
            "steady": steady_state(work).chosen,
            "name": [span.name for span in found.spans],
        }
    ).with_columns(pl.lit(found.source).alias("source"), pl.Series("has_gpu", times.has_gpu))
    frame = frame.join(_grouped(work), on="iteration", how="left", maintain_order="left")
    return frame.with_columns(
        *rate_columns(limits.flops, limits.bytes_per_s),
        pl.when(pl.col("kv_cache_bytes") > 0).then("kv_cache_bytes"),
        pl.when("has_gpu").then("gpu_start_ms"),
        pl.col("count").fill_null(0),
        *(pl.col(name).fill_null(0.0) for name in (*GROUPS, OTHER)),
    )


def _plain_ms(work: Workspace) -> pl.Series:
    plain = plain_times(work)
    if plain is None:
        return pl.repeat(None, len(windows(work).time_ns), dtype=pl.Float64, eager=True)
    return plain.time_ms


def rate_columns(peak_flops: float, peak_bytes: float) -> list[pl.Expr]:
    """Shares and rates of rows with their sums; null where what they are made of is not known."""
    seconds = pl.col("time_ms") / 1e3
    timed, costed = pl.col("time_ms") > 0, pl.col("costed_ms") > 0
    tokens = pl.sum_horizontal("prefill_tokens", "generated_tokens")
    known = pl.col("prefill_tokens").is_not_null() & pl.col("generated_tokens").is_not_null()
    return [
        pl.when(timed).then(100 * pl.col("busy_ms") / pl.col("time_ms")).otherwise(0.0).alias("busy_percent"),
        pl.when(timed & known).then(tokens / seconds).alias("tokens_per_s"),
        _share(timed & costed, pl.col("flop"), seconds, peak_flops).alias("mfu_percent"),
        _share(timed & costed, pl.col("bytes"), seconds, peak_bytes).alias("mbu_percent"),
        pl.when(pl.col("kernel_ms") > 0)
        .then(100 * pl.col("costed_ms") / pl.col("kernel_ms"))
        .otherwise(0.0)
        .alias("costed_percent"),
    ]


def _share(is_known: pl.Expr, amount: pl.Expr, seconds: pl.Expr, peak: float) -> pl.Expr:
    return pl.when(is_known).then(100 * amount / (seconds * peak)) if peak else pl.lit(None, dtype=pl.Float64)


def _requests(mark: IterationMark) -> int | None:
    counts = [group.requests for group in (mark.context, mark.generation) if group.requests is not None]
    return sum(counts) if counts and None not in (mark.context.requests, mark.generation.requests) else None


def _decode_tokens(mark: IterationMark) -> int | None:
    """Where a mark counts requests only, each generates one token."""
    tokens = mark.generation.query_tokens
    return mark.generation.requests if tokens is None else tokens


@shared
def own_events(work: Workspace) -> pl.DataFrame:
    """GPU events of iterations: number, phase, category, duration."""
    found = served(work)
    assert found is not None
    phases = np.array([PHASES.index(span.mark.phase) for span in found.spans])
    own = found.event_iteration
    frame = work.gpu.select("kernel_category", "dur_ns", "kind").with_columns(
        pl.Series("iteration", own), pl.Series("phase", phases[np.maximum(own, 0)])
    )
    return frame.filter(pl.col("iteration") >= 0)


def _grouped(work: Workspace) -> pl.DataFrame:
    """GPU time of each iteration by group of categories."""
    group_of = {category: column for column, categories in GROUPS.items() for category in categories}
    column = pl.col("kernel_category").replace_strict(group_of, default=OTHER)
    is_kernel = pl.col("kind") == CODE["kernel"]
    events = own_events(work).with_columns(pl.when(is_kernel).then(column).otherwise(pl.lit(OTHER)).alias("group"))
    sums = [(pl.col("dur_ns").filter(pl.col("group") == name).sum() / 1e6).alias(name) for name in (*GROUPS, OTHER)]
    return events.group_by("iteration").agg(pl.len().cast(pl.Int64).alias("count"), *sums)

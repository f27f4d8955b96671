"""Rules on served models: what keeps tokens from coming sooner. They read the tables of iterations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from warplens.advice.figures import TraceFigures
from warplens.advice.thresholds import THRESHOLDS
from warplens.advice.wording import WORDS
from warplens.model.edits import RemoveHostTime
from warplens.model.finding import Evidence, Finding
from warplens.model.targets import RowsTarget, RowTarget
from warplens_run.base.units import format_ms, plural

TABLE: Final = "iterations"
LATENCY: Final = "token_latency"
MOST_EVIDENCE: Final = 5
DECODES: Final = pl.col("phase") == "decode"
PROMPT_PARTS: Final = ("prefill in between", "prefill in the same pass")


def _advice(figures: TraceFigures, code: str, passes: pl.DataFrame) -> str:
    """What to do in the engine's own words, where its marks say which it is."""
    engines = passes["engine"].unique().to_list()
    topic = f"{code} {engines[0]}" if len(engines) == 1 and f"{code} {engines[0]}" in WORDS else code
    return figures.advice(topic)


def _per_step(figures: TraceFigures, total_ms: float) -> float:
    """A sum over all iterations as time per step, or of the whole trace without steps."""
    return total_ms / figures.steps if figures.has_steps else total_ms


def _evidence(figures: TraceFigures, passes: pl.DataFrame, column: str, noun: str) -> list[Evidence]:
    """The iterations with most of a time."""
    top = passes.sort(column, "iteration", descending=[True, False]).head(MOST_EVIDENCE)
    return [
        Evidence(
            f"iteration {row['iteration']}",
            detail=f"{row['phase']}, {noun} {format_ms(row[column])} of {format_ms(row['time_ms'])}",
            count=1,
            time_ms=_per_step(figures, row["time_ms"]),
            gain_ms=_per_step(figures, row[column]),
            place=row["name"],
            targets=(RowTarget(TABLE, row["row"]),),
        )
        for row in top.iter_rows(named=True)
    ]


def _share(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0


def gaps_between_passes(figures: TraceFigures) -> Iterator[Finding]:
    """The GPU waits for the host between two passes; pauses much longer than a pass are a server without requests."""
    passes = figures.passes
    if passes is None or len(passes) < THRESHOLDS.least_passes:
        return
    usual_ms = float(passes["busy_ms"].median() or 0.0)  # type: ignore[arg-type]
    counted = passes.filter((pl.col("gap_ms") > 0) & (pl.col("gap_ms") <= THRESHOLDS.pause_passes * usual_ms))
    gap_ms, whole_ms = float(counted["gap_ms"].sum()), float(passes["time_ms"].sum())
    if _share(gap_ms, whole_ms) < THRESHOLDS.pass_gap_percent:
        return
    rows = _evidence(figures, counted, "gap_ms", "gap")
    ends = [round(1e6 * start) for start in counted["gpu_start_ms"].to_list()]
    lengths = [round(1e6 * gap) for gap in counted["gap_ms"].to_list()]
    yield figures.finding(
        "WL601",
        title="the GPU waits between passes",
        gain_ms=_per_step(figures, gap_ms),
        gpu_gain_ms=0.0,
        bound=True,
        place=rows[0].place or rows[0].what,
        evidence=f"{plural(len(counted), 'gap')} before passes, median {format_ms(float(counted['gap_ms'].median()))}",  # type: ignore[arg-type]
        advice=_advice(figures, "WL601", passes),
        rows=rows,
        edits=(RemoveHostTime(tuple((end - length, end) for end, length in zip(ends, lengths, strict=True))),),
    )


def padded_graphs(figures: TraceFigures) -> Iterator[Finding]:
    """Graphs captured for larger batches than they are replayed with."""
    passes = figures.passes
    if passes is None:
        return
    padded = passes.filter(pl.col("padding_percent") > 0).with_columns(
        (pl.col("padding_percent") / 100 * pl.col("kernel_ms")).alias("padded_ms")
    )
    kernel_ms, lost_ms = float(passes["kernel_ms"].sum()), float(padded["padded_ms"].sum())
    if _share(lost_ms, kernel_ms) < THRESHOLDS.padding_percent:
        return
    sizes = padded.group_by("graph_batch").len().sort("len", "graph_batch", descending=True)["graph_batch"].to_list()
    rows = _evidence(figures, padded, "padded_ms", "padding")
    yield figures.finding(
        "WL602",
        title="graphs of larger batches than asked for are replayed",
        gain_ms=_per_step(figures, lost_ms),
        bound=True,
        place=rows[0].place or rows[0].what,
        evidence=f"{plural(len(padded), 'pass', 'passes')} replay graphs of size {', '.join(map(str, sizes[:4]))} "
        f"with {float(padded['padding_percent'].mean()):.0f} % of it unused",  # type: ignore[arg-type]
        advice=_advice(figures, "WL602", passes),
        rows=rows,
    )


def prefill_blocks_decode(figures: TraceFigures) -> Iterator[Finding]:
    """Requests that generate wait for the prompts of others."""
    passes, latency = figures.passes, figures.tables.get(LATENCY)
    if passes is None or latency is None or not len(latency):
        return
    parts = {row["part"]: row for row in latency.frame.iter_rows(named=True)}
    waits = [parts[name] for name in PROMPT_PARTS if name in parts]
    percent = sum(row["percent"] for row in waits)
    interval = parts["interval"]
    if percent < THRESHOLDS.blocking_percent or interval["p99_ms"] < THRESHOLDS.slow_token_ratio * interval["p50_ms"]:
        return
    prompts = passes.filter(pl.col("prefill_tokens").fill_null(0) > 0)
    if not len(prompts):
        prompts = passes.filter(~DECODES)
    blocked_ms = percent / 100 * interval["mean_ms"] * len(passes.filter(pl.col("phase") != "prefill"))
    rows = _evidence(figures, prompts, "busy_ms", "GPU time")
    yield figures.finding(
        "WL603",
        title="tokens wait for prompts of other requests",
        gain_ms=_per_step(figures, min(blocked_ms, float(prompts["time_ms"].sum()))),
        gpu_gain_ms=0.0,
        bound=True,
        place=rows[0].place or rows[0].what,
        evidence=f"time between tokens: median {format_ms(interval['p50_ms'])}, p99 {format_ms(interval['p99_ms'])}",
        advice=_advice(figures, "WL603", passes),
        rows=rows,
        targets=(RowsTarget("slow_iterations", "cause", waits[0]["part"]), *rows[0].targets),
    )


def slow_decode_attention(figures: TraceFigures) -> Iterator[Finding]:
    """Attention over the cache reads keys and values far below the memory's bandwidth."""
    passes = figures.passes
    bandwidth = figures.reachable_tbps
    if passes is None or not bandwidth:
        return
    decoding = passes.filter(DECODES & pl.col("kv_cache_bytes").is_not_null() & (pl.col("attention_ms") > 0))
    attention_ms, kernel_ms = float(decoding["attention_ms"].sum()), float(decoding["kernel_ms"].sum())
    if _share(attention_ms, kernel_ms) < THRESHOLDS.attention_percent:
        return
    tbps = float(decoding["kv_cache_bytes"].sum()) / attention_ms / 1e9
    reached = _share(tbps, bandwidth)
    if reached >= THRESHOLDS.slow_cache_percent:
        return
    lost = decoding.with_columns((pl.col("attention_ms") * (1 - reached / 100)).alias("lost_ms"))
    rows = _evidence(figures, lost, "lost_ms", "attention above the bandwidth's limit")
    yield figures.finding(
        "WL604",
        title=f"attention of decode reads its cache at {tbps:.2f} TB/s",
        gain_ms=_per_step(figures, float(lost["lost_ms"].sum())),
        bound=True,
        place=rows[0].place or rows[0].what,
        evidence=f"{reached:.0f} % of what the memory reaches, "
        f"{_share(attention_ms, kernel_ms):.0f} % of the GPU time of decode",
        advice=_advice(figures, "WL604", passes),
        rows=rows,
    )


def _decode_share(
    figures: TraceFigures, code: str, column: str, least_percent: float, title: str, noun: str, whole: str = "kernel_ms"
) -> Iterator[Finding]:
    """A part of the GPU time of decode that is larger than usual."""
    passes = figures.passes
    if passes is None:
        return
    decoding = passes.filter(DECODES)
    part_ms, whole_ms = float(decoding[column].sum()), float(decoding[whole].sum())
    if _share(part_ms, whole_ms) < least_percent:
        return
    rows = _evidence(figures, decoding, column, noun)
    yield figures.finding(
        code,
        title=title,
        gain_ms=_per_step(figures, part_ms),
        bound=True,
        place=rows[0].place or rows[0].what,
        evidence=f"{format_ms(part_ms)} of {format_ms(whole_ms)} in {plural(len(decoding), 'pass', 'passes')}",
        advice=_advice(figures, code, passes),
        rows=rows,
    )


def choosing_tokens(figures: TraceFigures) -> Iterator[Finding]:
    title = "logits and choosing tokens take long in decode"
    yield from _decode_share(figures, "WL605", "sampling_ms", THRESHOLDS.sampling_percent, title, "sampling")


def collectives_in_decode(figures: TraceFigures) -> Iterator[Finding]:
    title = "collectives are exposed in decode"
    yield from _decode_share(
        figures, "WL606", "exposed_communication_ms", THRESHOLDS.decode_communication_percent, title, "collectives",
        "time_ms",
    )  # fmt: skip


def quantising_in_decode(figures: TraceFigures) -> Iterator[Finding]:
    title = "changing number formats takes long in decode"
    yield from _decode_share(
        figures, "WL607", "quantization_ms", THRESHOLDS.quantization_percent, title, "quantisation"
    )

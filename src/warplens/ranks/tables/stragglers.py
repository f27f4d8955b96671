"""`stragglers`: who is slower than its peers, and what that costs the job."""

from __future__ import annotations

import polars as pl

from warplens.model.finding import SPREAD
from warplens.model.table import Column, Table
from warplens.ranks.job_step import gain_range, job_clock
from warplens.ranks.own_pace import JobModel
from warplens.ranks.slow.records import CAUSES, EXPLAINS, Straggler
from warplens.ranks.straggling import stragglers
from warplens_run.base.units import format_short_ms, ranges

COLUMNS = (
    Column("rank", "the rank; of several that are slow alike, the first", "", pl.Int64),
    Column("group", "all ranks that it is about, and the stage of the pipeline", "", pl.String),
    Column("since_step", "first step in which it is slow", "", pl.Int64),
    Column("cause", f"{', '.join(CAUSES)} (no cause explains {EXPLAINS:.0%})", "", pl.String),
    Column("excess_ms", "what it takes longer than its peers, per step since then", "ms", pl.Float64),
    Column("gain_ms", "what the job's step would win without that, simulated, per step since then", "ms", pl.Float64),
    Column("gain_low_ms", "the least that it is expected to win; 0 where that is not certain", "ms", pl.Float64),
    Column("gain_high_ms", "the most", "ms", pl.Float64),
    Column(
        "lost_ms", "what all other ranks are expected to lose per step: gain_ms times their number", "ms", pl.Float64
    ),
    Column("explained_percent", "share of excess_ms that the cause explains", "%", pl.Float64),
    Column("place", "what takes longer there than elsewhere: op, Python line or host event", "", pl.String),
    Column(
        "confidence",
        "high, or low: one step only, an unclear cause, several ranks on a slow link, or a hot expert",
        "",
        pl.String,
    ),
    Column("note", "what else is known of it, such as how many times as long its GPU computes", "", pl.String),
)


def stragglers_table(model: JobModel) -> Table:
    clock = job_clock(model)
    rows = [_row(model, straggler, clock.step_ms) for straggler in stragglers(model)] if clock else []
    meaning = "one row per rank that is slower than its peers"
    return Table.from_rows("stragglers", meaning, COLUMNS, rows, *_notes(model, rows))


def _row(model: JobModel, straggler: Straggler, step_ms: float) -> tuple[object, ...]:
    numbers = [model.job.ranks[position] for position in straggler.positions]
    others = len(model.job.ranks) - len(numbers)
    group = f"ranks {ranges(numbers)}" if len(numbers) > 1 else f"rank {numbers[0]}"
    stage = f" ({straggler.what})" if straggler.what.startswith("stage") else ""
    ends = [format_short_ms(share * straggler.later_ms, straggler.later_ms) for share in (1 - SPREAD, 1 + SPREAD)]
    later = f"{' to '.join(ends)} a step once those above are fixed" if straggler.later_ms else ""
    note = "; ".join(text for text in ("" if stage else straggler.what, later) if text)
    gain = gain_range(straggler.gain_ms, step_ms, straggler.confidence == "high")
    return (
        numbers[0], group + stage, straggler.since, straggler.cause, straggler.excess_ms, straggler.gain_ms, *gain,
        straggler.gain_ms * others, 100 * straggler.explained, straggler.place, straggler.confidence, note,
    )  # fmt: skip


def _notes(model: JobModel, rows: list[tuple[object, ...]]) -> tuple[str, ...]:
    if not model.is_known:
        return ("needs steps that all ranks recorded, with the launches of their kernels",)
    return () if rows else ("no rank takes longer than its peers by more than they differ anyway",)

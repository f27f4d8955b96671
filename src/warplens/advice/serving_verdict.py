"""A served model in a sentence: what each phase does and how fast, on the clock of the Answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from warplens.model.clock import MEASURED, RECORDED, WIDE, Clock
from warplens.model.table import Table
from warplens_run.base.units import format_ms, format_short_ms

ALL: Final = "all"
NAMED_PERCENT: Final = 10.0
"""Of the time of all iterations: a phase that takes less is in the table only."""


class PhaseRow(msgspec.Struct, frozen=True):
    """A row of `serving_phases`."""

    phase: str
    requests: float | None
    time_ms: float
    percent: float
    median_ms: float
    plain_median_ms: float | None
    tokens_per_s: float | None
    plain_tokens_per_s: float | None
    low_tokens_per_s: float | None
    high_tokens_per_s: float | None


def serving_sentence(tables: Mapping[str, Table], clock: Clock | None) -> str:
    """`Decode of 32 requests: 3,891 tokens/s; prefill: … (recorded).`; empty where nothing is served."""
    table = tables.get("serving_phases")
    if table is None:
        return ""
    rows = [row for row in table.records(PhaseRow) if row.phase != ALL and row.percent >= NAMED_PERCENT]
    rows.sort(key=lambda row: -row.time_ms)
    text = "; ".join(f"{row.phase}{_requests(row)}: {_speed(row, clock)}" for row in rows)
    is_unprofiled = clock is not None and any(row.plain_median_ms is not None for row in rows)
    sure = clock.known if clock is not None and is_unprofiled else f"{MEASURED}, as {RECORDED}"
    return f"{text[0].upper()}{text[1:]} ({sure})." if text else ""


def _requests(row: PhaseRow) -> str:
    if row.requests is None:
        return ""
    return f" of {_number(row.requests)} request{'' if row.requests == 1 else 's'}"


def _speed(row: PhaseRow, clock: Clock | None) -> str:
    """The rate without the profiler where that is another one, between what; where it is wide, only that."""
    if row.tokens_per_s is None:
        plain_ms = row.plain_median_ms
        if plain_ms is None or clock is None:
            return f"{format_ms(row.median_ms)} an iteration"
        ends_ms = (plain_ms * ms / clock.step_ms for ms in (clock.low_ms, clock.step_ms, clock.high_ms))
        least, usual, most = (format_short_ms(ms, plain_ms) for ms in ends_ms)
        between = usual if least == most else f"{least.rpartition(' ')[0]} to {most}"
        return f"{between} an iteration"
    rate, low, high = row.plain_tokens_per_s, row.low_tokens_per_s, row.high_tokens_per_s
    if rate is None or low is None or high is None:
        return f"{_number(row.tokens_per_s)} tokens/s"
    if max(rate - low, high - rate) > WIDE * rate:
        return f"{_number(low)} to {_number(high)} tokens/s"
    between = f" ({_number(low)} to {_number(high)})" if low != high else ""
    return f"{_number(rate)} tokens/s{between}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:.1f}"

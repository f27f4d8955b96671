"""A served model in a sentence: what each phase does, how fast, and how well it uses the GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from warplens.model.clock import Clock
from warplens.model.table import Table
from warplens_run.base.units import format_ms

ALL: Final = "all"
LEAST_COSTED_PERCENT: Final = 10.0
"""Of the GPU time; with costs for less, a lower bound of MFU or MBU says nothing."""


class PhaseRow(msgspec.Struct, frozen=True):
    """A row of `serving_phases`."""

    phase: str
    iterations: int
    requests: float | None
    time_ms: float
    median_ms: float
    tokens_per_s: float | None
    mfu_percent: float | None
    mbu_percent: float | None
    costed_percent: float | None
    generated_per_s: float | None
    plain_tokens_per_s: float | None


def serving_sentence(tables: Mapping[str, Table], clock: Clock | None) -> str:
    """`Decode: 32 requests, 1,234 tokens/s, 25.9 ms a pass, MBU 43 %; prefill: …`; empty where nothing is served.

    Rates without the profiler are as sure as the `clock`.
    """
    table = tables.get("serving_phases")
    if table is None:
        return ""
    rows = sorted(table.records(PhaseRow), key=lambda row: -row.time_ms)
    parts = [_phase_text(row, clock) for row in rows if row.phase != ALL]
    alone = {row.generated_per_s for row in rows if row.phase != ALL}
    parts += [
        f"{_number(row.generated_per_s)} tokens/s generated in all"
        for row in rows
        if row.phase == ALL and row.generated_per_s and row.generated_per_s not in alone
    ]
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}, as recorded." if text else ""


def _phase_text(row: PhaseRow, clock: Clock | None) -> str:
    used = {"MFU": row.mfu_percent if row.phase != "decode" else None}
    used |= {"MBU": row.mbu_percent if row.phase != "prefill" else None}
    if (row.costed_percent or 0.0) < LEAST_COSTED_PERCENT:
        used = {}
    parts = [
        f"{_number(row.requests)} request{'' if row.requests == 1 else 's'}" if row.requests is not None else "",
        f"{_number(row.tokens_per_s)} tokens/s{_unprofiled(row, clock)}" if row.tokens_per_s is not None else "",
        f"{format_ms(row.median_ms)} a pass",
        *(f"{name} {_at_least(row)}{share:.1f} %" for name, share in used.items() if share is not None),
    ]
    return f"{row.phase}: {', '.join(part for part in parts if part)}"


def _unprofiled(row: PhaseRow, clock: Clock | None) -> str:
    """The rate without the profiler, of passes that generate: the others' is in the table."""
    if row.plain_tokens_per_s is None or row.phase == "prefill" or clock is None:
        return ""
    return f" ({clock.rate(row.plain_tokens_per_s, _number)} unprofiled)"


def _number(value: float | None) -> str:
    value = value or 0.0
    return f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:.1f}"


def _at_least(row: PhaseRow) -> str:
    """Work without a known cost counts for nothing."""
    return "≥ " if (row.costed_percent or 0.0) < 95 else ""

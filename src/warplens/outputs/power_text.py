"""The line of a summary on power: what a step costs, how near the limit that is, and what lowers the clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from warplens.model.counters import LOWERING, POWER, SM_CLOCK
from warplens.model.table import Table
from warplens_run.base.units import format_joule, plural

LOWERED_PERCENT: Final = 10.0
"""Of the samples: a reason that holds for less of the time is not what the clock is due to."""
FULL_CLOCK_PERCENT: Final = 97.0
PARTS: Final = ("unrecorded steps", "recorded steps", "whole trace")


def power_text(counters: Table | None, energy: Table | None) -> str:
    """Empty where nothing was sampled. Of several GPUs the one with the most power is shown."""
    if counters is None or not len(counters):
        return ""
    rows = counters.frame.filter(pl.col("counter") == POWER).sort("mean", descending=True)
    if not rows.height:
        return ""
    device = rows["device"][0]
    others = rows.height - 1
    shown = f"GPU {device}, the highest of {plural(rows.height, 'GPU')}: " if others else ""
    power = _energy_text(energy, device) or _with_limit(rows["mean"][0], rows["limit"][0])
    return shown + " · ".join([power, *_clock_parts(counters.frame.filter(pl.col("device") == device))])


def _energy_text(energy: Table | None, device: int) -> str:
    if energy is None:
        return ""
    rows = {row["part"]: row for row in energy.frame.filter(pl.col("device") == device).iter_rows(named=True)}
    known = [rows[part] for part in PARTS if part in rows]
    if not known:
        return ""
    first, *others = known
    text = _power(first)
    if others:  # the GPU waits for a host that is being recorded: both are true, of different runs
        text += (
            f" ({others[0]['part'].split()[0]}: {others[0]['power_w']:.0f} W, {format_joule(others[0]['energy_j'])})"
        )
    return text


def _power(row: Mapping[str, Any]) -> str:
    per = "" if row["part"] == "whole trace" else " a step"
    return f"{_with_limit(row['power_w'], row['power_limit_w'])} · {format_joule(row['energy_j'])}{per}"


def _with_limit(watts: float, limit: float | None) -> str:
    return f"{watts:.0f} W" + (f" of {limit:.0f} W" if limit else "")


def _clock_parts(rows: pl.DataFrame) -> list[str]:
    by_name = {row["counter"]: row for row in rows.iter_rows(named=True)}
    clock = by_name.get(SM_CLOCK)
    if clock is None or not clock["limit"]:
        return []
    text = f"SM clock {clock['mean'] / 1e3:.2f} of {clock['limit'] / 1e3:.2f} GHz"
    reasons = [
        f"{words} in {by_name[name]['mean']:.0f}% of the samples"
        for name, words in LOWERING.items()
        if name in by_name and by_name[name]["mean"] >= LOWERED_PERCENT
    ]
    is_lowered = clock["mean"] < FULL_CLOCK_PERCENT / 100 * clock["limit"]
    return [text + (f": {reasons[0]}" if reasons and is_lowered else "")]

"""The verdict on a job: who holds it up, since when, what that costs and why."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from warplens.advice.job_figures import StragglerRow
from warplens.advice.rows import numbered
from warplens.model.records import records
from warplens.model.table import Table
from warplens.ranks.slow.records import BEFORE_FIRST_STEP, UNCLEAR
from warplens_run.base.units import format_ms, format_short_ms, plural


def job_verdict(stragglers: Table, step_ms: Mapping[int, float], ranks: int) -> str:
    """One sentence on the costliest straggler; another on how many more there are."""
    if not step_ms:
        return f"{plural(ranks, 'rank')}; steps that all of them recorded are needed to find who is slow."
    rows = records(numbered(stragglers.frame), StragglerRow)
    if ranks == 1:
        return f"1 rank, {format_ms(median(step_ms.values()))} a step; there is no other to compare it with."
    if not rows:
        return f"{plural(ranks, 'rank')}, {format_ms(median(step_ms.values()))} a step; none holds the others up."
    first, *others = rows
    more = f" {plural(len(others), 'more straggler')}: table stragglers." if others else ""
    if first.gain_ms < 0.001 * median(step_ms.values()):
        return f"{_hidden(first, step_ms)}{more}"
    return f"{_holding(first, step_ms, ranks)}{more}"


def _holding(first: StragglerRow, step_ms: Mapping[int, float], ranks: int) -> str:
    """`Rank 2 holds 3 ranks up since step 7: 103 ms a step, 66 ms without it (66 ms before); cause: host (…).`"""
    several = first.group.startswith("ranks")
    affected = median(length for step, length in step_ms.items() if step >= first.since_step)
    earlier = [length for step, length in step_ms.items() if step < first.since_step]
    # A longer step before is the first of a recording: it takes long for reasons of its own.
    is_faster = bool(earlier) and median(earlier) < affected
    before = f" ({format_short_ms(median(earlier), affected)} before)" if is_faster else ""
    without = format_short_ms(max(0.0, affected - first.gain_ms), affected)
    held = "the others" if several else plural(ranks - 1, "rank")
    since = "" if len(step_ms) == 1 else f" since step {first.since_step}" if earlier else " in every step"
    cost = f"{format_short_ms(affected, affected)} a step, {without} without {'them' if several else 'it'}{before}"
    if first.place == BEFORE_FIRST_STEP:
        return f"{_name(first)} holds {held} up: {first.note}; {cost}; cause: {first.cause}."
    return f"{_name(first)} {'hold' if several else 'holds'} {held} up{since}: {cost}; {_cause(first)}."


def _hidden(first: StragglerRow, step_ms: Mapping[int, float]) -> str:
    step = format_ms(median(step_ms.values()))
    is_alone = not first.group.startswith("ranks")
    return (
        f"{_name(first)} {'takes' if is_alone else 'take'} {format_ms(first.excess_ms)} a step longer than "
        f"{'its' if is_alone else 'their'} peers since step {first.since_step}, which other work hides "
        f"({step} a step); {_cause(first)}."
    )


def _name(straggler: StragglerRow) -> str:
    return f"{straggler.group[0].upper()}{straggler.group[1:]}"


def _cause(straggler: StragglerRow) -> str:
    if straggler.cause == UNCLEAR:
        return f"the cause is unclear{f' (most in {straggler.place})' if straggler.place else ''}"
    return f"cause: {straggler.cause}{f' ({straggler.place})' if straggler.place else ''}"

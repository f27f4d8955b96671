"""The verdict on a job: who delays it, since when, what that costs and why, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Final, NamedTuple

from warplens.advice.job_figures import StragglerRow
from warplens.advice.rows import numbered
from warplens.model.records import records
from warplens.model.table import Table
from warplens.ranks.coverage import Coverage
from warplens.ranks.slow.records import BEFORE_FIRST_STEP, UNCLEAR
from warplens_run.base.units import format_ms, format_short_ms, plural

SIMULATED: Final = "simulated"
ESTIMATED: Final = "estimated, low confidence"
CANNOT_TELL: Final = "cannot tell who waits"
ENOUGH_MATCHED: Final = 0.8
"""Of the communication: where less has a counterpart, most of what ranks wait for may be unseen."""


class Doubt(NamedTuple):
    """Why it cannot be told who waits, and what to record for it."""

    reason: str
    record: str


def job_verdict(stragglers: Table, step_ms: Mapping[int, float], known: Coverage) -> str:
    """One sentence on the costliest straggler, another on how many more there are; or what to record to find one."""
    ranks, doubt = _ranks(known), doubt_of(known)
    if not step_ms:
        assert doubt is not None
        return f"{ranks}: {CANNOT_TELL}: {doubt.reason}. {doubt.record}."
    step = f"{format_ms(median(step_ms.values()))} a step"
    rows = records(numbered(stragglers.frame), StragglerRow)
    if not rows:
        if doubt:
            return f"{ranks}, {step}; {CANNOT_TELL}: {doubt.reason}. {doubt.record}."
        return f"{ranks}, {step}; no rank delays the others ({SIMULATED})."
    first, *others = rows
    more = f" {plural(len(others), 'more straggler')}: table stragglers." if others else ""
    if not known.matched:
        assert doubt is not None
        slow = f"{_longer(first)} than the other ranks ({ESTIMATED}; {_cause(first)})"
        return f"{slow}, {step}; {CANNOT_TELL} for it: {doubt.reason}.{more} {doubt.record}."
    if first.gain_ms < 0.001 * median(step_ms.values()):
        note = f" ({first.note})" if first.note else ""
        slow = f"{_longer(first)} than its peers{note}"
        text = f"{slow}, which is overlapped ({step}, {_certainty(first)}); {_cause(first)}."
    else:
        text = _delaying(first, step_ms, known.ranks)
    unseen = f" {doubt.reason[0].upper()}{doubt.reason[1:]}: others may be slower. {doubt.record}." if doubt else ""
    return f"{text}{more}{unseen}"


NAME_GROUPS: Final = "Record an ExecutionTrace beside each trace, or use a later PyTorch, which names process groups"


def doubt_of(known: Coverage) -> Doubt | None:
    """The first thing that keeps the recordings from showing all waits; None where they do."""
    share = f"{100 * known.matched_share:.0f} %"
    missing = (
        f"{plural(known.missing, 'rank')} of {known.world_size:,} {'is' if known.missing == 1 else 'are'} not here"
    )
    doubts = (
        (not known.has_work, "neither GPU work nor a collective is recorded",
         "Record the CPU and the GPU of each rank; what the host does is in the report of each (--rank N)"),
        (known.ranks == 1, "there is no other rank to compare it with", "Record every rank"),
        (not known.has_launches, "not every rank records what launches its work",
         "Record the CPU beside the GPU on each rank (ProfilerActivity.CPU and CUDA)"),
        (not known.has_steps, "no step was recorded by all ranks",
         "Record the same steps on each rank (schedule and prof.step())"),
        (not known.calls, "no communication is recorded", "Record steps in which ranks communicate, on each rank"),
        (not known.matched, f"no collective of {known.calls:,} could be matched", NAME_GROUPS),
        (known.matched_share < ENOUGH_MATCHED, f"only {share} of the communication could be matched", NAME_GROUPS),
        (not known.has_one_clock, "some ranks share no collective with the others",
         "Record a step in which all ranks communicate"),
        (known.missing > 0, missing, "Record every rank"),
    )  # fmt: skip
    return next((Doubt(reason, record) for holds, reason, record in doubts if holds), None)


def _ranks(known: Coverage) -> str:
    return f"{known.ranks:,} of {known.world_size:,} ranks" if known.missing else plural(known.ranks, "rank")


def _certainty(straggler: StragglerRow) -> str:
    return SIMULATED if straggler.confidence == "high" else ESTIMATED


def _delaying(first: StragglerRow, step_ms: Mapping[int, float], ranks: int) -> str:
    """`Rank 2 delays 3 ranks since step 7: 103 ms a step, 59 to 74 without it (66 ms before), simulated; cause: …`"""
    several = first.group.startswith("ranks")
    affected = median(length for step, length in step_ms.items() if step >= first.since_step)
    earlier = [length for step, length in step_ms.items() if step < first.since_step]
    # A longer step before is the first of a recording: it takes long for reasons of its own.
    is_faster = bool(earlier) and median(earlier) < affected
    before = f" ({format_short_ms(median(earlier), affected)} before)" if is_faster else ""
    least, most = (
        format_short_ms(max(0.0, affected - gain_ms), affected) for gain_ms in (first.gain_high_ms, first.gain_low_ms)
    )
    without = most if least == most else f"{least.rpartition(' ')[0]} to {most}"
    others = "the others" if several else plural(ranks - 1, "rank")
    since = "" if len(step_ms) == 1 else f" since step {first.since_step}" if earlier else " in every step"
    all_ranks = first.gain_ms > 0 and not first.lost_ms
    them = "that" if all_ranks else "them" if several else "it"
    cost = f"{format_short_ms(affected, affected)} a step, {without} without {them}{before}"
    delays = f"{_name(first)} {'delay' if several else 'delays'} {others}"
    if all_ranks:
        delays = f"{first.cause.capitalize()}: all {ranks:,} ranks take {format_ms(first.excess_ms)} a step longer"
    if first.place == BEFORE_FIRST_STEP:
        return f"{delays}: {first.note}; {cost}, {_certainty(first)}; cause: {first.cause}."
    return f"{delays}{since}: {cost}, {_certainty(first)}; {_cause(first)}."


def _longer(first: StragglerRow) -> str:
    takes = "take" if first.group.startswith("ranks") else "takes"
    return f"{_name(first)} {takes} {format_ms(first.excess_ms)} a step longer since step {first.since_step}"


def _name(straggler: StragglerRow) -> str:
    return f"{straggler.group[0].upper()}{straggler.group[1:]}"


def _cause(straggler: StragglerRow) -> str:
    if straggler.cause == UNCLEAR:
        return f"the cause is unclear{f' (most in {straggler.place})' if straggler.place else ''}"
    return f"cause: {straggler.cause}{f' ({straggler.place})' if straggler.place else ''}"

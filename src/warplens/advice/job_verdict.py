"""The verdict on a job: who delays it, since when, what that costs and why, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Final, NamedTuple

from warplens.advice.job_figures import StragglerRow
from warplens.advice.rows import numbered
from warplens.model.answer import CANNOT_TELL, SIMULATED
from warplens.model.clock import ESTIMATED, Clock
from warplens.model.records import records
from warplens.model.table import Table
from warplens.ranks.coverage import Coverage
from warplens.ranks.job_step import HIDDEN_SHARE
from warplens.ranks.slow.records import BEFORE_FIRST_STEP, UNCLEAR
from warplens_run.base.units import format_ms, format_short_ms, plural

LOW_CONFIDENCE: Final = f"{ESTIMATED}, low confidence"
WHO_WAITS: Final = f"{CANNOT_TELL} who waits"
ENOUGH_MATCHED: Final = 0.8
"""Of the communication: where less has a counterpart, most of what ranks wait for may be unseen."""


class Doubt(NamedTuple):
    """Why it cannot be told who waits, and what to record for it."""

    reason: str
    record: str


class JobVerdict(NamedTuple):
    text: str
    certainty: str


def job_verdict(stragglers: Table, step_ms: Mapping[int, float], clock: Clock | None, known: Coverage) -> JobVerdict:
    """The costliest straggler and its cause, what the step would be without it, and how many more there are; or what to
    record to find one. `step_ms` are all recorded steps by number, `clock` is the job's."""
    ranks, doubt = _ranks(known), doubt_of(known)
    if clock is None:
        assert doubt is not None
        return JobVerdict(f"{ranks}: {WHO_WAITS}: {doubt.reason}. {doubt.record}.", CANNOT_TELL)
    step = f"{clock.amount} a step"
    rows = records(numbered(stragglers.frame), StragglerRow)
    if not rows:
        if doubt:
            return JobVerdict(f"{ranks}, {step}; {WHO_WAITS}: {doubt.reason}. {doubt.record}.", CANNOT_TELL)
        return JobVerdict(f"{ranks}, {step}; no rank delays the others ({SIMULATED}).", SIMULATED)
    first, *others = rows
    more = f" {plural(len(others), 'more straggler')}: table stragglers." if others else ""
    if not known.matched:
        assert doubt is not None
        slow = f"{_slower(first)} ({LOW_CONFIDENCE}; {_cause(first)})"
        text = f"{slow}; {WHO_WAITS} for it: {doubt.reason}.{more} {doubt.record}."
        return JobVerdict(text, ESTIMATED)
    unseen = f" {doubt.reason[0].upper()}{doubt.reason[1:]}: others may be slower. {doubt.record}." if doubt else ""
    is_sure = first.gain_low_ms > 0
    text = _delaying(first, step_ms, clock, known.ranks) if is_sure else _only_slower(first, step_ms, clock)
    return JobVerdict(f"{text}{more}{unseen}", SIMULATED if first.confidence == "high" else ESTIMATED)


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


def _sure(straggler: StragglerRow) -> str:
    return SIMULATED if straggler.confidence == "high" else LOW_CONFIDENCE


def _only_slower(first: StragglerRow, step_ms: Mapping[int, float], clock: Clock) -> str:
    """What is certain of one that may cost nothing: `Rank 1 is 21.1 ms slower per step since step 7; cause: host. …`"""
    if first.place == BEFORE_FIRST_STEP:
        slow = f"{_name(first)}: {first.note}; cause: {first.cause}"
    else:
        slow = f"{_slower(first)}{f' ({first.note})' if first.note else ''}; {_cause(first)}"
    if first.gain_ms < HIDDEN_SHARE * clock.step_ms:
        return f"{slow}. The delay is hidden by other work ({_sure(first)}). A step takes {clock.amount}."
    least = clock.of_step(max(0.0, clock.step_ms - first.gain_high_ms)).rpartition(" ")[0]
    without = f"without it {least} to {clock.amount} ({_sure(first)}){_before(first, step_ms, clock)}"
    return f"{slow}. It is not certain that this delays the job: a step takes {clock.amount}, {without}."


def _delaying(first: StragglerRow, step_ms: Mapping[int, float], clock: Clock, ranks: int) -> str:
    """`Rank 2 delays 3 ranks since step 7; cause: host. A step takes 103 ms, without it 66 (53 to 79, simulated); …`"""
    several = first.group.startswith("ranks")
    others = "the others" if several else plural(ranks - 1, "rank")
    is_later = any(step < first.since_step for step in step_ms)
    since = "" if len(step_ms) == 1 else f" since step {first.since_step}" if is_later else " in every step"
    all_ranks = not first.lost_ms
    delays = f"{_name(first)} {'delay' if several else 'delays'} {others}"
    if all_ranks:
        delays = f"{first.cause.capitalize()}: all {ranks:,} ranks take {format_ms(first.excess_ms)} a step longer"
    if first.place == BEFORE_FIRST_STEP:
        delays, why = f"{delays}: {first.note}", f"cause: {first.cause}"
    else:
        delays, why = f"{delays}{since}", _cause(first)
    left_ms = [clock.step_ms - gain_ms for gain_ms in (first.gain_ms, first.gain_high_ms, first.gain_low_ms)]
    without, low, high = (clock.of_step(max(0.0, ms)).rpartition(" ")[0] for ms in left_ms)
    them = "that" if all_ranks else "them" if several else "it"
    cost = f"A step takes {clock.amount}, without {them} {without} ({low} to {high}, {_sure(first)})"
    cost += _before(first, step_ms, clock)
    return f"{delays}; {why}. {cost}."


def _before(first: StragglerRow, step_ms: Mapping[int, float], clock: Clock) -> str:
    """`; 60.0 ms before`; a longer step before is the first of a recording: it takes long for reasons of its own."""
    earlier = [length for step, length in step_ms.items() if step < first.since_step]
    is_faster = bool(earlier) and median(earlier) < clock.step_ms
    return f"; {format_short_ms(median(earlier), clock.step_ms)} before" if is_faster else ""


def _slower(first: StragglerRow) -> str:
    """`Rank 1 is 21.1 ms slower per step since step 7`"""
    slower = f"{format_short_ms(first.excess_ms, first.excess_ms)} slower per step since step {first.since_step}"
    return f"{_name(first)} {'are' if first.group.startswith('ranks') else 'is'} {slower}"


def _name(straggler: StragglerRow) -> str:
    return f"{straggler.group[0].upper()}{straggler.group[1:]}"


def _cause(straggler: StragglerRow) -> str:
    if straggler.cause == UNCLEAR:
        return f"the cause is unclear{f' (most in {straggler.place})' if straggler.place else ''}"
    return f"cause: {straggler.cause}{f' ({straggler.place})' if straggler.place else ''}"

"""The verdict: two short sentences on what limits one step and where it goes, as sure as the clock that it is of."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from warplens.advice.limits import COMMUNICATION, GPU, HOST, STREAMS, limits
from warplens.advice.thresholds import COMMUNICATION_BOUND_PERCENT, IDLE_BOUND_PERCENT, LIMIT_PERCENT
from warplens.analyses.graph.bounds import StepBounds
from warplens.analyses.graph.breakdown import (
    AFTER,
    BEFORE,
    BUSY,
    EXPOSED_COMMUNICATION,
    EXPOSED_COPIES,
    IDLE,
)
from warplens.analyses.graph.host_work import NO_NAME
from warplens.categories import OTHER
from warplens.model.answer import CANNOT_TELL, SIMULATED, Part
from warplens.model.clock import ESTIMATED, MEASURED, Clock
from warplens_run.base.units import listed

REMOVING: Final = {
    GPU: "all GPU time",
    HOST: "all host time",
    COMMUNICATION: "all communication",
    STREAMS: "all waits between streams",
}
HOST_SIDE: Final = (BEFORE, IDLE, AFTER)
GPU_SIDE: Final = (BUSY, EXPOSED_COPIES)
SIDES: Final = {GPU: GPU_SIDE, HOST: HOST_SIDE, COMMUNICATION: (EXPOSED_COMMUNICATION,)}
"""The parts of a step that are of what limits it."""
CPU_ONLY: Final = "CPU only: this trace has no GPU work (measured)."
NO_DURATIONS: Final = "Cannot tell: every GPU event of this trace lasts 0 ns."
CAPTURED_SHARE: Final = 0.5
"""A recording that is mostly the capture of graphs is a capture."""
CAPTURED: Final = (
    "A capture of CUDA or HIP graphs, which takes {share:.0f} % of the recording (measured). "
    "Record their replay to see where the time of a step goes."
)
NAMED_SHARE: Final = 0.05
"""Of the step: a smaller cause is not named in the verdict."""

WITHOUT_GPU: Final = {
    "truncated": "Cannot tell: no GPU work in the readable part of this trace.",
    "damaged": "Cannot tell: no GPU work in the readable part of this trace.",
    "regions_only": "Regions inside kernels, warp by warp: the table regions has their times (measured); no GPU time "
    "is recorded.",
    "chrome": "Cannot tell: nothing in this Chrome trace is named after a GPU.",
    "other_accelerator": "No GPU work (measured): this is of another accelerator; only its host side is reported.",
    "counters_only": "Hardware counters of kernels (measured), but no times of GPU work: the table counters has them.",
    "launches_only": "Cannot tell: this trace has only the host side of a program that uses a GPU.",
    "no_cuda": "Cannot tell: this trace has only ranges of the host.",
}
"""The first of these that a trace's notes have."""


CLOSE: Final = "Close: GPU and host"
BOUNDS: Final = {
    CLOSE: "some of the costs of recording that fit make the GPU the limit, and others the host",
    "Balanced": "neither a faster GPU nor a faster host alone shortens the step: both take equally long",
    "Bound by waits between streams": "the step is shorter if streams do not wait for each other",
    "Mostly waiting": "most of the step is waits for work from before the recording",
}
"""What limits a step, where that is not the GPU, the host or communication."""


class Verdict(NamedTuple):
    text: str
    certainty: str
    bound: str = ""
    """What limits the step in a word or two; empty where that is not known."""


def verdict(
    clock: Clock | None,
    parts: Sequence[Part],
    bounds: StepBounds | None,
    saved: Mapping[str, float],
    quality: Collection[str],
    captured: float = 0.0,
    has_events: bool = False,
) -> Verdict:
    """`saved`: what the bounds allow at most; `quality`: the codes of what the trace lacks; `captured`: the share of
    the recording in which graphs are captured; `has_events`: whether there are GPU events, if of no length."""
    if clock is None or not parts:
        return _without_gpu(quality, has_events)
    if captured >= CAPTURED_SHARE:
        return Verdict(CAPTURED.format(share=100 * captured), MEASURED)
    # What is concluded is as sure as its certainty says, of whichever step.
    certainty = ESTIMATED if clock.source == ESTIMATED else SIMULATED if bounds is not None else clock.certainty
    clock = replace(clock, source=certainty)
    if bounds is None:
        return _as_recorded(clock, parts)
    text = _by_bounds(clock, parts, bounds, saved)
    if text.startswith("Cannot tell"):
        return Verdict(text, CANNOT_TELL, CLOSE)
    return Verdict(text, certainty, text.partition(".")[0].partition(":")[0])


def explained_bound(name: str) -> str:
    """What a bound of the Answer means; empty for other words."""
    parts = re.findall("GPU|host|communication", name, re.IGNORECASE)
    if name in BOUNDS:
        return BOUNDS[name]
    if not name.endswith("-bound") or not parts:
        return ""
    of = listed([each if each == "GPU" else each.lower() for each in parts])
    text = f"the step is {LIMIT_PERCENT:g} % shorter or more without the time of the {of}"
    mixed = ", each by itself; the second saves at least a quarter of what the first does"
    return f"{text}{mixed}" if len(parts) > 1 else text


def bound_name(limiting: Sequence[str]) -> str:
    """What limits a step in a word or two: `GPU-bound`."""
    if not limiting:
        return "Balanced"
    if tuple(limiting) == (STREAMS,):
        return "Bound by waits between streams"
    if len(limiting) == 1:
        return f"{limiting[0][0].upper()}{limiting[0][1:]}-bound"
    return f"Mixed, {listed([f'{part}-' for part in limiting[:-1]] + [f'{limiting[-1]}-bound'])}"


def _by_bounds(clock: Clock, parts: Sequence[Part], bounds: StepBounds, saved: Mapping[str, float]) -> str:
    """`Host-bound. Removing all host time would save up to 26.7 ms of 39.6 (31 to 52, estimated).`"""
    earlier_ms = sum(part.time_ms for part in parts if part.cause == "earlier work")
    if 2 * earlier_ms > clock.step_ms:
        return f"Mostly waiting. {_of(clock, earlier_ms)} are waits for work from before the recording."
    limiting = limits(bounds)
    name = bound_name(limiting)
    if not limiting:
        least = max(saved[GPU], saved[HOST])
        if least > LIMIT_PERCENT / 100 * clock.step_ms:
            # Of the costs that fit the known times some make the one the limit, some the other.
            gpu = f"a faster GPU would save up to {clock.of_step(saved[GPU])}"
            host = f"a faster host up to {_at_most(clock, saved[HOST])}"
            return f"Cannot tell whether the GPU or the host is the limit. They are close: {gpu}, {host}."
        return f"{name}. Neither a faster GPU nor a faster host alone would save more than {_at_most(clock, least)}."
    if limiting == (GPU,):
        host = f"removing all host time would save {_amount(clock, saved[HOST])}"
        return f"{name}. {_taking(clock, parts, GPU_SIDE)}; {host}."
    named = _named(clock, parts, SIDES.get(limiting[0], ()))
    return f"{name}{named}. {_removing(clock, limiting, saved)}."


def _removing(clock: Clock, limiting: Sequence[str], saved: Mapping[str, float]) -> str:
    """The first of several with the step."""
    first, *others = limiting
    text = f"Removing {REMOVING[first]} would save up to {_at_most(clock, saved[first])}"
    return text + "".join(f", {REMOVING[part]} up to {clock.of_step(saved[part])}" for part in others)


def _as_recorded(clock: Clock, parts: Sequence[Part]) -> Verdict:
    """The step cannot be simulated: shares are told, and what they are not known to be due to."""
    exposed = sum(part.percent for part in parts if part.part == EXPOSED_COMMUNICATION)
    idle = sum(part.percent for part in parts if part.part in HOST_SIDE)
    if idle >= IDLE_BOUND_PERCENT:
        idle_ms = sum(part.time_ms for part in parts if part.part in HOST_SIDE)
        why = f" {clock.reason[0].upper()}{clock.reason[1:]}." if clock.reason else ""
        return Verdict(f"Cannot tell what limits it: no GPU works in {_of(clock, idle_ms)}.{why}", CANNOT_TELL)
    if exposed >= COMMUNICATION_BOUND_PERCENT:
        return Verdict(f"Communication-bound. {_taking(clock, parts, (EXPOSED_COMMUNICATION,))}.", clock.certainty)
    return Verdict(f"GPU-bound. {_taking(clock, parts, GPU_SIDE)}.", clock.certainty)


def _of(clock: Clock, ms: float) -> str:
    """`26.7 of 39.6 ms a step (31 to 52, estimated)`: a part, the step, and how sure the step is."""
    number, _, unit = clock.of_step(max(0.0, ms)).rpartition(" ")
    a_step = {"run": "of the run"}.get(clock.whole, clock.one)
    if clock.is_wide:
        return f"{number} {unit} of {clock.amount} {a_step} ({clock.source})"
    whole = clock.of_step(clock.step_ms)
    amount = f"{number} of {whole}" if whole.endswith(f" {unit}") else f"{number} {unit} of {whole}"
    return f"{amount} {a_step} ({clock.sure})"


def _at_most(clock: Clock, ms: float) -> str:
    """A bound: of the longest step that fits, so beside the interval and not beside the point."""
    if clock.sure == clock.source:
        return _of(clock, ms)
    unit = clock.of_step(clock.step_ms).rpartition(" ")[2]
    return f"{clock.of_step(max(0.0, ms))} of {clock.one} of {clock.interval} {unit} ({clock.source})"


def _amount(clock: Clock, ms: float) -> str:
    text = clock.of_step(ms)
    return "nothing" if text == clock.of_step(0.0) else f"up to {text}"


def _taking(clock: Clock, parts: Sequence[Part], side: Sequence[str]) -> str:
    """`GEMM takes 21.5 of 66.9 ms a step (measured)`: the first row, then the first of what limits the step."""
    first, *others = _first_rows(parts, side)
    also = "".join(f", {_called(part)} {clock.between(part.low_ms, part.high_ms)}" for part in others)
    takes = "take" if first.cause == OTHER and first.part == BUSY else "takes"
    name = _called(first)
    return f"{name[0].upper()}{name[1:]} {takes} {_of(clock, first.time_ms)}{also}"


def _named(clock: Clock, parts: Sequence[Part], side: Sequence[str]) -> str:
    """`: forward (model.py:12 forward) takes 11.2 ms`; empty where no part is large."""
    rows = [part for part in _first_rows(parts, side) if part.percent >= 100 * NAMED_SHARE]
    if not rows:
        return ""
    first, *others = rows
    also = "".join(f", {_called(part)} {clock.between(part.low_ms, part.high_ms)}" for part in others)
    return f": {_called(first)} takes {clock.between(first.low_ms, first.high_ms)}{also}"


def _first_rows(parts: Sequence[Part], side: Sequence[str]) -> list[Part]:
    """The first row of the table; where that is not of this side, the largest that is as well."""
    largest = sorted(parts, key=lambda part: -part.time_ms)
    own = [part for part in largest if part.part in side]
    return largest[:1] if not own or largest[0].part in side else [largest[0], own[0]]


def _called(part: Part) -> str:
    """A part in the words of the table."""
    if part.part == BUSY:
        return "kernels of no known category" if part.cause == OTHER else part.cause
    if part.part == EXPOSED_COMMUNICATION:
        return EXPOSED_COMMUNICATION
    if part.part == EXPOSED_COPIES:
        return f"exposed {part.cause}"
    if part.cause == f"host: {NO_NAME}":
        return "unrecorded work of the host"
    if part.cause == NO_NAME:
        return "idle time of unrecorded cause"
    cause = part.cause.removeprefix("host: ")
    place = part.place.rpartition("/")[2]
    with_place = f"{cause} ({place})" if place and place.strip("()") not in cause else cause
    return with_place if part.part == IDLE or cause != part.cause else f"{with_place} {part.part}"


def _without_gpu(codes: Collection[str], has_events: bool) -> Verdict:
    """Not the same: a run without a GPU, one whose GPU was not recorded, a file whose rest is lost, and one whose kinds
    are guessed."""
    known = [text for wanted, text in WITHOUT_GPU.items() if wanted in codes]
    text = next(iter(known), NO_DURATIONS if has_events else CPU_ONLY)
    return Verdict(text, CANNOT_TELL if text.startswith("Cannot tell") else MEASURED)

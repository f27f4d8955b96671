"""The verdict: two short sentences on what limits one step and where it goes, as sure as the clock that it is of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
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
NO_DURATIONS: Final = "Cannot tell: every GPU event of this trace lasts 0 ns."
CAPTURED_SHARE: Final = 0.5
"""A recording that is mostly the capture of graphs is a capture."""
CAPTURED: Final = (
    "A capture of CUDA or HIP graphs, which takes {share:.0f} % of the recording. "
    "Record their replay to see where the time of a step goes."
)
NAMED_SHARE: Final = 0.05
"""Of the step: a smaller cause is not named in the verdict."""

WITHOUT_GPU: Final = {
    "truncated": "Cannot tell: no GPU work in the readable part of this trace.",
    "damaged": "Cannot tell: no GPU work in the readable part of this trace.",
    "regions_only": "Regions inside kernels, warp by warp: the table regions has their times; no GPU time is recorded.",
    "chrome": "Cannot tell: nothing in this Chrome trace is named after a GPU.",
    "other_accelerator": "No GPU work: this trace is of another accelerator, and only its host side is reported.",
    "counters_only": "Hardware counters of kernels, but no times of GPU work: the table counters has them by kernel.",
    "launches_only": "Cannot tell: this trace has only the host side of a program that uses a GPU.",
    "no_cuda": "Cannot tell: this trace has only ranges of the host.",
}
"""The first of these that a trace's notes have."""


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
    if clock is None:
        return Verdict(_without_gpu(quality, has_events), CANNOT_TELL)
    if captured >= CAPTURED_SHARE:
        return Verdict(CAPTURED.format(share=100 * captured), MEASURED)
    if bounds is None:
        return _as_recorded(clock, parts)
    text = _by_bounds(clock, parts, bounds, saved)
    if text.startswith("Cannot tell"):
        return Verdict(text, CANNOT_TELL, "Close: GPU and host")
    certainty = ESTIMATED if clock.source == ESTIMATED else SIMULATED
    return Verdict(text, certainty, text.partition(".")[0].partition(":")[0])


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
    if HOST in limiting and GPU not in limiting:
        doing = _largest(parts, lambda part: part.cause.startswith("host: "))
        if doing is not None and doing.percent >= 100 * NAMED_SHARE and NO_NAME not in doing.cause:
            name += f": {_named(doing)} takes {clock.of_step(doing.time_ms)}"
        return f"{name}. Removing all host time would save up to {_at_most(clock, saved[HOST])}."
    if limiting[0] == COMMUNICATION:
        return f"{name}. {_removing(clock, (COMMUNICATION, *limiting[1:]), saved)}."
    if GPU in limiting:
        working = _largest(parts, lambda part: part.part == BUSY)
        others = [part for part in limiting if part != GPU]
        if others or working is None:
            return f"{name}. {_removing(clock, limiting, saved)}."
        host = f"removing all host time would save {_amount(clock, saved[HOST])}"
        return f"{name}. {_taking(working)} {_of(clock, working.time_ms)}; {host}."
    return f"{name}. {_removing(clock, limiting, saved)}."


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
    largest = _largest(parts, lambda part: part.part in (BUSY, EXPOSED_COPIES, EXPOSED_COMMUNICATION))
    if exposed >= COMMUNICATION_BOUND_PERCENT:
        ms = sum(part.time_ms for part in parts if part.part == EXPOSED_COMMUNICATION)
        return Verdict(f"Communication-bound. Exposed communication takes {_of(clock, ms)}.", clock.certainty)
    assert largest is not None
    return Verdict(f"GPU-bound. {_taking(largest)} {_of(clock, largest.time_ms)}.", clock.certainty)


def _of(clock: Clock, ms: float) -> str:
    """`26.7 of 39.6 ms a step (31 to 52, estimated)`: a part, the step, and how sure the step is."""
    number, _, unit = clock.of_step(max(0.0, ms)).rpartition(" ")
    a_step = {"run": "of the run"}.get(clock.whole, f"a {clock.whole}")
    if clock.is_wide:
        return f"{number} {unit} of {clock.amount} {a_step} ({clock.source})"
    whole = clock.of_step(clock.step_ms)
    amount = f"{number} of {whole}" if whole.endswith(f" {unit}") else f"{number} {unit} of {whole}"
    return f"{amount} {a_step} ({clock.sure})"


def _at_most(clock: Clock, ms: float) -> str:
    """A bound: of the longest step that fits, so beside the interval and not beside the point."""
    if clock.sure == clock.source:
        return _of(clock, ms)
    whole = f"a {clock.whole}" if clock.whole != "run" else "a run"
    unit = clock.of_step(clock.step_ms).rpartition(" ")[2]
    return f"{clock.of_step(max(0.0, ms))} of {whole} of {clock.interval} {unit} ({clock.source})"


def _amount(clock: Clock, ms: float) -> str:
    text = clock.of_step(ms)
    return "nothing" if text == clock.of_step(0.0) else f"up to {text}"


def _taking(part: Part) -> str:
    return "Kernels of no known category take" if part.cause == "Other" else f"{part.cause} takes"


def _named(part: Part) -> str:
    """What the host does and where, in the words of the table."""
    cause = part.cause.removeprefix("host: ")
    place = part.place.rpartition("/")[2]
    return f"{cause} ({place})" if place and place.strip("()") not in cause else cause


def _largest(parts: Sequence[Part], holds: Callable[[Part], bool]) -> Part | None:
    return max(filter(holds, parts), key=lambda part: part.time_ms, default=None)


def _without_gpu(codes: Collection[str], has_events: bool) -> str:
    """Not the same: a run without a GPU, one whose GPU was not recorded, a file whose rest is lost, and one whose kinds
    are guessed."""
    for wanted, text in WITHOUT_GPU.items():
        if wanted in codes:
            return text
    return NO_DURATIONS if has_events else "CPU only: this trace has no GPU work."

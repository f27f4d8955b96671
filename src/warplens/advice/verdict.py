"""The verdict: two short sentences on what limits one step and where it goes, as sure as the clock that it is of."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from warplens.advice.limits import COMMUNICATION, GPU, HOST, STREAMS, is_mostly_nameless, limits, nameless_ms
from warplens.advice.thresholds import COMMUNICATION_BOUND_PERCENT, IDLE_BOUND_PERCENT, LIMIT_PERCENT
from warplens.analyses.graph.bounds import StepBounds
from warplens.analyses.graph.breakdown import (
    AFTER,
    BEFORE,
    COMPUTATION,
    EXPOSED_COMMUNICATION,
    EXPOSED_COPIES,
    IDLE,
)
from warplens.analyses.graph.host_work import CALLS, NO_NAME, OPS
from warplens.analyses.graph.idle_chains import EARLIER_WORK, SYNCHRONISATION
from warplens.categories import OTHER
from warplens.model.answer import CANNOT_TELL, LEAST_SAVING, SIMULATED, Part
from warplens.model.clock import ESTIMATED, MEASURED, Clock
from warplens_run.base.text import elide
from warplens_run.base.units import listed

REMOVING: Final = {
    GPU: "all GPU time",
    HOST: "all host time",
    COMMUNICATION: "all communication",
    STREAMS: "all waits between streams",
}
HOST_SIDE: Final = (BEFORE, IDLE, AFTER)
GPU_SIDE: Final = (COMPUTATION, EXPOSED_COPIES)
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
NAME_ROOM: Final = 48
"""Characters of a range's, a file's or an op's name: longer ones are cut in the middle."""
CALLED: Final = {
    SYNCHRONISATION: "waiting in synchronising calls",
    f"host: {SYNCHRONISATION}": "waiting in synchronising calls",
    EARLIER_WORK: "waiting for work from before the recording",
}
"""Causes of the table that a sentence has other words for."""
PLURAL: Final = (OTHER, "Memory Ops", OPS, CALLS)
"""Causes that take a plural verb."""

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
    CLOSE: "either may be the limit: of the costs of recording that fit, or of waits that no work on the GPU explains, "
    "some make it the GPU and others the host",
    "Balanced": "neither a faster GPU nor a faster host alone shortens the step: both take equally long",
    "Bound by waits between streams": "the step is shorter if streams do not wait for each other",
    "Mostly waiting": "most of the step is waits for work from before the recording",
}
"""What limits a step, where that is not the GPU, the host or communication."""

RECORD_FRAMES: Final = "Record Python frames (ProfileOptions.python_tracer_level = 1)"
RECORD_RANGES: Final = "Record ranges around what it does (jax.profiler.TraceAnnotation, NVTX, ROCTX)"


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
    clock = replace(clock, source=clock.certainty)  # where it is from stands beside the step itself
    if bounds is None:
        return _as_recorded(clock, parts)
    if is_mostly_nameless(nameless_ms(parts), clock.step_ms, quality):
        return Verdict(_nameless(clock, nameless_ms(parts), quality), CANNOT_TELL)
    text = _by_bounds(clock, parts, bounds, saved)
    if text.startswith("Cannot tell"):
        return Verdict(text, CANNOT_TELL, CLOSE)
    certainty = ESTIMATED if clock.source == ESTIMATED else SIMULATED
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
    earlier_ms = sum(part.time_ms for part in parts if part.cause == EARLIER_WORK)
    if 2 * earlier_ms > clock.step_ms:
        return f"Mostly waiting. {_simulated(clock, earlier_ms)} are waits for work from before the recording."
    limiting = limits(bounds)
    name = bound_name(limiting)
    least = max(saved[GPU], saved[HOST])
    # Of the costs that fit the known times some make the one the limit, some the other; or waits that no work on the
    # GPU explains take longer than that work.
    is_open = least > LIMIT_PERCENT / 100 * clock.step_ms if not limiting else saved[HOST] > saved[GPU]
    if is_open and limiting in ((), (GPU,)):
        gpu = f"A faster GPU would save up to {clock.of_step(saved[GPU])}"
        host = f"a faster host up to {_at_most(clock, saved[HOST])}"
        return f"Cannot tell whether the GPU or the host is the limit. {gpu} and {host}."
    if not limiting:
        return f"{name}. Neither a faster GPU nor a faster host alone would save more than {_at_most(clock, least)}."
    if limiting == (GPU,):
        host = f"removing all host time would save {_amount(clock, saved[HOST])}{_by_simulation(clock)}"
        return f"{name}. {_taking(clock, parts, GPU_SIDE)}; {host}."
    named = _named(clock, parts, SIDES.get(limiting[0], ()))
    return f"{name}{named}. {_removing(clock, limiting, saved)}."


def _nameless(clock: Clock, ms: float, quality: Collection[str]) -> str:
    record = RECORD_FRAMES if "no_python_tracer" in quality else RECORD_RANGES
    return f"Cannot tell what limits it: what the host does in {_simulated(clock, ms)} is not recorded. {record}."


def _removing(clock: Clock, limiting: Sequence[str], saved: Mapping[str, float]) -> str:
    """The first of several with the step."""
    first, *others = limiting
    text = f"Removing {REMOVING[first]} would save up to {_at_most(clock, saved[first])}"
    also = listed([f"{REMOVING[part]} up to {clock.of_step(saved[part])}" for part in others])
    return f"{text}, and {also}" if also else text


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


def _of(clock: Clock, ms: float, sure: str = "") -> str:
    """`26.7 of 39.6 ms a step (31 to 52, estimated)`: a part, the step, and how sure the step is.

    A part that is less sure than the step has a word of its own: `26.7 ms (simulated) of 39.6 ms a step (measured)`.
    """
    amount, whole = clock.of_step(max(0.0, ms)), clock.of_step(clock.step_ms)
    a_step = {"run": "of the run"}.get(clock.whole, clock.one)
    if clock.is_wide:
        return f"{amount} of {clock.amount} {a_step} ({clock.known})"
    if not sure and amount.rpartition(" ")[2] == whole.rpartition(" ")[2]:
        amount = amount.rpartition(" ")[0]
    return f"{amount}{sure} of {whole} {a_step} ({clock.sure})"


def _by_simulation(clock: Clock) -> str:
    """Said of what is simulated of a step that is measured; what is said of an estimated one is estimated, too."""
    return "" if clock.source == ESTIMATED else f" ({SIMULATED})"


def _simulated(clock: Clock, ms: float) -> str:
    return _of(clock, ms, _by_simulation(clock))


def _at_most(clock: Clock, ms: float) -> str:
    """A bound: of the longest step that fits, so beside the interval and not beside the point."""
    if clock.sure == clock.known:
        return _simulated(clock, ms)
    unit = clock.of_step(clock.step_ms).rpartition(" ")[2]
    amount = f"{clock.of_step(max(0.0, ms))}{_by_simulation(clock)}"
    return f"{amount} of {clock.one} of {clock.interval} {unit} ({clock.known})"


def _amount(clock: Clock, ms: float) -> str:
    return f"up to {clock.of_step(ms)}" if ms >= LEAST_SAVING * clock.step_ms else "nothing"


def _taking(clock: Clock, parts: Sequence[Part], side: Sequence[str]) -> str:
    """`GEMM takes 21.5 of 66.9 ms a step (measured)`: the first row, then the first of what limits the step."""
    first, *others = _first_rows(parts, side)
    sure = _by_simulation(clock) if first.part in HOST_SIDE else ""
    return _sentence(_upper(_called(first)), first, _of(clock, first.time_ms, sure), clock, others)


def _named(clock: Clock, parts: Sequence[Part], side: Sequence[str]) -> str:
    """`: forward (model.py:12 forward) takes 11.2 ms`; empty where no part is large."""
    rows = [part for part in _first_rows(parts, side) if part.percent >= 100 * NAMED_SHARE]
    if not rows:
        return ""
    first, *others = rows
    return f": {_sentence(_called(first), first, clock.between(first.low_ms, first.high_ms), clock, others)}"


def _sentence(name: str, part: Part, time: str, clock: Clock, others: Sequence[Part]) -> str:
    """`GEMM takes 8.2 ms and launch latency 6.6 ms`."""
    takes = "take" if part.cause.removeprefix("host: ") in PLURAL and part.part != EXPOSED_COPIES else "takes"
    also = [f"{_called(other)} {clock.between(other.low_ms, other.high_ms)}" for other in others]
    return f"{name} {takes} {listed([time, *also])}"


def _upper(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def _first_rows(parts: Sequence[Part], side: Sequence[str]) -> list[Part]:
    """The first row of the table; where that is not of this side, the largest that is as well.

    Waits for work from before the recording are of no side.
    """
    largest = sorted(parts, key=lambda part: -part.time_ms)
    own = [part for part in largest if part.part in side and part.cause != EARLIER_WORK]
    return largest[:1] if not own or largest[0] is own[0] else [largest[0], own[0]]


def _called(part: Part) -> str:
    """A part in the words of the table."""
    if part.part == COMPUTATION:
        return "kernels of no known category" if part.cause == OTHER else part.cause
    if part.part == EXPOSED_COMMUNICATION:
        return EXPOSED_COMMUNICATION
    if part.part == EXPOSED_COPIES:
        return f"exposed {part.cause}"
    if part.cause == f"host: {NO_NAME}":
        return "unrecorded work of the host"
    if part.cause == NO_NAME:
        return "idle time of unrecorded cause"
    cause = CALLED.get(part.cause) or elide(part.cause.removeprefix("host: "), NAME_ROOM, middle=True)
    place = elide(part.place.rpartition("/")[2], NAME_ROOM, middle=True)
    with_place = f"{cause} ({place})" if place and place.strip("()") not in cause else cause
    is_enough = part.part == IDLE or part.cause.startswith("host: ") or part.cause == EARLIER_WORK
    return with_place if is_enough else f"{with_place} {part.part}"


def _without_gpu(codes: Collection[str], has_events: bool) -> Verdict:
    """Not the same: a run without a GPU, one whose GPU was not recorded, a file whose rest is lost, and one whose kinds
    are guessed."""
    known = [text for wanted, text in WITHOUT_GPU.items() if wanted in codes]
    text = next(iter(known), NO_DURATIONS if has_events else CPU_ONLY)
    return Verdict(text, CANNOT_TELL if text.startswith("Cannot tell") else MEASURED)

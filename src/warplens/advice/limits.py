"""What limits a step: the GPU, the host, communication, waits between streams, or several of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from warplens.advice.figures import TAKING_TURNS, TraceFigures
from warplens.advice.thresholds import IDLE_BOUND_PERCENT, LIMIT_PERCENT, LIMIT_SHARE
from warplens.analyses.graph.bounds import StepBounds
from warplens.analyses.graph.breakdown import AFTER, BEFORE, COMPUTATION, EXPOSED_COMMUNICATION, EXPOSED_COPIES, IDLE
from warplens.analyses.graph.host_work import NO_NAME
from warplens.model.answer import Part
from warplens.model.clock import Clock
from warplens.model.idle_causes import DEPENDENCY, UNKNOWN

GPU: Final = "GPU"
HOST: Final = "host"
COMMUNICATION: Final = "communication"
STREAMS: Final = "streams"
NAMELESS_SHARE: Final = 0.5
"""Of the step: where the host does more that is not recorded, nothing limits it for certain."""
WAITS_RECORDED: Final = "no_stacks"
"""The note of PyTorch's profiler without stacks: ops and calls that wait are recorded, so that the rest is work."""
NOT_THE_HOST: Final = (DEPENDENCY, TAKING_TURNS, UNKNOWN)
"""Causes of idleness that have nothing to do with the host."""


def savings_ms(bounds: StepBounds) -> dict[str, float]:
    """What each part of a step saves if it takes no time, the most first; waits of streams come last.

    Pauses between kernels that wait for nothing are no part of the host's: they may end, but do not limit the step.
    """
    parts = {
        GPU: bounds.saves_ms(bounds.fast_gpu_ms),
        HOST: bounds.saves_ms(bounds.with_pauses_ms),
        COMMUNICATION: bounds.saves_ms(bounds.free_communication_ms),
    }
    ordered = dict(sorted(parts.items(), key=lambda part: -part[1]))
    return ordered | {STREAMS: bounds.saves_ms(bounds.no_stream_waits_ms)}


def at_most_ms(clock: Clock, bounds: StepBounds) -> dict[str, float]:
    """What each saves at most if it takes no time, the most first; of the host, of the longest step that fits."""
    saved = savings_ms(bounds)
    saved[HOST] = max(saved[HOST], bounds.fast_host_saves.high_ms, clock.high_ms - bounds.fast_host_ms)
    saved[GPU] = max(saved[GPU], bounds.fast_gpu_saves.high_ms)
    saved[COMMUNICATION] = max(saved[COMMUNICATION], bounds.free_communication_saves.high_ms)
    return {of: max(0.0, ms) for of, ms in sorted(saved.items(), key=lambda part: (part[0] == STREAMS, -part[1]))}


def at_most_of_parts(parts: Sequence[Part]) -> dict[str, float]:
    """The same where no step is simulated: what is there of each in the longest step that fits."""
    sides = {GPU: (COMPUTATION, EXPOSED_COPIES), HOST: (BEFORE, IDLE, AFTER), COMMUNICATION: (EXPOSED_COMMUNICATION,)}
    return {of: sum(part.high_ms for part in parts if part.part in own) for of, own in sides.items()} if parts else {}


def limits(bounds: StepBounds) -> tuple[str, ...]:
    """The parts that limit a step, the first one most; none where no part alone makes it much shorter.

    Streams wait for work on the GPU or for communication, so that these waits count only where nothing else does.
    """
    if is_mostly_earlier(bounds):
        return ()
    *parts, streams = savings_ms(bounds).items()
    least_ms = LIMIT_PERCENT / 100 * (bounds.plain_ms - bounds.earlier_ms)
    largest_ms = parts[0][1]
    named = tuple(part for part, saved_ms in parts if saved_ms >= max(least_ms, LIMIT_SHARE * largest_ms) > 0)
    return named or tuple(part for part, saved_ms in [streams] if saved_ms >= least_ms > 0)


def is_mostly_earlier(bounds: StepBounds) -> bool:
    """Whether most of a trace without steps passes in waits for work from before the recording."""
    return 2 * bounds.earlier_ms > bounds.plain_ms


def is_mostly_nameless(ms: float, step_ms: float, quality: Collection[str]) -> bool:
    """Whether the host does nothing that is recorded in most of a step, and may wait there as well as work."""
    return ms > NAMELESS_SHARE * step_ms and WAITS_RECORDED not in quality


def nameless_ms(parts: Iterable[Part]) -> float:
    """What the host does in this time is not recorded."""
    return sum(part.time_ms for part in parts if part.cause == f"host: {NO_NAME}")


def is_host_bound(figures: TraceFigures) -> bool:
    """Whether the verdict says so."""
    if figures.bounds is None:
        return figures.percent("idle") >= IDLE_BOUND_PERCENT and figures.main_idle_cause not in NOT_THE_HOST
    if limits(figures.bounds)[:1] != (HOST,):
        return False
    return not is_mostly_nameless(nameless_ms(figures.parts()), figures.bounds.plain_ms, figures.note_codes)

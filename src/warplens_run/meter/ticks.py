"""Windows that begin and end where the counter moves.

An energy counter is updated at a fixed period (every 100 ms on an H200). Read in between it still says what it
said at the last tick: a window of 1 s that begins and ends anywhere can be 10 % off, one from tick to tick is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from warplens_run.meter.protocols import Meter, Timing

POLL_SECONDS: Final = 0.001
NO_TICK_SECONDS: Final = 1.0
"""A counter that has not moved for this long has no ticks worth waiting for."""
CLEAN_SECONDS: Final = 0.005
"""A tick is between two reads. If launching work kept these further apart, the next tick is better.
Reading takes 4 ms on an H200: where it is slow, twice the time between two reads is allowed instead."""
MOST_UNCLEAN: Final = 3
SETTLED: Final = 0.02
"""Two windows in a row that differ by less than this: power no longer rises or falls."""
SETTLE_WINDOW_SECONDS: Final = 0.2
EARLY_SECONDS: Final = 0.05
"""Watching begins this much before a window is full, so that a tick due at that moment is not missed for the next."""


@dataclass(frozen=True)
class Tick:
    seconds: float
    joules: float
    is_tick: bool = True
    """False: the counter did not move, and this is simply where the waiting ended."""


@dataclass
class _Watched:
    """A counter that is being waited for."""

    meter: Meter
    seconds: float
    joules: float
    clean_seconds: float = CLEAN_SECONDS
    unclean: int = 0
    tick: Tick | None = None

    def read(self, timing: Timing) -> None:
        joules, now = self.meter.joules(), timing.clock()
        if joules != self.joules:
            is_clean = now - self.seconds <= self.clean_seconds or self.unclean >= MOST_UNCLEAN
            self.unclean += 1
            if is_clean:
                self.tick = Tick((self.seconds + now) / 2, joules)
        self.seconds, self.joules = now, joules


def nothing() -> None:
    """Nothing to do between two reads."""


def next_ticks(
    meters: Sequence[Meter],
    timing: Timing,
    *,
    after: float = -math.inf,
    timeout: float = NO_TICK_SECONDS,
    between: Callable[[], None] = nothing,
) -> list[Tick]:
    """The first tick of each meter after a moment; `between` is called before each read."""
    while timing.clock() < after:
        between()
        timing.sleep(POLL_SECONDS)
    start = timing.clock()
    watched = [_Watched(meter, joules=meter.joules(), seconds=timing.clock()) for meter in meters]
    clean = max(CLEAN_SECONDS, 2 * (timing.clock() - start + POLL_SECONDS))
    for counter in watched:
        counter.clean_seconds = clean
    end = timing.clock() + timeout
    while any(counter.tick is None for counter in watched) and timing.clock() < end:
        between()
        timing.sleep(POLL_SECONDS)
        for counter in watched:
            if counter.tick is None:
                counter.read(timing)
    return [counter.tick or Tick(counter.seconds, counter.joules, is_tick=False) for counter in watched]


def window_end(
    meters: Sequence[Meter],
    timing: Timing,
    start: Sequence[Tick],
    seconds: float,
    between: Callable[[], None] = nothing,
) -> list[Tick]:
    """The ticks at which windows of about that length end."""
    full = max(tick.seconds for tick in start) + seconds
    return next_ticks(meters, timing, after=full - EARLY_SECONDS, between=between)


def tick_seconds(meter: Meter, *, ticks: int = 5, timing: Timing | None = None) -> float:
    """How often the counter moves; 0 where it does not within a second."""
    timing = timing or Timing()
    first = next_ticks([meter], timing)[0]
    last = first
    for _ in range(ticks):
        last = next_ticks([meter], timing)[0]
        if not last.is_tick:
            return 0.0
    return (last.seconds - first.seconds) / ticks


def mean_watts(first: Tick, last: Tick) -> float:
    return (last.joules - first.joules) / (last.seconds - first.seconds)


def settle(
    meters: Sequence[Meter], timing: Timing, *, most_seconds: float, between: Callable[[], None] = nothing
) -> list[Tick]:
    """Lets power settle, for a bounded time; ends on a tick of each meter."""
    ticks = next_ticks(meters, timing, between=between)
    end = timing.clock() + most_seconds
    before: list[float] = []
    while True:
        later = window_end(meters, timing, ticks, SETTLE_WINDOW_SECONDS, between)
        now = [mean_watts(first, last) for first, last in zip(ticks, later, strict=True)]
        ticks = later
        agree = bool(before) and all(
            abs(earlier - now_watts) <= SETTLED * max(abs(earlier), abs(now_watts))
            for earlier, now_watts in zip(before, now, strict=True)
        )
        if agree or timing.clock() >= end:
            return ticks
        before = now

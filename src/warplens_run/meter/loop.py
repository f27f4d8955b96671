"""What one call costs: a loop of calls that never pauses, and the counter's ticks as the marks between its repeats.

Power of the loop × time per call is the call's energy. Nothing is started or stopped at a mark, so a repeat holds
neither the rise of power at the beginning nor its fall at the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from warplens_run.formats.replay_result import Energy
from warplens_run.meter.estimate import mean_interval
from warplens_run.meter.idle import Idle
from warplens_run.meter.protocols import Meter, MeteredLoop, Timing
from warplens_run.meter.ticks import Tick, mean_watts, settle, window_end

SETTLE_SECONDS: Final = 2.0
SHORTEST_WINDOW_SECONDS: Final = 0.2
SAMPLE_SECONDS: Final = 0.01
"""Between two readings of instant power, which an H200 renews every 100 ms."""
IN_FLIGHT: Final = 3
MOST_IN_FLIGHT: Final = 64
LEAST_BUSY: Final = 0.5
WIDEST_INTERVAL: Final = 0.05
POWERS_DIFFER: Final = 0.05
POWERS_DIFFER_WATTS: Final = 5.0


@dataclass
class _Feeder:
    """Keeps work in flight, and notes what is finished and what power is drawn."""

    loop: MeteredLoop
    meter: Meter
    timing: Timing
    depth: int = IN_FLIGHT
    launched: int = 0
    done: int = 0
    finished: list[tuple[float, int]] = field(default_factory=list)
    """When a number of replays was first seen to be finished."""
    samples: list[tuple[float, float]] = field(default_factory=list)
    next_sample: float = -math.inf

    def __post_init__(self) -> None:
        self.earlier = self.loop.completed()  # a loop may have run before

    def __call__(self) -> None:
        done = self.loop.completed() - self.earlier
        now = self.timing.clock()
        if done != self.done:
            self.done = done
            self.finished.append((now, done))
        if self.launched and done >= self.launched:
            self.depth = min(2 * self.depth, MOST_IN_FLIGHT)  # it ran dry: replays are shorter than a look
        while self.launched - done < self.depth:
            self.loop.launch()
            self.launched += 1
        if now >= self.next_sample:
            self.next_sample = now + SAMPLE_SECONDS
            watts = self.meter.watts()
            if watts is not None:
                self.samples.append((now, watts))

    def rate(self, first: Tick, last: Tick) -> tuple[int, float]:
        """Replays between two ticks, and seconds for each, from one end of a replay to another."""
        inside = [(at, done) for at, done in self.finished if first.seconds <= at <= last.seconds]
        if len(inside) < 2:
            return 0, math.nan
        (start, before), (end, after) = inside[0], inside[-1]
        return after - before, (end - start) / (after - before)

    def instant_watts(self, first: Tick, last: Tick) -> float | None:
        inside = [watts for at, watts in self.samples if first.seconds <= at <= last.seconds]
        return math.fsum(inside) / len(inside) if inside else None


def measure_loop(
    loop: MeteredLoop,
    meter: Meter,
    idle: Idle,
    busy_ns: float,
    seconds: float = 2.0,
    min_repeats: int = 5,
    precision: float = WIDEST_INTERVAL,
    max_seconds: float = 8.0,
    *,
    timing: Timing | None = None,
) -> Energy:
    """The energy of one call of the loop, whose kernels take `busy_ns`.

    It takes about half a second more than `seconds`, and up to `max_seconds` where the interval is still too wide.
    """
    timing = timing or Timing()
    feeder = _Feeder(loop, meter, timing)
    window = max(SHORTEST_WINDOW_SECONDS, seconds / min_repeats)
    try:
        ticks = settle([meter], timing, most_seconds=SETTLE_SECONDS, between=feeder)
        while not _is_enough(ticks, idle, seconds, min_repeats, precision, max_seconds):
            ticks += window_end([meter], timing, ticks[-1:], window, feeder)
    finally:
        loop.synchronize()
    return _energy(ticks, feeder, idle, busy_ns, min_repeats)


def _is_enough(
    ticks: Sequence[Tick], idle: Idle, seconds: float, min_repeats: int, precision: float, max_seconds: float
) -> bool:
    measured = ticks[-1].seconds - ticks[0].seconds
    if measured >= max_seconds:
        return True
    if len(ticks) <= min_repeats or measured < 0.9 * seconds:
        return False
    watts, half = mean_interval(_powers(ticks))
    # More of the loop cannot make up for what is not known of idle power.
    return half <= max(precision * (watts - idle.watts), idle.interval_watts / 2)


def _powers(ticks: Sequence[Tick]) -> list[float]:
    return [mean_watts(first, last) for first, last in pairwise(ticks)]


def _energy(ticks: list[Tick], feeder: _Feeder, idle: Idle, busy_ns: float, min_repeats: int) -> Energy:
    powers = _powers(ticks)
    watts, half = mean_interval(powers)
    replays, replay_s = feeder.rate(ticks[0], ticks[-1])
    call_s = replay_s / feeder.loop.calls
    active = watts - idle.watts
    active_half = math.hypot(half, idle.interval_watts)
    energy = Energy(
        active_j=active * call_s,
        total_j=watts * call_s,
        watts=watts,
        idle_watts=idle.watts,
        seconds=ticks[-1].seconds - ticks[0].seconds,
        launches=replays * feeder.loop.calls,
        call_ns=call_s * 1e9,
        busy_fraction=min(1.0, busy_ns / (call_s * 1e9)) if replays else 0.0,
        repeats=len(powers),
        interval=active_half / active if active > 0 else math.inf,
        total_interval=half / watts if watts > 0 else math.inf,
        instant_watts=None if feeder.meter.is_sampled else feeder.instant_watts(ticks[0], ticks[-1]),
    )
    return _judged(energy, idle, feeder.meter, min_repeats)


def _judged(energy: Energy, idle: Idle, meter: Meter, min_repeats: int) -> Energy:
    doubts = list(_doubts(energy, idle, min_repeats))
    remarks = list(doubts)
    if meter.is_sampled:
        remarks.append("energy is a sum of power samples: there is no energy counter")
    elif energy.instant_watts is None:
        remarks.append("not checked against instant power, which this GPU does not report")
    return replace(energy, doubtful=bool(doubts), why="; ".join(remarks))


def _doubts(energy: Energy, idle: Idle, min_repeats: int) -> list[str]:
    active = energy.watts - idle.watts
    doubts = []
    if not energy.launches:
        doubts.append("fewer than two replays ended during the measurement")
    if energy.repeats < min_repeats:
        doubts.append(f"only {energy.repeats} repeats")
    if active <= idle.interval_watts:
        doubts.append(f"{active:.1f} W above idle power, whose interval is ± {idle.interval_watts:.1f} W")
    elif energy.interval > WIDEST_INTERVAL:
        doubts.append(f"known to ± {100 * energy.interval:.0f} % only")
    if energy.launches and energy.busy_fraction < LEAST_BUSY:
        doubts.append(f"its kernels ran for {100 * energy.busy_fraction:.0f} % of the loop")
    if energy.instant_watts is not None:
        apart = abs(energy.instant_watts - energy.watts)
        if apart > max(POWERS_DIFFER_WATTS, POWERS_DIFFER * energy.watts):
            doubts.append(f"the counter says {energy.watts:.0f} W, instant power {energy.instant_watts:.0f} W")
    return doubts

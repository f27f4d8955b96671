"""Energy of units: the meter of the GPU in use, and its idle power with this process's context alive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from warplens_run.formats import replay_result as result_file
from warplens_run.replay.graphs import GraphLoop

if TYPE_CHECKING:
    from warplens_run.meter import Idle, Meter

REPEATS: Final = 5
IDLE_SECONDS: Final = 5.0
"""Measured once, and in every figure of active energy."""
LONGEST: Final = 4.0
"""How many times longer than asked a unit may be measured until its energy is sure enough."""


@dataclass(frozen=True)
class ReadyMeter:
    """A meter with the idle power that active energy is above."""

    meter: Meter
    idle: Idle

    def measure(self, loop: GraphLoop, busy_ns: float, seconds: float) -> result_file.Energy:
        from warplens_run.meter import measure_loop

        return measure_loop(loop, self.meter, self.idle, busy_ns, seconds, REPEATS, max_seconds=LONGEST * seconds)


@dataclass
class LazyMeter:
    """A meter whose idle power is measured when it is first needed: by then the GPU has worked, as in the loops."""

    meter: Meter
    seconds: float
    facts: result_file.MeterFacts | None = None
    """As an earlier process of the same run measured it."""

    def ready(self) -> ReadyMeter:
        from warplens_run.meter import Idle, measure_idle, tick_seconds

        if self.facts is None:
            tick_s = tick_seconds(self.meter)
            idle = measure_idle(self.meter, max(self.seconds, IDLE_SECONDS))
            self.facts = result_file.MeterFacts(self.meter.name, tick_s, idle.watts, idle.interval_watts)
        return ReadyMeter(self.meter, Idle(self.facts.idle_watts, self.facts.idle_interval_watts))


def lazy_meter(device: Any, facts: result_file.MeterFacts | None, seconds: float) -> LazyMeter | str:
    """The meter of a device, or the reason why there is none."""
    from warplens_run.meter import find_meter, why_none

    meter = find_meter(device.index)
    return LazyMeter(meter, seconds, facts) if meter is not None else str(why_none(device.index))

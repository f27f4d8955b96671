"""Energy of units: the meter of the GPU in use, and its idle power with this process's context alive."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from warplens.replay import result_file
from warplens.replay.plan_file import READY, Plan
from warplens.replay.running.graphs import Loop

REPEATS: Final = 5
IDLE_SECONDS: Final = 5.0
"""Measured once, and in every figure of active energy."""
LONGEST: Final = 4.0
"""How many times longer than asked a unit may be measured until its energy is sure enough."""


@dataclass(frozen=True)
class Metering:
    meter: Any
    idle: Any
    record: result_file.Meter

    def measure(self, loop: Loop, busy_ns: float, seconds: float) -> result_file.Energy:
        from warplens.replay.meter import measure_loop

        return measure_loop(loop, self.meter, self.idle, busy_ns, seconds, REPEATS, max_seconds=LONGEST * seconds)


def metered_units(plan: Plan, cover: float) -> frozenset[str]:
    """The longest units that together take that share of the replayable time."""
    ready = sorted((unit for unit in plan.units if unit.status == READY), key=lambda unit: -unit.times.total_ns)
    most = cover * sum(unit.times.total_ns for unit in ready)
    sums = accumulate((unit.times.total_ns for unit in ready), initial=0)
    return frozenset(unit.id for unit, before in zip(ready, sums, strict=False) if before < most)


def metering(device: Any, known: result_file.Meter | None, seconds: float) -> Metering | str:
    """With the idle power that is known already or is measured now; a text says why there is none."""
    from warplens.replay.meter import Idle, find_meter, measure_idle, tick_seconds, why_none

    meter = find_meter(device.index)
    if meter is None:
        return str(why_none(device.index))
    if known is not None:
        return Metering(meter, Idle(known.idle_watts, known.idle_interval_watts), known)
    tick_s = tick_seconds(meter)
    idle = measure_idle(meter, max(seconds, IDLE_SECONDS))
    record = result_file.Meter(meter.name, tick_s, idle.watts, idle.interval_watts)
    return Metering(meter, idle, record)

"""The energy of a GPU: its meters, its idle power, and what a loop of calls costs.

>>> from warplens.replay.meter import find_meter, measure_idle, measure_loop, why_none
>>> meter = find_meter(99)
>>> meter is None and bool(why_none(99))
True
"""

from __future__ import annotations

from warplens.replay.meter.find import find_meter, find_meters, look, why_none
from warplens.replay.meter.idle import Idle, measure_idle, measure_idles
from warplens.replay.meter.loop import measure_loop
from warplens.replay.meter.protocols import Absent, Meter, MeteredLoop, MeterError, Timing
from warplens.replay.meter.ticks import tick_seconds

__all__ = [
    "Absent",
    "Idle",
    "Meter",
    "MeterError",
    "MeteredLoop",
    "Timing",
    "find_meter",
    "find_meters",
    "look",
    "measure_idle",
    "measure_idles",
    "measure_loop",
    "tick_seconds",
    "why_none",
]

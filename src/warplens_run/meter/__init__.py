"""The energy of a GPU: its meters, its idle power, and what a loop of calls costs.

>>> from warplens_run.meter import find_meter, measure_idle, measure_loop, why_none
>>> meter = find_meter(99)
>>> meter is None and bool(why_none(99))
True
"""

from __future__ import annotations

from warplens_run.meter.find import find_meter, find_meters, look, why_none
from warplens_run.meter.idle import Idle, measure_idle, measure_idles
from warplens_run.meter.loop import measure_loop
from warplens_run.meter.protocols import Absent, Meter, MeteredLoop, MeterError, Timing
from warplens_run.meter.ticks import tick_seconds

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

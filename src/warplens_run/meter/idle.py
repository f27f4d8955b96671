"""The power of a GPU that has nothing to do. With a live context that is more than without (121 W on an H200)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from warplens_run.meter.estimate import mean_interval
from warplens_run.meter.protocols import Meter, Timing
from warplens_run.meter.ticks import mean_watts, settle, window_end

WINDOWS: Final = 5
SETTLE_SECONDS: Final = 3.0
"""Power falls for a second or two after work."""


@dataclass(frozen=True)
class Idle:
    watts: float
    interval_watts: float
    """Half the width of the 95 % interval."""


def measure_idle(meter: Meter, seconds: float = 2.0, *, timing: Timing | None = None) -> Idle:
    """Idle power now. The caller keeps the GPU idle, and a context alive if idle power is to include it."""
    return measure_idles([meter], seconds, timing=timing)[0]


def measure_idles(meters: Sequence[Meter], seconds: float = 2.0, *, timing: Timing | None = None) -> list[Idle]:
    """The same of several GPUs at once."""
    timing = timing or Timing()
    ticks = [settle(meters, timing, most_seconds=SETTLE_SECONDS)]
    for _ in range(WINDOWS):
        ticks.append(window_end(meters, timing, ticks[-1], seconds / WINDOWS))
    powers = [[mean_watts(first, last) for first, last in zip(starts, ends, strict=True)]
              for starts, ends in pairwise(ticks)]  # fmt: skip
    return [Idle(*mean_interval(watts)) for watts in zip(*powers, strict=True)]

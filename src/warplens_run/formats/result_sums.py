"""What the units of a result add up to, for the text at the end of a run and for the tables of `replay show`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from warplens_run.formats.replay_result import UnitResult

NEAR: Final = 0.10
"""A replayed median this near to the traced one counts as equal."""
HOST: Final = "host"


def gpu_median_ns(unit: UnitResult) -> float | None:
    """The replayed time where it can be compared with the trace's: a host's time says nothing of a GPU."""
    return unit.time.median_ns if unit.time is not None and unit.time.timer != HOST else None


def ratio(unit: UnitResult) -> float | None:
    """Replayed over traced."""
    median_ns = gpu_median_ns(unit)
    return median_ns / unit.traced.median_ns if median_ns is not None and unit.traced.median_ns else None


def in_range(unit: UnitResult) -> bool | None:
    """Whether the replayed median is within the trace's own p10–p90, or within a tenth of its median."""
    median_ns, traced = gpu_median_ns(unit), unit.traced
    if median_ns is None:
        return None
    return traced.p10_ns <= median_ns <= traced.p90_ns or abs(median_ns - traced.median_ns) <= NEAR * traced.median_ns


def traced_ns(units: Iterable[UnitResult]) -> int:
    return sum(unit.traced.total_ns for unit in units)


def replayed_ns(units: Iterable[UnitResult]) -> float:
    return math.fsum(unit.count * unit.time.median_ns for unit in units if unit.time is not None)


def active_joules(units: Iterable[UnitResult]) -> float:
    return math.fsum(unit.count * unit.energy.active_j for unit in units if unit.energy is not None)

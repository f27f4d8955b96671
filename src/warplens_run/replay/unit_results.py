"""A unit's result with all that the plan knows of it."""

from __future__ import annotations

from warplens_run.formats.replay_plan import Unit
from warplens_run.formats.replay_result import Traced, UnitResult


def unit_result(unit: Unit, status: str, reason: str = "") -> UnitResult:
    times = unit.times
    longest = max(unit.kernels, key=lambda kernel: kernel.times.total_ns, default=None)
    return UnitResult(
        id=unit.id,
        op=f"{unit.op}.{unit.overload}" if unit.overload else unit.op,
        count=unit.count,
        traced=Traced(times.total_ns, times.median_ns, times.p10_ns, times.p90_ns),
        status=status,
        reason=reason,
        category=unit.category,
        kernel=longest.name if longest else "",
        notes=unit.notes,
    )

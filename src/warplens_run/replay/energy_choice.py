"""Which units' energy is measured: each costs seconds, so the longest that together take most of the time."""

from __future__ import annotations

from itertools import accumulate

from warplens_run.formats.replay_plan import READY, ReplayPlan


def units_to_meter(plan: ReplayPlan, cover: float) -> frozenset[str]:
    """The longest units that together take that share of the replayable time."""
    ready = sorted((unit for unit in plan.units if unit.status == READY), key=lambda unit: -unit.times.total_ns)
    most = cover * sum(unit.times.total_ns for unit in ready)
    sums = accumulate((unit.times.total_ns for unit in ready), initial=0)
    return frozenset(unit.id for unit, before in zip(ready, sums, strict=False) if before < most)

"""The calls of a step without and with a change, as two units that keep the GPU busy.

What a change saves alone is not always what the step saves: a GPU at its power limit lowers its clock where less of its
work waits for memory, and the rest of the step then takes longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from warplens.proof.experiments.call_runs import RecordedCalls
from warplens.proof.experiments.captured_step import MOST_CALLS, can_be_captured
from warplens.proof.experiments.changed_units import ChangedUnits
from warplens.proof.experiments.sequences import SEQUENCE, sequence_unit
from warplens_run.formats.proof_plan import Swap, UnitCalls, Variant
from warplens_run.formats.replay_plan import Unit

BUSY: Final = 0.85
"""Share of a step in which the GPU must be busy: one that often waits for the host is not at its power limit."""
COVERED: Final = 0.8
"""Share of a step's GPU time that must be in calls that can be run again."""
BEFORE: Final = "step.recorded"


@dataclass(frozen=True)
class WholeStep:
    """The step of a trace that its findings' changes are tried in."""

    recorded: RecordedCalls

    @cached_property
    def units(self) -> list[Unit]:
        """In the order of their launches; none where a run of them would tell nothing of the step."""
        step_ns = self.recorded.step_ns
        gpu_ns = self.recorded.step_gpu_ns
        if not step_ns or gpu_ns < BUSY * step_ns:
            return []
        units = [unit for unit in self.recorded.of_first_whole_step() if can_be_captured(unit)]
        covered_ns = sum(unit.times.median_ns for unit in units)
        return units if 0 < len(units) <= MOST_CALLS and covered_ns >= COVERED * gpu_ns else []

    @cached_property
    def before(self) -> Unit:
        return sequence_unit(BEFORE, SEQUENCE, self.units)

    def tried(self, changed: ChangedUnits) -> ChangedUnits:
        """The variants, each with the whole step besides where it can be run with the change."""
        if not self.units:
            return changed
        known = {unit.id: unit for unit in self.units} | changed.units
        units = dict(changed.units)
        variants = []
        for number, variant in enumerate(changed.variants):
            step = with_change(self.units, variant, known)
            if step:
                after = sequence_unit(f"step.changed{number}", SEQUENCE, step)
                units[after.id] = after
                swap = Swap((UnitCalls(BEFORE, 1.0),), (UnitCalls(after.id, 1.0),))
                variant = replace(variant, whole_step=swap)
            variants.append(variant)
        return replace(changed, variants=variants, units=units)


def with_change(step: list[Unit], variant: Variant, known: Mapping[str, Unit]) -> list[Unit]:
    """The step's units with those after the change where the first of those before it was; none where one of them
    cannot be part of a graph, or where the step has none of what is changed."""
    if variant.timer:  # a graph of the step is what the change is about
        return []
    units = list(step)
    is_changed = False
    for swap in variant.swaps:
        after = [known.get(calls.unit) for calls in swap.after]
        if any(unit is None or not can_be_captured(unit) for unit in after):
            return []
        places = _places(units, swap)
        if not places:
            continue
        calls = [unit for unit, calls in zip(after, swap.after, strict=True) for _ in range(round(calls.calls))]
        is_changed = True
        first = min(places)
        rest = [unit for place, unit in enumerate(units) if place not in places]
        units = [*rest[:first], *(unit for unit in calls if unit is not None), *rest[first:]]
    return units if is_changed else []


def _places(units: list[Unit], swap: Swap) -> set[int]:
    """Where the units before the change are, as often as it says."""
    left = {calls.unit: round(calls.calls) for calls in swap.before}
    places = set()
    for place, unit in enumerate(units):
        if left.get(unit.id, 0) > 0:
            left[unit.id] -= 1
            places.add(place)
    return places

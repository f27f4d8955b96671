"""Variants of an experiment while they are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from warplens.proof.experiments.finding_units import UnitInStep
from warplens.proof.experiments.unit_edits import NoExperiment
from warplens_run.formats.proof_plan import Settings, Swap, UnitCalls, Variant
from warplens_run.formats.replay_plan import Unit

MOST_UNITS: Final = 24
"""That are run one by one for a finding: the longest, which take nearly all of its time."""


@dataclass
class ChangedUnits:
    """Variants while they are made, with the units that they need besides the recorded ones."""

    variants: list[Variant] = field(default_factory=list)
    units: dict[str, Unit] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def swap_each(
        self,
        name: str,
        members: Sequence[UnitInStep],
        change: Callable[[Unit], Unit],
        *,
        settings: Settings | None = None,
        with_units: Callable[[Unit], Sequence[Unit]] = lambda unit: (),
    ) -> None:
        """A variant in which each unit is replaced by a changed one, and by others that this one needs; units that
        cannot be are left out."""
        swaps: list[Swap] = []
        for member in members[:MOST_UNITS]:
            try:
                unit = change(member.unit)
            except NoExperiment as reason:
                self.refused.append(str(reason))
                continue
            after = (unit, *with_units(member.unit))
            self.units |= {own.id: own for own in after}
            before = (calls_of(member.unit, member.calls),)
            swaps.append(Swap(before, tuple(calls_of(own, member.calls) for own in after), reference=member.unit.id))
        if swaps:
            self.variants.append(Variant(name, tuple(swaps), settings or {}))

    def add(self, variants: Sequence[Variant], units: Sequence[Unit]) -> None:
        self.variants += variants
        self.units |= {unit.id: unit for unit in units}


def calls_of(unit: Unit, calls: float) -> UnitCalls:
    return UnitCalls(unit.id, calls)

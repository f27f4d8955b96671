"""The units that a finding is about: those whose calls launched the GPU events of its edits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from warplens.analyses.graph.editing import Members
from warplens.model.edits import FuseWork, ReplaceWork, ScaleWork
from warplens.model.finding import Finding
from warplens.model.trace import Bools
from warplens.proof.experiments.call_runs import RecordedCalls
from warplens_run.formats.replay_plan import READY, Argument, Unit


@dataclass(frozen=True)
class UnitInStep:
    """A unit, and its calls in a step, or in the trace where no steps are marked."""

    unit: Unit
    calls: float


@dataclass(frozen=True)
class FindingUnits:
    """What a finding is about, as units that can run and reasons why others cannot."""

    finding: Finding
    units: tuple[UnitInStep, ...]
    traced_ns: float
    """GPU time of the events, per step."""
    refused: tuple[str, ...]
    """Why some of the events belong to no unit that can run."""
    events: Bools
    """Which rows of the trace the finding is about."""
    recorded: RecordedCalls

    @property
    def why_none(self) -> str:
        return self.refused[0] if self.refused else "none of its GPU events belongs to an op that can be run again"


def units_of(finding: Finding, recorded: RecordedCalls, members: Members) -> FindingUnits:
    work, units = recorded.work, recorded.units
    chosen = np.zeros(len(work.trace), bool)
    for edit in finding.edits:
        if isinstance(edit, (ScaleWork, FuseWork, ReplaceWork)):
            chosen[members(edit.work)] = True
    steps = work.trace.steps.height
    if steps:
        chosen &= work.trace.ints("step") >= 0
    ids = np.flatnonzero(chosen)
    calls = recorded.calls
    pieces = calls.pieces.filter(pl.col("id").is_in(pl.Series(ids).implode()))
    counts = dict(pieces.group_by("unit").agg(pl.col("call").n_unique()).iter_rows())
    reasons = calls.rest.filter(pl.col("id").is_in(pl.Series(ids).implode()))["reason"].unique(maintain_order=True)
    ready = [
        UnitInStep(units[number], count * recorded.per_step)
        for number, count in sorted(counts.items())
        if units[number].status == READY
    ]
    refused = dict.fromkeys(units[number].reason for number in sorted(counts) if units[number].status != READY)
    traced_ns = float(work.trace.ints("dur_ns")[ids].sum()) * recorded.per_step
    return FindingUnits(finding, tuple(ready), traced_ns, (*refused, *reasons.to_list()), chosen, recorded)


def merged(units: Sequence[UnitInStep]) -> list[UnitInStep]:
    """Units that differ in numbers alone as one of them: an optimizer's change with every step."""
    alike: dict[object, UnitInStep] = {}
    for member in units:
        unit = member.unit
        key = (unit.op, unit.overload, unit.storages, tuple(map(_without_number, unit.arguments)))
        first = alike.setdefault(key, UnitInStep(unit, 0.0))
        alike[key] = UnitInStep(first.unit, first.calls + member.calls)
    return list(alike.values())


def _without_number(argument: Argument) -> Argument:
    is_number = argument.kind in ("int", "float")
    items = tuple(map(_without_number, argument.items))
    return replace(argument, value=None if is_number else argument.value, items=items)


def most_of(units: Sequence[UnitInStep], share: float) -> list[UnitInStep]:
    """The longest that together take this share of the time."""
    kept: list[UnitInStep] = []
    left = share * sum(member.calls * member.unit.times.median_ns for member in units)
    for member in longest_first(units):
        if left <= 0:
            break
        kept.append(member)
        left -= member.calls * member.unit.times.median_ns
    return kept


def longest_first(units: Sequence[UnitInStep]) -> list[UnitInStep]:
    return sorted(units, key=lambda member: -member.calls * member.unit.times.median_ns)

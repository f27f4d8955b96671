"""Copies into another memory layout, left out: what comes next reads the layout as it was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from warplens.proof.experiments.changed_units import ChangedUnits
from warplens.proof.experiments.finding_units import FindingUnits
from warplens.proof.experiments.unit_edits import NoExperiment, tensors_of, with_tensors
from warplens_run.formats.proof_plan import Swap, UnitCalls, Variant
from warplens_run.formats.replay_plan import READY, TensorView, Unit

COPY = "aten::copy_"


def read_as_it_was(about: FindingUnits, changed: ChangedUnits) -> None:
    """WL211: an op that follows a copy reads what the copy read, where it has an operand of that shape."""
    units: dict[str, Unit] = {}
    swaps: list[Swap] = []
    for member in about.units:
        for follower, calls, unit in _changed_followers(member.unit, about):
            units[unit.id] = unit
            before = (UnitCalls(member.unit.id, calls), UnitCalls(follower.id, calls))
            swaps.append(Swap(before, (UnitCalls(unit.id, calls),), reference=follower.id))
    if not swaps:
        raise NoExperiment("no op that follows one of them reads its result in a layout that could be another")
    changed.add([Variant("read as it was", tuple(swaps))], list(units.values()))


def _changed_followers(copy: Unit, about: FindingUnits) -> Iterator[tuple[Unit, float, Unit]]:
    views = tensors_of(copy)
    if copy.op != COPY or len(views) != 2:
        return
    target, source = views
    if target.shape != source.shape or target.dtype != source.dtype or target.stride == source.stride:
        return
    for follower, calls in about.recorded.followers(copy):
        reads = [view for view in tensors_of(follower) if _are_alike(view, target)]
        if follower.status == READY and reads:
            name = f"after{copy.id}"
            yield follower, calls, with_tensors(follower, name, lambda view: _as_it_was(view, target, source))


def _are_alike(view: TensorView, other: TensorView) -> bool:
    return (view.shape, view.stride, view.dtype) == (other.shape, other.stride, other.dtype)


def _as_it_was(view: TensorView, target: TensorView, source: TensorView) -> TensorView:
    return replace(view, stride=source.stride) if _are_alike(view, target) else view

"""Triton kernels that the program launches itself, with another grid."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from warplens.proof.experiments.finding_units import FindingUnits, UnitInStep
from warplens.proof.experiments.unit_edits import NoExperiment
from warplens.proof.plan_file import Swap, UnitCalls, Variant
from warplens.replay.plan_file import Unit
from warplens.units import plural

READS_GRID: Final = "num_programs("
"""In the source of a kernel that divides its work by the number of its blocks: any number of them will do."""
PER_MULTIPROCESSOR: Final = (1, 4, 32)


def other_grids(about: FindingUnits) -> tuple[list[Variant], list[Unit]]:
    """WL209, WL210: blocks for whole waves, of kernels that take any number of them."""
    multiprocessors = about.recorded.multiprocessors
    members = [member for member in about.units if _takes_any_grid(member, about)]
    if not members or not multiprocessors:
        raise NoExperiment("how many blocks a kernel has is decided by its source and by what it computes")
    variants: list[Variant] = []
    units: dict[str, Unit] = {}
    for number in PER_MULTIPROCESSOR:
        swaps = []
        for member in members:
            unit = _with_blocks(member.unit, number * multiprocessors)
            units[unit.id] = unit
            before, after = UnitCalls(member.unit.id, member.calls), UnitCalls(unit.id, member.calls)
            swaps.append(Swap((before,), (after,), reference=member.unit.id))
        variants.append(Variant(f"{plural(number, 'block')} per multiprocessor", tuple(swaps)))
    return variants, list(units.values())


def _takes_any_grid(member: UnitInStep, about: FindingUnits) -> bool:
    """Grids of one dimension only: of several, the source may read any."""
    triton = member.unit.triton
    if triton is None or len([side for side in triton.grid if side > 1]) > 1 or not triton.grid:
        return False
    return READS_GRID in about.recorded.sources.get(triton.source, "")


def _with_blocks(unit: Unit, blocks: int) -> Unit:
    assert unit.triton is not None
    grid = (blocks, *unit.triton.grid[1:])
    return replace(unit, id=f"{unit.id}.blocks{blocks}", triton=replace(unit.triton, grid=grid))

"""Triton kernels that the program launches itself, with another grid."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from warplens.proof.experiments.changed_units import ChangedUnits
from warplens.proof.experiments.finding_units import FindingUnits, UnitInStep
from warplens.proof.experiments.unit_edits import NoExperiment
from warplens_run.base.units import plural
from warplens_run.formats.replay_plan import Unit

READS_GRID: Final = "num_programs("
"""In the source of a kernel that divides its work by the number of its blocks: any number of them will do."""
PER_MULTIPROCESSOR: Final = (1, 4, 32)


def change_grids(about: FindingUnits, changed: ChangedUnits) -> None:
    """WL209, WL210: blocks for whole waves, of kernels that take any number of them."""
    multiprocessors = about.recorded.multiprocessors
    members = [member for member in about.units if _takes_any_grid(member, about)]
    if not members or not multiprocessors:
        raise NoExperiment("how many blocks a kernel has is decided by its source and by what it computes")
    for number in PER_MULTIPROCESSOR:
        blocks = number * multiprocessors
        changed.swap_each(
            f"{plural(number, 'block')} per multiprocessor", members, partial(_with_blocks, blocks=blocks)
        )


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

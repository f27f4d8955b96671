"""Conditions that part the lanes of a warp: PTX says what decides them, machine code what is run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from warplens.kernel_lab.cuda.activity import Activity
from warplens.kernel_lab.cuda.evaluating import Evaluation
from warplens.kernel_lab.cuda.lanes import REASONS, UNIFORM, Value
from warplens.kernel_lab.facts.locations import users_place
from warplens.kernel_lab.facts.machine import Instruction
from warplens.kernel_lab.facts.records import Branch, SourcePlace

_JUMPS: Final = ("BRA", "BRX", "JMP", "BREAK", "CALL", "RET")
_BARRIERS: Final = {"sync": "sync", "arrive": "arrive", "red": "reduce"}
_GUARD: Final = "@"


def branches(
    evaluation: Evaluation, activity: Activity, machine: Sequence[Instruction], sass: str
) -> tuple[Branch, ...]:
    """One record per line: that of the condition which parts lanes most."""
    lines = sass.splitlines()
    by_line: dict[SourcePlace, Branch] = {}
    for block, condition in evaluation.branches.items():
        jump = evaluation.flow.blocks[block].condition
        place = users_place(jump.frames) if jump else None
        if place is None:
            continue
        line = SourcePlace(place.file, place.line)
        branch = _branch(line, condition, block, evaluation, activity, machine, lines)
        if line not in by_line or _rank(branch) > _rank(by_line[line]):
            by_line[line] = branch
    return tuple(by_line[line] for line in sorted(by_line))


def _rank(branch: Branch) -> int:
    return REASONS.index(branch.difference)


def _branch(
    line: SourcePlace,
    condition: Value,
    block: int,
    evaluation: Evaluation,
    activity: Activity,
    machine: Sequence[Instruction],
    sass: Sequence[str],
) -> Branch:
    difference, lanes, warps = condition.difference, None, None
    if condition.is_known:
        active = activity.of(block)
        taken = ((condition.known != 0) & active).sum(axis=1)
        apart = np.flatnonzero((taken > 0) & (taken < active.sum(axis=1)))
        warps = len(apart)
        lanes = int(taken[apart[0]]) if len(apart) else None
        difference = difference if len(apart) else UNIFORM
    own = [i for i in machine if i.place is not None and (i.place.file, i.place.line) == (line.file, line.line)]
    jumps = [i for i in own if i.name.partition(".")[0] in _JUMPS and _GUARD in sass[i.position].partition(i.name)[0]]
    regions = [i for i in own if i.name.startswith("BSSY")]
    return Branch(line, difference, lanes, warps, evaluation.flow.in_loop(block), len(jumps), len(regions))

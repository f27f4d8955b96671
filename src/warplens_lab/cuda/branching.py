"""Conditions that part the lanes of a warp: PTX says what decides them, machine code what is run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from warplens_lab.cuda.activity import Activity, Mask
from warplens_lab.cuda.evaluating import Evaluation
from warplens_lab.cuda.flow import EXIT
from warplens_lab.cuda.lanes import DATA, REASONS, THREAD, UNIFORM, Value
from warplens_lab.cuda.operands import results
from warplens_lab.cuda.ptx import Statement
from warplens_lab.cuda.text import code_only
from warplens_lab.facts.locations import users_place
from warplens_lab.facts.machine import Instruction
from warplens_lab.facts.records import Branch, SourcePlace

_JUMPS: Final = ("BRA", "BRX", "JMP", "BREAK", "CALL", "RET")
_GUARD: Final = "@"
_CHOICES: Final = ("setp", "selp", "slct", "set", "min", "max")
"""What an `if` becomes that chooses between values."""
_IF = re.compile(r"\b(?:if|switch)\b")
_CONDITION = re.compile(r"\b(?:if|switch|while|for|do)\b|\?|&&|\|\|")
"""A condition of the source; a library's function has some of its own."""
_WAITS: Final = (".acquire", ".volatile", "atom.", "nanosleep")
"""In a loop that waits for others, whose turns are no work."""
_TOGETHER: Final = (".aligned", ".sync")
BranchAndBody = tuple[Branch, frozenset[SourcePlace]]
"""With the lines that only some of the lanes are at."""


def branches(
    evaluation: Evaluation, activity: Activity, machine: Sequence[Instruction], sass: str
) -> tuple[Branch, ...]:
    """One record per line: that of the condition which parts lanes most, of equal ones that with the largest body."""
    sources = _Sources()
    by_line: dict[SourcePlace, BranchAndBody] = {}
    for branch, body in _jumping(evaluation, activity):
        other = by_line.get(branch.place)
        by_line[branch.place] = _together(*other, branch, body) if other else (branch, body)
    for branch in _selecting(evaluation, sources):
        by_line.setdefault(branch.place, (branch, frozenset()))
    lines = sass.splitlines()
    jumps = [i for i in machine if i.name.partition(".")[0] in _JUMPS and _is_guarded(i, lines)]
    listed = []
    for line, (branch, body) in sorted(by_line.items()):
        own = [i for i in jumps if _at(i) == line]
        # The assembler may give a jump the line of what it jumps over.
        own = own or [i for i in jumps if _at(i) in body and _at(i) not in by_line]
        regions = [i for i in machine if _at(i) == line and i.name.startswith("BSSY")]
        if not sources.has(_CONDITION, line):
            branch = replace(branch, body_instructions=0, has_loop=False, has_call=False, turns=False)
        is_predicated = bool(machine) and not own and branch.difference in (THREAD, DATA)
        is_predicated &= sources.has(_CONDITION, line)
        listed.append(replace(branch, jumps=len(own), regions=len(regions), is_predicated=is_predicated))
    return tuple(listed)


def _together(
    one: Branch, body: frozenset[SourcePlace], other: Branch, other_body: frozenset[SourcePlace]
) -> BranchAndBody:
    """Two conditions of a line: what parts lanes more, or a loop's first and its further turns."""
    if one.difference != other.difference:
        first, lines = max((one, body), (other, other_body), key=lambda pair: REASONS.index(pair[0].difference))
        return first, lines
    together = replace(
        one,
        lanes=one.lanes if one.lanes is not None else other.lanes,
        warps=one.warps if one.lanes is not None else other.warps,
        in_loop=one.in_loop or other.in_loop,
        body_instructions=max(one.body_instructions, other.body_instructions),
        has_loop=one.has_loop or other.has_loop,
        has_call=one.has_call or other.has_call,
        turns=one.turns or other.turns,
    )
    return together, body | other_body


class _Sources:
    """The lines of the user's files: what a function of a library decides counts at the line that calls it."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def has(self, pattern: re.Pattern[str], place: SourcePlace) -> bool:
        if place.file not in self._lines:
            path = Path(place.file)
            text = path.read_text("utf-8", errors="replace") if path.is_file() else ""
            self._lines[place.file] = code_only(text).splitlines()
        lines = self._lines[place.file]
        return 0 < place.line <= len(lines) and pattern.search(lines[place.line - 1]) is not None


def _is_guarded(instruction: Instruction, lines: Sequence[str]) -> bool:
    return _GUARD in lines[instruction.position].partition(instruction.name)[0]


def _at(instruction: Instruction) -> SourcePlace | None:
    place = instruction.place
    return SourcePlace(place.file, place.line) if place is not None else None


def _line(statement: Statement) -> SourcePlace | None:
    place = users_place(statement.frames)
    return SourcePlace(place.file, place.line) if place is not None else None


def _jumping(evaluation: Evaluation, activity: Activity) -> Iterator[BranchAndBody]:
    """Conditions that PTX jumps by."""
    flow = evaluation.flow
    for block, condition in evaluation.branches.items():
        jump, sides = flow.blocks[block].condition, flow.blocks[block].successors
        line = _line(jump) if jump else None
        if line is None:
            continue
        difference, lanes, warps = _parted(condition, activity.of(block))
        blocks = flow.parted(block) - {EXIT}
        body = [statement for b in blocks for statement in flow.blocks[b].statements if not statement.is_branch]
        is_loops = any(block in loop and not loop.issuperset(sides) for loop in flow.loops)
        waits = is_loops and any(word in statement.name for statement in body for word in _WAITS)
        # What the lanes of a warp do together, they only do where all of them take that way.
        is_agreed = any(word in statement.name for statement in body for word in _TOGETHER)
        # Lanes that end leave the rest of the kernel to the others: that is no body.
        only_ends = any(side == EXIT or flow.blocks[side].statements[0].ends for side in sides)
        branch = Branch(line, difference, lanes, warps, flow.in_loop(block), jumps=0, regions=0, turns=is_loops)
        if not waits and not only_ends and not is_agreed:
            branch = replace(
                branch,
                body_instructions=len(body),
                has_loop=is_loops or any(loop <= blocks for loop in flow.loops),
                has_call=any(statement.base == "call" for statement in body),
            )
        yield branch, frozenset(place for place in map(_line, body) if place is not None)


def _parted(condition: Value, active: Mask) -> tuple[str, int | None, int | None]:
    """Why lanes differ; where it is known, lanes that jump of the first warp in which they do, and such warps."""
    if not condition.is_known:
        return condition.difference, None, None
    taken = ((condition.known != 0) & active).sum(axis=1)
    apart = np.flatnonzero((taken > 0) & (taken < active.sum(axis=1)))
    difference = condition.difference if len(apart) else UNIFORM
    return difference, int(taken[apart[0]]) if len(apart) else None, len(apart)


def _selecting(evaluation: Evaluation, sources: _Sources) -> Iterator[Branch]:
    """Lines with an `if` for which PTX chooses between values or guards single statements."""
    for block in evaluation.flow.order:
        for statement in evaluation.flow.blocks[block].statements:
            line, names = _line(statement), results(statement)
            if statement.base not in _CHOICES or not names or line is None or not sources.has(_IF, line):
                continue
            # What a selection is decided by is its last operand; of a comparison and a maximum it is the result.
            decides = statement.operands[-1] if statement.base in ("selp", "slct") else names[0]
            difference = evaluation.value(decides, block).difference
            if difference in (THREAD, DATA):
                yield Branch(line, difference, None, None, evaluation.flow.in_loop(block), jumps=0, regions=0)

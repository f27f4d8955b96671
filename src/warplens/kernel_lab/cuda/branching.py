"""Conditions that part the lanes of a warp, and barriers: PTX says what decides them, machine code what is run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from warplens.kernel_lab.cuda.activity import Activity
from warplens.kernel_lab.cuda.evaluating import Evaluation
from warplens.kernel_lab.cuda.flow import EXIT
from warplens.kernel_lab.cuda.lanes import EDGE, REASONS, UNIFORM, Value
from warplens.kernel_lab.cuda.ptx import Statement
from warplens.kernel_lab.facts.locations import users_place
from warplens.kernel_lab.facts.machine import Instruction
from warplens.kernel_lab.facts.records import BarrierUse, Branch, SourcePlace

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


def barriers(evaluation: Evaluation, activity: Activity) -> tuple[BarrierUse, ...]:
    """One record per line, kind and number of threads; where a loop was unrolled, all its turns together."""
    groups: dict[tuple[SourcePlace, str, int], list[BarrierUse]] = {}
    for use in _barriers(evaluation, activity):
        groups.setdefault((use.place, use.kind, use.threads or 0), []).append(use)
    return tuple(_together(groups[key]) for key in sorted(groups))


def _together(uses: Sequence[BarrierUse]) -> BarrierUse:
    numbers = [number for use in uses for number in (use.first, use.last)]
    known = [number for number in numbers if number is not None]
    is_known = len(known) == len(numbers)
    return replace(
        uses[0],
        first=min(known) if is_known else None,
        last=max(known) if is_known else None,
        warps=tuple(sorted({warp for use in uses for warp in use.warps})),
        in_loop=any(use.in_loop for use in uses),
        parted_by=next((use.parted_by for use in uses if use.parted_by is not None), None),
    )


def _barriers(evaluation: Evaluation, activity: Activity) -> Iterator[BarrierUse]:
    flow = evaluation.flow
    parting = list(_parting(evaluation))
    for block in flow.order:
        for statement in flow.blocks[block].statements:
            words = statement.name.split(".")
            kind = next((_BARRIERS[word] for word in words[1:] if word in _BARRIERS), None)
            place = _kernel_line(statement)
            if (
                words[0] not in ("bar", "barrier")
                or "warp" in words
                or "cluster" in words
                or kind is None
                or place is None
            ):
                continue
            first, last = _number(statement, kind, 0, evaluation, block)
            threads, _ = _number(statement, kind, 1, evaluation, block)
            apart = next((line for line, blocks in parting if block in blocks), None)
            yield BarrierUse(
                SourcePlace(place.file, place.line), kind, first, last, threads, activity.warps(block),
                flow.in_loop(block), apart if kind != "arrive" else None,
            )  # fmt: skip


def _kernel_line(statement: Statement) -> SourcePlace | None:
    """Of a helper that holds the barrier, where the kernel calls it: that says whose barrier it is."""
    first = users_place(statement.frames)
    return None if first is None else statement.frames[-1]


def _number(
    statement: Statement, kind: str, at: int, evaluation: Evaluation, block: int
) -> tuple[int | None, int | None]:
    """An operand's lowest and highest value."""
    operands = statement.operands[1:] if kind == "reduce" else statement.operands
    if at >= len(operands) or operands[at].startswith(("%p", "!")):
        return None, None
    value = evaluation.value(operands[at], block)
    if not value.is_known or not value.is_uniform:
        return None, None
    low, high = int(value.known.min()), int(value.known.max())
    for symbol, factor in value.terms:
        if symbol not in evaluation.ranges:
            return None, None
        ends = [factor * end for end in evaluation.ranges[symbol]]
        low, high = low + min(ends), high + max(ends)
    return low, high


def _parting(evaluation: Evaluation) -> Iterator[tuple[SourcePlace, set[int]]]:
    """Conditions that part the lanes of a warp, and the blocks that these are in apart.

    Lanes that have ended are not waited for, so a condition after which the others only end does not count.
    """
    flow = evaluation.flow
    for block, condition in evaluation.branches.items():
        jump = flow.blocks[block].condition
        place = users_place(jump.frames) if jump else None
        meeting = flow.meeting(block)
        only_ends = meeting == EXIT or all(statement.ends for statement in flow.blocks[meeting].statements)
        # How often a loop turns may be the same for all lanes although each compares an index of its own.
        leaves = condition.difference == EDGE and any(
            block in loop and not set(flow.blocks[block].successors) <= loop for loop in flow.loops
        )
        if place is not None and condition.difference != UNIFORM and not only_ends and not leaves:
            yield SourcePlace(place.file, place.line), flow.parted(block)

"""What `kernel puzzles` says on a screen: the exercises, and the checker's word on an answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from warplens_lab.puzzles.catalogue import PUZZLES, after
from warplens_lab.puzzles.files import status_in
from warplens_run.base.units import format_bytes, format_count

if TYPE_CHECKING:
    from warplens_lab.puzzles.records import Costs, Problem, Puzzle, Report

MOST_PROBLEMS = 3
INDENT = "      "


def list_lines(folder: Path | None) -> Iterator[str]:
    """Two lines per puzzle: what it asks for, and what it teaches. With a folder, where its file stands."""
    names = max(len(puzzle.name) for puzzle in PUZZLES)
    levels = max(len(puzzle.level) for puzzle in PUZZLES)
    for puzzle in PUZZLES:
        status = f"{status_in(folder, puzzle):<13}" if folder is not None else ""
        head = f"{puzzle.number:>2} {puzzle.name:<{names}}  {puzzle.level:<{levels}}  {status}"
        yield f"{head}{puzzle.task}"
        yield f"{'':<{len(head)}}→ {puzzle.teaches}"
    if folder is not None:
        solved = sum(status_in(folder, puzzle) == "solved" for puzzle in PUZZLES)
        yield f"{solved} of {len(PUZZLES)} solved in {folder}"


def result_lines(report: Report, puzzle: Puzzle, page: Path | None, *, whole: bool, width: int) -> Iterator[str]:
    """`whole`: with everything that is known; else one line."""
    name = f"{puzzle.number:>2} {puzzle.name}"
    if report.trouble:
        yield f"{name}: cannot be checked. {report.trouble}"
        return
    if not report.passed:
        reached = f"case {report.cases_passed + 1} of {report.cases}"
        if not whole:
            yield f"{name}: not yet, {reached}: {report.problems[0].text}"
            return
        yield f"{name}: not yet. It fails in {reached}: {report.case}"
        yield from _problems(report, width)
        if page is not None:
            yield ""
            yield f"   look at it: {page}"
        return
    yield f"{name}: solved, all {report.cases} cases"
    if whole and report.costs is not None:
        yield from _costs(report.costs)
        yield from _onwards(report, puzzle, page)


def _problems(report: Report, width: int) -> Iterator[str]:
    advised: set[str] = set()
    for problem in report.problems[:MOST_PROBLEMS]:
        yield ""
        yield from _problem(problem, "" if problem.advice in advised else problem.advice, width)
        advised.add(problem.advice)
    left = len(report.problems) - MOST_PROBLEMS
    if left > 0:
        yield ""
        yield f"   and {left} more, on the page"


def _problem(problem: Problem, advice: str, width: int) -> Iterator[str]:
    yield from wrap(problem.text, width, initial_indent="   ", subsequent_indent="   ")
    for spot in problem.spots:
        yield f"{INDENT}{spot.program}, line {spot.line}:  {spot.statement}"
    for detail in problem.details:
        yield from wrap(detail, width, initial_indent=INDENT, subsequent_indent=INDENT + "  ")
    if advice:
        yield from wrap(f"→ {advice}", width, initial_indent=INDENT, subsequent_indent=INDENT + "  ")


def _costs(costs: Costs) -> Iterator[str]:
    yield f"   with {costs.case}:"
    yield f"{INDENT}loaded {_against(costs.loaded_bytes, costs.least_loaded_bytes)}"
    yield f"{INDENT}stored {_against(costs.stored_bytes, costs.least_stored_bytes)}"
    if costs.flop:
        least = f", {costs.flop / costs.least_flop:.2f}× the least" if costs.least_flop else ""
        yield f"{INDENT}FLOPs  {format_count(costs.flop)}{least}"
    if costs.goal:
        yield f"{INDENT}goal   {costs.goal}: {'met' if costs.goal_met else 'not yet'} ({costs.goal_value})"
    if not costs.goal_met:
        yield from (f"{INDENT}       {note}" for note in costs.notes)


def _against(moved: int, least: int) -> str:
    ratio = moved / least if least else 1.0
    return f"{format_bytes(moved)}, {'the least there is' if ratio <= 1.005 else f'{ratio:.2f}× the least'}"


def _onwards(report: Report, puzzle: Puzzle, page: Path | None) -> Iterator[str]:
    if page is not None:
        yield f"   look at it: {page}"
    yield f"   what a GPU's compiler makes of it: warplens kernel check {report.file}::{puzzle.name} \\"
    yield f'       --signature "{report.signature}"'
    following = after(puzzle)
    if following is None:
        yield "   that was the last one"
    else:
        yield f"   next: {following.number} {following.name}, {following.task}"

"""An answer against all cases of its puzzle."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import as_file
from pathlib import Path
from typing import Any, Final

from warplens_lab.puzzles.answer import BadAnswer, kernel_of
from warplens_lab.puzzles.explaining import problems_of, time_is_up_on_import
from warplens_lab.puzzles.files import resource_of
from warplens_lab.puzzles.limits import OutOfTime, TimeLimit
from warplens_lab.puzzles.measuring import costs_of
from warplens_lab.puzzles.records import Case, Puzzle, Report
from warplens_lab.puzzles.running import CaseRun, run_case
from warplens_lab.tracing import KernelTrace

DTYPES: Final = {"float32": "fp32", "float16": "fp16", "int32": "i32", "int8": "i8", "uint8": "u8"}
DIVISIBLE: Final = 16


@dataclass(frozen=True)
class AnswerCheck:
    """The report, and the launch it is about: the first that failed, else the one whose costs are reported."""

    report: Report
    trace: KernelTrace | None
    stopped_midway: bool = False
    """Whether the time limit had to stop code other than the answer's: this process cannot check another file."""


def check_file(file: Path, puzzle: Puzzle, seconds: float | None = None) -> AnswerCheck:
    """Runs the file's kernel on every case until one fails. The file is imported here, in this process.

    `seconds` is the CPU time that its code may take; None for no limit.
    """
    limit = TimeLimit(seconds, str(file.resolve()))
    try:
        return replace(_checked(file, puzzle, limit), stopped_midway=limit.forced)
    except BadAnswer as error:
        report = Report(puzzle.name, str(file), False, 0, len(puzzle.cases), trouble=str(error))
    except (OutOfTime, Exception):
        # Code that was stopped midway may leave anything behind, and later raise anything.
        if limit.expiry is None:
            raise
        problem = time_is_up_on_import(file, limit.expiry)
        report = Report(puzzle.name, str(file), False, 0, len(puzzle.cases), "", (problem,), trouble=problem.text)
    return AnswerCheck(report, None, limit.forced)


def _checked(file: Path, puzzle: Puzzle, limit: TimeLimit) -> AnswerCheck:
    path, total = file.resolve(), len(puzzle.cases)
    kernel = kernel_of(path, puzzle, limit)
    runs: list[CaseRun] = []
    for number, sizes in enumerate(puzzle.cases):
        run = run_case(puzzle, number, kernel, path, limit)
        problems = problems_of(run, partial(_reference, puzzle, number))
        if problems:
            report = Report(puzzle.name, str(file), False, number, total, sizes.text, problems)
            return AnswerCheck(report, _for_the_page(run.trace, sizes.text, problems[0].text))
        runs.append(run)
    chosen = runs[puzzle.measured]
    text = puzzle.cases[puzzle.measured].text
    costs = costs_of(puzzle, text, chosen.case, chosen.trace.launches[0])
    report = Report(puzzle.name, str(file), True, total, total, text, (), costs, signature_of(chosen.case))
    return AnswerCheck(report, _for_the_page(chosen.trace))


def _for_the_page(trace: KernelTrace, *notes: str) -> KernelTrace:
    """With what it is about, and without the place of the launch, which is in the checker."""
    launches = tuple(replace(launch, called_from=(), notes=notes) for launch in trace.launches)
    return replace(trace, launches=launches)


def _reference(puzzle: Puzzle, number: int) -> CaseRun:
    with as_file(resource_of(puzzle, "solution")) as path:
        return run_case(puzzle, number, kernel_of(path, puzzle), path)


def signature_of(case: Case) -> str:
    """The launch as `warplens kernel check --signature` takes it."""
    return ", ".join(_entry(name, value) for name, value in case.arguments.items())


def _entry(name: str, value: Any) -> str:
    if hasattr(value, "data_ptr"):
        return f"*{DTYPES[str(value.dtype).removeprefix('torch.')]}:{DIVISIBLE}"
    if name.isupper():
        return str(value)
    if isinstance(value, float):
        return "fp32"
    return f"i32:{DIVISIBLE}" if value % DIVISIBLE == 0 else "i32"

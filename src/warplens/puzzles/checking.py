"""An answer against all cases of its puzzle."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import as_file
from pathlib import Path
from typing import Any, Final

from warplens.kernel_lab.tracing import KernelTrace
from warplens.puzzles.answer import BadAnswer, kernel_of
from warplens.puzzles.explaining import problems_of
from warplens.puzzles.files import place_of
from warplens.puzzles.limits import OutOfTime
from warplens.puzzles.measuring import costs_of
from warplens.puzzles.records import Case, Puzzle, Report
from warplens.puzzles.running import Run, run_case

DTYPES: Final = {"float32": "fp32", "float16": "fp16", "int32": "i32", "int8": "i8", "uint8": "u8"}
DIVISIBLE: Final = 16


@dataclass(frozen=True)
class Checked:
    """The report, and the launch it speaks of: the first that failed, else the one whose costs are told."""

    report: Report
    trace: KernelTrace | None


def check_file(file: Path, puzzle: Puzzle) -> Checked:
    """Runs the file's kernel on every case until one fails. The file is imported here, in this process."""
    path = file.resolve()
    total = len(puzzle.cases)
    try:
        kernel = kernel_of(path, puzzle)
        runs: list[Run] = []
        for number, sizes in enumerate(puzzle.cases):
            run = run_case(puzzle, number, kernel, path)
            problems = problems_of(run, partial(_reference, puzzle, number))
            if problems:
                report = Report(puzzle.name, str(file), False, number, total, sizes.text, problems)
                return Checked(report, _for_the_page(run.trace, sizes.text, problems[0].text))
            runs.append(run)
    except BadAnswer as error:
        return Checked(Report(puzzle.name, str(file), False, 0, total, trouble=str(error)), None)
    except OutOfTime:
        trouble = f"{file.name} is still running when the time is up, outside of its kernel"
        return Checked(Report(puzzle.name, str(file), False, 0, total, trouble=trouble), None)
    chosen = runs[puzzle.measured]
    text = puzzle.cases[puzzle.measured].text
    costs = costs_of(puzzle, text, chosen.case, chosen.trace.launches[0])
    signature = signature_of(chosen.case)
    return Checked(
        Report(puzzle.name, str(file), True, total, total, text, (), costs, signature), _for_the_page(chosen.trace)
    )


def _for_the_page(trace: KernelTrace, *notes: str) -> KernelTrace:
    """With what it is about, and without the place of the launch, which is in the checker."""
    launches = tuple(replace(launch, called_from=(), notes=notes) for launch in trace.launches)
    return replace(trace, launches=launches)


def _reference(puzzle: Puzzle, number: int) -> Run:
    with as_file(place_of(puzzle, "solution")) as path:
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

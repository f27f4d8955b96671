"""Starts the process in which answers are checked, and reads its reports as they come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from warplens_lab.compiling.child import NOT_PASSED_ON
from warplens_lab.puzzles.jobs import NEEDS_NEW_PROCESS, AnswerJob, CheckRequest
from warplens_lab.puzzles.records import Puzzle, Report
from warplens_run.base.errors import MissingExtra
from warplens_run.base.files import write_whole
from warplens_run.processes.child import Child, ChildEnded, environment

SECONDS: Final = 10.0
"""CPU time that one file may take. The longest solution takes less than two."""
START_SECONDS: Final = 120.0
"""For importing PyTorch and Triton from a cold disk, and as the grace beyond the child's own limit."""
WORKER: Final = "warplens_lab.puzzles.worker"
Answer = tuple[Path, Puzzle]


@dataclass(frozen=True)
class AnswerResult:
    """`trace` is the launch that the report is about, if there is one."""

    report: Report
    trace: Path | None


def check_answers(answers: Sequence[Answer], folder: Path, seconds: float = SECONDS) -> Iterator[AnswerResult]:
    """Reports in the order of the answers; traces are left in `folder`. A process that dies costs one answer only."""
    _require_triton()
    traces = [folder / f"{number}.wkt" for number in range(len(answers))]
    variables = environment(without=NOT_PASSED_ON, PYTHONDONTWRITEBYTECODE="1")
    request = folder / "request.json"
    checked = 0
    while checked < len(answers):
        first = checked
        waiting = zip(answers[first:], traces[first:], strict=True)
        jobs = tuple(AnswerJob(str(file), puzzle.name, str(trace)) for (file, puzzle), trace in waiting)
        write_whole(request, msgspec.json.encode(CheckRequest(seconds, jobs)))
        # What the learner's code prints is for the learner.
        with Child(WORKER, str(request), variables=variables, shows_errors=True) as child:
            try:
                while checked < len(answers):
                    line = child.receive(seconds + START_SECONDS)
                    trace = traces[checked]
                    yield AnswerResult(msgspec.json.decode(line, type=Report), trace if trace.exists() else None)
                    checked += 1
                return
            except (TimeoutError, ChildEnded) as error:
                if isinstance(error, ChildEnded) and error.ending.status == NEEDS_NEW_PROCESS and checked > first:
                    continue
                file, puzzle = answers[checked]
                trouble = f"{file.name}: {error}"
        yield AnswerResult(Report(puzzle.name, str(file), False, 0, len(puzzle.cases), trouble=trouble), None)
        checked += 1


def _require_triton() -> None:
    from importlib.util import find_spec

    for package in ("triton", "torch"):
        if find_spec(package) is None:
            raise MissingExtra(package, "triton", "checking a puzzle")

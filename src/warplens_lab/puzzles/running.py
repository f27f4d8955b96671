"""One case of a puzzle, launched in the interpreter under the tracer.

A GPU leaves anything in the lanes that a load's mask switches off and no `other=` fills; the interpreter leaves zeros,
which hides the mistake of using them. Here such lanes hold NaN (integers: -1), and the statements are remembered.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from traceback import walk_tb
from typing import Any, Final

import numpy as np

from warplens_lab.puzzles.answer import check_parameters
from warplens_lab.puzzles.drawing import Draw
from warplens_lab.puzzles.limits import OutOfTime, Program, TimeLimit
from warplens_lab.puzzles.records import Case, Puzzle
from warplens_lab.tracing import KernelTrace, load_interpreter, statement_at, trace

SEED: Final = 7


@dataclass(frozen=True)
class Stop:
    """Why a launch did not finish: the exception, and the program and line it came from (0: not in the answer)."""

    kind: str
    message: str
    program: Program | None
    line: int
    statement: str


@dataclass(frozen=True)
class CaseRun:
    case: Case
    trace: KernelTrace
    stop: Stop | None
    unfilled_lines: tuple[int, ...]
    """Lines of loads whose mask switched lanes off without saying what they hold."""


def run_case(puzzle: Puzzle, number: int, kernel: Any, file: Path, limit: TimeLimit | None = None) -> CaseRun:
    """`limit` is of the answer; without one the launch may take its time."""
    limit = limit or TimeLimit(None, str(file))
    unfilled: set[int] = set()
    stop: Stop | None = None
    interpreter = load_interpreter()
    with trace("record", values=True) as tracing, _junk_in_unfilled_lanes(interpreter, str(file), unfilled):
        # Inside the trace, so that the tracer knows which memory nothing has written.
        case = puzzle.case(number, Draw(SEED + number))
        check_parameters(kernel, puzzle, case.arguments)
        try:
            with np.errstate(all="ignore"), limit.running(lambda: tracing.program):
                kernel[case.grid](**case.arguments)
        except OutOfTime:
            stop = _out_of_time(limit, str(file))
        except Exception as error:  # noqa: BLE001 - the kernel is the learner's: what it raises is the answer
            stop = _stop(error, tracing.program, str(file))
    return CaseRun(case, tracing.trace, stop, tuple(sorted(unfilled)))


@contextmanager
def _junk_in_unfilled_lanes(interpreter: Any, file: str, lines: set[int]) -> Iterator[None]:
    # On the class: the tracer puts its own wrapper on the object and takes it away again.
    builder = type(interpreter.interpreter_builder)
    original = builder.create_masked_load

    @wraps(original)
    def masked_load(self: Any, ptrs: Any, mask: Any, other: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, ptrs, mask, other, *args, **kwargs)
        if other is None and not mask.data.all():
            lanes = np.broadcast_to(mask.data, result.data.shape)
            junk = np.full(result.data.nbytes, 0xFF, np.uint8).view(result.data.dtype).reshape(result.data.shape)
            result.data = np.where(lanes, result.data, junk)
            lines.update(_line_in(file))
        return result

    builder.create_masked_load = masked_load
    try:
        yield
    finally:
        builder.create_masked_load = original


def _line_in(file: str) -> Iterator[int]:
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename == file:
            yield frame.f_lineno
            return
        frame = frame.f_back  # type: ignore[assignment]


def _out_of_time(limit: TimeLimit, file: str) -> Stop:
    line, program = (limit.expiry.line, limit.expiry.program) if limit.expiry else (0, None)
    return Stop(OutOfTime.__name__, "", program, line, statement_at(file, line) if line else "")


def _stop(error: BaseException, program: Program | None, file: str) -> Stop:
    """The tracer raises from the exception that the statement raised."""
    cause = error.__cause__ or error
    lines = [line for frame, line in walk_tb(cause.__traceback__) if frame.f_code.co_filename == file]
    line = lines[-1] if lines else 0
    text = " ".join(str(cause).split())
    return Stop(type(cause).__name__, text, program, line, statement_at(file, line) if line else "")

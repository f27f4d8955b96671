"""What is wrong with an answer, in sentences: the first wrong element and who wrote it, then what the tracer found."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from warplens_lab.puzzles.comparing import (
    LOOKS_LIKE,
    WHOLE,
    Bools,
    WrongOutput,
    box_text,
    described,
    difference,
    mean_error,
)
from warplens_lab.puzzles.faults import faults_of, stray_stores
from warplens_lab.puzzles.limits import Expiry, OutOfTime
from warplens_lab.puzzles.records import Problem, Spot
from warplens_lab.puzzles.running import CaseRun, Stop
from warplens_lab.puzzles.spots import MOST_SPOTS, coordinates, number_of, program_text, spots_of
from warplens_lab.puzzles.writers import Accesses, TracedAccess, storage_elements, tensor_number
from warplens_lab.tracing import KernelFault, statement_at
from warplens_lab.tracing.records import TensorInfo, TracedLaunch
from warplens_run.base.units import plural

NOT_A_NUMBER: Final = (
    "exp of a large number is inf, and inf / inf, inf − inf and 0 · inf are nan: "
    "what is the largest number on the way, and is there a row of nothing but −inf?"
)
NEARLY_RIGHT: Final = 0.1
ROUNDED: Final = (
    "is a part of it computed in float16 that should be float32, or is a difference of two large numbers taken, such "
    "as mean(x²) − mean(x)²?"
)
WRONG_MASK: Final = "is the condition of the mask the right one?"
WRONG_OFFSETS: Final = (
    "is there a program, and an iteration of its loop, for every block? which offsets does each program take?"
)
RAISED: Final = {
    # words of an error of Triton's: what to look at
    "incompatible dimensions": "blocks that meet must have the same size in each dimension, or 1: x[:, None] is a "
    "column, x[None, :] a row. Which index counts the rows of the tile, which its columns?",
    "to have shape": "the addresses, the mask and the values of a load or store have one shape: addresses of one "
    "dimension need a mask of one dimension",
    "same dtype": "tl.dot needs both sides of one type: convert one with .to(…)",
    "power of 2": "tl.arange and tl.zeros take powers of two only: use BLOCK, and a mask for what is too much",
    "is not defined": "is the name spelled as where it is assigned, and is that on every path before?",
    "unexpected keyword": "a keyword that this function of Triton does not have",
}
OUT_OF_TIME: Final = "out_of_time"
ENDLESS: Final = "does every loop come to an end? A step of 0, or a while whose condition never changes, does not"
AGAIN: Final = 1.05
MOST_LINES: Final = 4


def problems_of(run: CaseRun, reference: Callable[[], CaseRun]) -> tuple[Problem, ...]:
    """Nothing where the answer is right and clean; else the reasons, the most informative first.

    `reference` runs the same case with the reference solution, to find what a program should have read.
    """
    problems: list[Problem] = []
    launch = run.trace.launches[0] if run.trace.launches else None
    if run.stop is not None and run.stop.kind != KernelFault.__name__:  # else it is among the faults
        problems.append(_stopped(run.stop, run.case.grid))
    if launch is not None:
        if run.stop is None:
            problems += _wrong_elements(run, launch, reference)
        problems += stray_stores(launch, run.case.expected)
        problems += faults_of(launch, run.case.expected)
    return tuple(problems)


def _stopped(stop: Stop, grid: Sequence[int]) -> Problem:
    where = f"program {coordinates(stop.program, grid)}" if stop.program else "the launch"
    spots = (Spot(where, number_of(stop.program or (0, 0, 0), grid), stop.line, stop.statement),) if stop.line else ()
    if stop.kind == OutOfTime.__name__:
        return Problem(OUT_OF_TIME, f"{where} was still running when the time was up", spots, advice=ENDLESS)
    advice = next((text for words, text in RAISED.items() if words in stop.message), "")
    return Problem("error", f"{where} raised {stop.kind}: {stop.message}", spots, advice=advice)


def time_is_up_on_import(file: Path, expiry: Expiry) -> Problem:
    """The time ran out before the kernel was launched."""
    statement = statement_at(str(file.resolve()), expiry.line) if expiry.line else ""
    where = f", line {expiry.line}" if expiry.line else ""
    text = f"{file.name}{where}: was still running when the time was up, outside of its kernel"
    return Problem(OUT_OF_TIME, text, (Spot("", 0, expiry.line, statement),), advice=ENDLESS)


def _wrong_elements(run: CaseRun, launch: TracedLaunch, reference: Callable[[], CaseRun]) -> Iterator[Problem]:
    for name, expected in run.case.expected.items():
        output = difference(name, run.case.arguments[name], expected, run.case.tolerance)
        if output is not None:
            yield _wrong_element(output, run, launch, reference)
            return


def _wrong_element(
    output: WrongOutput, run: CaseRun, launch: TracedLaunch, reference: Callable[[], CaseRun]
) -> Problem:
    number = tensor_number(launch, output.name)
    element = int(storage_elements(launch.tensors[number])[output.first])
    accesses = Accesses(launch)
    writers = accesses.touching(number, element, active=True)
    expected, actual = float(output.expected[output.first]), float(output.actual[output.first])
    text = f"{output.name}[{', '.join(map(str, output.first))}] should be {expected:.6g}, but "
    problem = Problem("", text, tensor=output.name, index=output.first, expected=expected)
    if not writers:
        return _not_written(problem, output, accesses, number, element)
    details = [
        *_writers_text(writers, element, launch),
        *_had_read(accesses, writers[-1], number, Accesses(reference().trace.launches[0]), element),
        *described(output, run.case.mistakes, run.case.tolerance),
    ]
    recognised = any(detail.startswith(LOOKS_LIKE) for detail in details)
    return replace(
        problem,
        kind="wrong_value",
        text=f"{text}is {actual:.6g}",
        spots=spots_of(writers, launch),
        details=tuple(details),
        advice="" if recognised else _advice_for(actual, run, launch) or _nearly_right(output),
        got=None if math.isnan(actual) else actual,
    )


def _not_written(problem: Problem, output: WrongOutput, accesses: Accesses, number: int, element: int) -> Problem:
    masked = accesses.touching(number, element, active=False)
    return replace(
        problem,
        kind="not_written",
        text=f"{problem.text}no program wrote it",
        spots=spots_of(masked, accesses.launch),
        details=(*_why_not_written(masked, accesses, number, output), *described(output, {}, 0.0)),
        advice=WRONG_MASK if masked else WRONG_OFFSETS,
    )


def _why_not_written(masked: list[TracedAccess], accesses: Accesses, number: int, output: WrongOutput) -> Iterator[str]:
    launch = accesses.launch
    if masked:
        program = program_text(masked[0].program, launch)
        yield f"the store of {program} covers it, but its mask is off there"
        return
    written = accesses.written(number)[storage_elements(launch.tensors[number])]
    if not written.any():
        yield f"no element of {output.name} was written"
        return
    box = box_text(output.name, written)
    where = "" if box.startswith(WHOLE) else f", all of them in {box}"
    yield f"{int(written.sum()):,} of {written.size:,} elements of {output.name} were written{where}"


def _writers_text(writers: Sequence[TracedAccess], element: int, launch: TracedLaunch) -> Iterator[str]:
    programs = list(dict.fromkeys(writer.program for writer in writers))
    if len(programs) > 1:
        listed = ", ".join(program_text(program, launch) for program in programs[:MOST_SPOTS])
        more = f" and {len(programs) - MOST_SPOTS} more" if len(programs) > MOST_SPOTS else ""
        yield f"{len(programs)} programs wrote it: {listed}{more}"
    elif len(writers) > 1:
        yield f"it was written {len(writers)} times, the last of which counts"
    last = writers[-1]
    lanes = int((last.active & (last.elements == element)).sum())
    if lanes > 1 and last.op == "store":
        yield f"{lanes} lanes of one store write it, of which only one counts"


def _had_read(
    accesses: Accesses, writer: TracedAccess, output: int, reference: Accesses, element: int
) -> Iterator[str]:
    """Which part of each input the writer of a wrong element has read, and where the reference solution differs."""
    launch = accesses.launch
    right = {access.program for access in reference.touching(output, element, active=True)}
    parts: list[str] = []
    expected_parts: list[str] = []
    for number, info in enumerate(launch.tensors):
        read = _read(accesses, writer.program, number)
        expected = _read(reference, next(iter(right)), number) if len(right) == 1 else read
        if number == output or not (read.any() or expected.any()):
            continue
        parts.append(_part(info, read, accesses.times_read_by(writer.program, number)))
        if (read != expected).any():
            expected_parts.append(_part(info, expected))
    if parts:
        yield f"{program_text(writer.program, launch)} has read {', '.join(parts)}"
    if expected_parts:
        yield f"for this element the reference solution reads {', '.join(expected_parts)}"


def _read(accesses: Accesses, program: int, tensor: int) -> Bools:
    """Flags in the shape of the tensor: what a program has loaded of it."""
    elements = storage_elements(accesses.launch.tensors[tensor])
    return np.isin(elements, accesses.read_by(program, tensor))


def _part(info: TensorInfo, flags: Bools, times: float = 1.0) -> str:
    count = int(flags.sum())
    if not count:
        return f"nothing of {info.name}"
    often = f", {times:.3g} times over" if times > AGAIN else ""
    return f"{box_text(info.name, flags)} ({plural(count, 'element')}{often})"


def _nearly_right(output: WrongOutput) -> str:
    error = mean_error(output)
    if error > NEARLY_RIGHT:
        return ""
    return f"nearly right, {100 * error:.2g} % off on average: {ROUNDED}"


def _advice_for(actual: float, run: CaseRun, launch: TracedLaunch) -> str:
    """Where a nan may come from; a read of uninitialised memory is reported by itself."""
    lines = run.unfilled_lines[:MOST_LINES]
    if math.isfinite(actual) or any(fault.kind in ("out_of_bounds", "uninitialised_read") for fault in launch.faults):
        return ""
    if math.isnan(actual) and lines:
        listed = ", ".join(map(str, lines))
        loads = f"the load at line {listed} has" if len(lines) == 1 else f"the loads at lines {listed} have"
        return f"{loads} a mask but no other=: the lanes it switches off may hold anything, here nan"
    return NOT_A_NUMBER

"""Starts the process in which answers are checked, and reads its reports as they come."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import IO, Final

import msgspec

import warplens_run
from warplens_lab.compiling.child import NOT_PASSED_ON
from warplens_lab.puzzles.jobs import NEEDS_NEW_PROCESS, AnswerJob, CheckRequest
from warplens_lab.puzzles.records import Puzzle, Report
from warplens_run.base.errors import MissingExtra
from warplens_run.base.files import write_whole

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
    checked = 0
    while checked < len(answers):
        first = checked
        with _process(answers[checked:], traces[checked:], folder / "request.json", seconds) as process:
            alarm = Alarm(process, seconds + START_SECONDS)
            for line in alarm.lines():
                trace = traces[checked]
                yield AnswerResult(msgspec.json.decode(line, type=Report), trace if trace.exists() else None)
                checked += 1
        asked_for_another = process.returncode == NEEDS_NEW_PROCESS and checked > first
        if checked < len(answers) and not asked_for_another:
            file, puzzle = answers[checked]
            trouble = f"{file.name}: {alarm.reason() or _ending(process.returncode)}"
            yield AnswerResult(Report(puzzle.name, str(file), False, 0, len(puzzle.cases), trouble=trouble), None)
            checked += 1


class Alarm:
    """Kills a child that is silent for too long, and knows that it did: the system kills too, for want of memory."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        self._process, self._seconds, self._rang = process, seconds, False

    def lines(self) -> Iterator[bytes]:
        """Lines of the child until it ends."""
        stream: IO[bytes] | None = self._process.stdout
        assert stream is not None
        while True:
            timer = Timer(self._seconds, self._ring)
            timer.start()
            try:
                line = stream.readline()
            finally:
                timer.cancel()
            if not line.endswith(b"\n"):
                return
            yield line

    def reason(self) -> str:
        return f"it did not end within {self._seconds:.0f} s, so its process was ended" if self._rang else ""

    def _ring(self) -> None:
        self._rang = True
        self._process.kill()


@contextmanager
def _process(
    answers: Sequence[Answer], traces: Sequence[Path], request: Path, seconds: float
) -> Iterator[subprocess.Popen[bytes]]:
    jobs = [
        AnswerJob(str(file), puzzle.name, str(trace)) for (file, puzzle), trace in zip(answers, traces, strict=True)
    ]
    write_whole(request, msgspec.json.encode(CheckRequest(seconds, tuple(jobs))))
    process = subprocess.Popen(
        [sys.executable, "-m", WORKER, str(request)],
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    try:
        yield process
        process.wait()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _environment() -> dict[str, str]:
    home = str(Path(warplens_run.__file__).parents[1])
    inherited = {name: value for name, value in os.environ.items() if name not in NOT_PASSED_ON}
    path = os.pathsep.join(filter(None, (home, os.environ.get("PYTHONPATH", ""))))
    return {**inherited, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def _ending(code: int) -> str:
    if code == -signal.SIGKILL:
        return "its process was killed, as the system does where memory runs out"
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with status {code} before the check was done"


def _require_triton() -> None:
    from importlib.util import find_spec

    for package in ("triton", "torch"):
        if find_spec(package) is None:
            raise MissingExtra(package, "triton", "checking a puzzle")

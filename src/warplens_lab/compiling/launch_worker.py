"""Runs a user's script in a process of its own, on CPU tensors, and notes each launch of a kernel instead of making it.

Standard library, msgspec, Triton and whatever the script imports. Takes a request and leaves an answer.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from warplens_lab.compiling.benchmarks import benchmarks_once, comparisons_hold
from warplens_lab.compiling.launch_recording import LaunchLog, launches_noted
from warplens_lab.compiling.records import (
    ScriptAnswer,
    ScriptLimits,
    ScriptOrigin,
    ScriptRequest,
    read_record,
    write_record,
)
from warplens_lab.compiling.unfilled_tensors import UnfilledTensors, unfilled_tensors
from warplens_lab.compiling.user_script import run_script
from warplens_run.processes.parent import Parent

PROGRESS_SECONDS: Final = 0.1
AFTER_LAUNCHES: Final = "stopped after {} launches"
AFTER_SECONDS: Final = "stopped after {:g} s; what was launched until then is checked"


class Enough(BaseException):
    """Ends a script that has shown what was asked for; no `except Exception` of its own catches it."""


def main(request_path: str) -> int:
    parent = Parent()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)  # what the script prints is not why it fails
    request = read_record(Path(request_path), ScriptRequest)
    progress = _Progress(parent, request.limits)
    log, tensors = LaunchLog(after_each=progress.launched), UnfilledTensors()
    noting = _noting(log, tensors, _time_limit(request.limits))
    run = run_script(Path(request.script), request.arguments, noting, target=request.target, asserts=False)
    failure = run.failure
    if isinstance(run.error, Enough):
        failure, log.notes[str(run.error)] = None, None
    notes = (*log.notes, *tensors.notes())
    answer = ScriptAnswer(tuple(log.ways.values()), notes, failure, run.gpu_request.happened, run.gpu_request.line)
    write_record(Path(request.answer), answer)
    return 0


_logs: dict[ScriptOrigin, LaunchLog] = {}


def kernel_of_script(file: str, name: str, origin: ScriptOrigin) -> Any:
    """A kernel that the script launches, for which the script is run again."""
    script_run = replace(origin, captured="")
    if script_run not in _logs:
        log = _logs[script_run] = LaunchLog()
        noting = _noting(log, UnfilledTensors(), nullcontext())
        run_script(Path(origin.script), origin.arguments, noting, target=origin.target, asserts=False)
    function = _logs[script_run].functions.get((file, name, origin.captured))
    if function is None:
        raise AttributeError(f"{Path(file).name} has no {name}")
    return function


@contextmanager
def _noting(log: LaunchLog, tensors: UnfilledTensors, limit: AbstractContextManager[None]) -> Iterator[None]:
    """Launches are noted and not made. Nothing is computed, so that nothing holds that the script asserts."""
    with launches_noted(log), benchmarks_once(log), comparisons_hold(log), unfilled_tensors(tensors), limit:
        yield


class _Progress:
    """Sends the number of launches, and ends the script at its limit."""

    def __init__(self, parent: Parent, limits: ScriptLimits) -> None:
        self.parent = parent
        self.limits = limits
        self.sent = 0.0

    def launched(self, log: LaunchLog) -> None:
        now = time.monotonic()
        if now - self.sent >= PROGRESS_SECONDS:
            self.sent = now
            self.parent.send(str(log.total))
        if self.limits.launches is not None and log.total >= self.limits.launches:
            raise Enough(AFTER_LAUNCHES.format(log.total))


@contextmanager
def _time_limit(limits: ScriptLimits) -> Iterator[None]:
    if not hasattr(signal, "setitimer"):
        yield  # the parent ends a script that runs too long
        return

    def stop(*_: object) -> None:
        raise Enough(AFTER_SECONDS.format(limits.seconds))

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, limits.seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


if __name__ == "__main__":
    status = main(sys.argv[1])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)

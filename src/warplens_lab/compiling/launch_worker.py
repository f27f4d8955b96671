"""Runs a user's script in a process of its own, on CPU tensors, and notes each launch of a kernel instead of making it.

Standard library, msgspec, Triton and whatever the script imports. Takes a request and leaves an answer.
"""

from __future__ import annotations

import ast
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from warplens_lab.compiling.benchmarks import benchmarks_once, comparisons_hold
from warplens_lab.compiling.gpu_stand_in import gpu_stand_in
from warplens_lab.compiling.launch_recording import LaunchLog, launches_noted
from warplens_lab.compiling.records import (
    ScriptAnswer,
    ScriptFailure,
    ScriptLimits,
    ScriptOrigin,
    ScriptRequest,
    read_record,
    write_record,
)
from warplens_lab.compiling.stand_in_driver import GpuRequest
from warplens_lab.compiling.unfilled_tensors import UnfilledTensors, unfilled_tensors
from warplens_lab.tracing.watching.script import failure_of
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
    log = LaunchLog(after_each=progress.launched)
    script = Path(request.script)
    failure: ScriptFailure | None = None
    gpu_request = GpuRequest(script)
    tensors = UnfilledTensors()
    try:
        with _noting(script, log, tensors, request.target) as gpu_request, _time_limit(request.limits):
            run_script(script, request.arguments)
    except Enough as reason:
        log.notes[str(reason)] = None
    except SystemExit as error:
        if error.code not in (None, 0):
            message = f"the script ended with {error.code!r}"
            failure = ScriptFailure(f"{script.name}: {message}", message, None, may_want_gpu=True)
    except BaseException as error:  # noqa: BLE001 - whatever the script raises is part of the answer
        failure = failure_of(error, script, gpu_request)
    notes = (*log.notes, *tensors.notes())
    answer = ScriptAnswer(tuple(log.ways.values()), notes, failure, gpu_request.happened, gpu_request.line)
    write_record(Path(request.answer), answer)
    return 0


_logs: dict[ScriptOrigin, LaunchLog] = {}


def kernel_of_script(file: str, name: str, origin: ScriptOrigin) -> Any:
    """A kernel that the script launches, for which the script is run again."""
    script_run = replace(origin, captured="")
    if script_run not in _logs:
        log = _logs[script_run] = LaunchLog()
        with suppress(BaseException), _noting(Path(origin.script), log, UnfilledTensors(), origin.target):
            run_script(Path(origin.script), origin.arguments)
    function = _logs[script_run].functions.get((file, name, origin.captured))
    if function is None:
        raise AttributeError(f"{Path(file).name} has no {name}")
    return function


@contextmanager
def _noting(script: Path, log: LaunchLog, tensors: UnfilledTensors, target: str) -> Iterator[GpuRequest]:
    with ExitStack() as stack:
        gpu_request = stack.enter_context(gpu_stand_in(script, target=target))
        stack.enter_context(launches_noted(log))
        stack.enter_context(benchmarks_once(log))
        stack.enter_context(comparisons_hold(log))
        stack.enter_context(unfilled_tensors(tensors))
        yield gpu_request


class _WithoutAssertions(ast.NodeTransformer):
    """What is asserted is evaluated, for what it launches, and not required: nothing is computed here."""

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        return ast.copy_location(ast.Expr(node.test), node)


def run_script(script: Path, arguments: tuple[str, ...]) -> None:
    """As `python script.py` does, except for assertions of the script itself."""
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.parent))
    tree = _WithoutAssertions().visit(ast.parse(script.read_bytes(), str(script)))
    code = compile(ast.fix_missing_locations(tree), str(script), "exec", dont_inherit=True)
    module = ModuleType("__main__")
    module.__file__ = str(script)
    before = sys.modules["__main__"]
    sys.modules["__main__"] = module
    try:
        exec(code, vars(module))
    finally:
        sys.modules["__main__"] = before


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

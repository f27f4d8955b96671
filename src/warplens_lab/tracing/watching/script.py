"""A user's script with every Triton launch in it traced."""

from __future__ import annotations

import re
import runpy
import sys
import sysconfig
from bdb import BdbQuit
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from traceback import walk_tb
from typing import Final

from warplens_lab.compiling.gpu_stand_in import NOTE, gpu_hint, gpu_stand_in
from warplens_lab.compiling.records import ScriptFailure
from warplens_lab.compiling.stand_in_cards import DEFAULT
from warplens_lab.compiling.stand_in_driver import GpuRequest
from warplens_lab.compiling.triton_version import failure_hint
from warplens_lab.tracing import KernelFault, KernelTrace, ProgramDebugger
from warplens_lab.tracing.watching.benchmarks import benchmarks_omitted
from warplens_lab.tracing.watching.faults import statement_at
from warplens_lab.tracing.watching.recorder import RecordingOptions
from warplens_lab.tracing.watching.session import recording
from warplens_run.base.errors import UsageError, WarplensError
from warplens_run.base.own_code import FOLDERS

INSTALLED: Final = ("site-packages", "dist-packages")
NOT_THE_USERS: Final = (str(Path(sysconfig.get_path("stdlib")).resolve()), *FOLDERS)
_PROGRAM: Final = re.compile(r"program \([\d, ]+\): ")
_NUMBERS: Final = re.compile(r"\[[-+\d.,\s\[\]einfaTrulsFN]{40,}\]")
MOST_OF_STATEMENT: Final = 160
ON_CPU: Final = "; tensors are on the CPU here"


@dataclass(frozen=True)
class ScriptTrace:
    """What a traced script did."""

    trace: KernelTrace
    configs: Mapping[int, str]
    """By the launch's number: the config it ran with, where an autotuner has several."""
    failure: str = ""
    """The error that ended the script early."""
    messages: tuple[str, ...] = ()
    """What a user should know besides the trace."""


def traced_script(
    script: Path,
    arguments: Sequence[str] = (),
    *,
    options: RecordingOptions | None = None,
    programs: Sequence[tuple[int, ...]] = (),
    partial: bool = False,
    target: str = DEFAULT,
) -> ScriptTrace:
    """Runs the script as `python script.py` would; `programs` are those that open a debugger.

    The script sees a GPU of the architecture `target`, unless there is one.

    A script that fails is an error in one line; with `partial`, what it launched before is the result.
    """
    if not script.is_file():
        raise UsageError(f"no such file: {script}")
    debugger = ProgramDebugger(programs) if programs else None
    failure, messages = "", list[str]()
    before, path = sys.argv[:], sys.path[:]
    sys.argv, sys.path[:1] = [str(script), *arguments], [str(script.resolve().parent)]
    try:
        with (
            recording(options or RecordingOptions(), debugger) as tracing,
            gpu_stand_in(script, target=target) as gpu_request,
            benchmarks_omitted(lambda: bool(tracing.launches), messages.append),
        ):
            try:
                runpy.run_path(str(script), run_name="__main__")
            except SystemExit as leaving:
                if leaving.code not in (None, 0) and not tracing.launches:
                    raise WarplensError(f"{script} ended with status {leaving.code}") from None
            except KernelFault as fault:
                tracing.decide_nothing()
                messages.append(f"stopped: {fault}")
            except BdbQuit:
                tracing.decide_nothing()
                messages.append("stopped in the debugger")
            except Exception as error:
                script_error = as_error(error, script, gpu_request)
                if not partial or not tracing.launches:
                    raise script_error from error
                failure = script_error.message
                tracing.decide_nothing()
            if gpu_request.happened:
                messages.append(NOTE)
            tracing.finish()
            return ScriptTrace(tracing.trace, dict(tracing.configs), failure, tuple(messages))
    finally:
        sys.argv, sys.path[:] = before, path


def as_error(error: Exception, script: Path, gpu_request: GpuRequest) -> WarplensError:
    """What a script raised, with the line of the user's own code that it came from."""
    failure = failure_of(error, script, gpu_request)
    hint = (
        gpu_hint(failure.message, failure.line, gpu_request.line, gpu_request.happened)
        if failure.may_want_gpu
        else None
    )
    return WarplensError(failure.text, hint=failure_hint(failure.message) or hint)


def failure_of(error: BaseException, script: Path, gpu_request: GpuRequest) -> ScriptFailure:
    """The exception with the innermost line of the user's files; in a kernel, the statement and the launch."""
    cause = _cause(error)
    launched = _users_lines(error, script)
    own = [line for file, line in launched if file == script.resolve()]
    place = _place_text(launched[-1]) if launched else script.name
    outer = f" (called at {script.name}:{own[-1]})" if own and launched[-1][0] != script.resolve() else ""
    reason = _reason(cause)
    if cause is not error:
        prefix = _PROGRAM.match(str(error))
        if prefix:  # the tracer's own words: the program, the reason, and the statement in a line of its own
            reason = prefix[0] + re.sub(r"\n  [^\n]*$", "", str(error)[prefix.end() :])
        inside = _users_lines(cause, script)
        statement = f"\n  {_place_text(inside[-1])}: {_statement(inside[-1])}" if inside else ""
        text = f"{place}{outer}: {_short(reason)}{statement}"
    else:
        if isinstance(error, AssertionError) and not str(error) and launched:
            statement = _statement(launched[-1])
            names_gpu = gpu_request.happened and ("cuda" in statement or "device" in statement)
            reason = f"{reason}{statement}{ON_CPU if names_gpu else ''}"
        text = f"{place}{outer}: {_short(reason)}"
    is_explained = isinstance(cause, WarplensError | NotImplementedError)
    return ScriptFailure(text, str(cause), own[-1] if own else None, not is_explained)


def _cause(error: BaseException) -> BaseException:
    """The interpreter wraps an exception of a kernel, once for each function that it came through."""
    while type(error).__name__ == "InterpreterError" and error.__cause__ is not None:
        error = error.__cause__
    return error


def _reason(cause: BaseException) -> str:
    return cause.message if isinstance(cause, WarplensError) else f"{type(cause).__name__}: {cause}"


def _users_lines(error: BaseException, script: Path) -> list[tuple[Path, int]]:
    """Lines of the user's files that the exception came through, the innermost last."""
    own = script.resolve()
    lines = [(Path(frame.f_code.co_filename).resolve(), line) for frame, line in walk_tb(error.__traceback__)]
    return [place for place in lines if place[0] == own or _is_users(place[0])]


def _is_users(file: Path) -> bool:
    installed = any(part in INSTALLED for part in file.parts) or any(map(file.is_relative_to, NOT_THE_USERS))
    return not installed and file.is_file()


def _place_text(place: tuple[Path, int]) -> str:
    return f"{place[0].name}:{place[1]}"


def _statement(place: tuple[Path, int]) -> str:
    text = " ".join(statement_at(str(place[0]), place[1]).split())
    return text if len(text) <= MOST_OF_STATEMENT else text[: MOST_OF_STATEMENT - 1] + "…"


def _short(text: str) -> str:
    """Without the numbers of arrays.

    >>> _short("cannot convert array([-1.2786368 ,  3.0196745 ,  0.507987  , -2.465718  , -0.9952828]) to tensor")
    'cannot convert array([…]) to tensor'
    """
    return _NUMBERS.sub("[…]", text)

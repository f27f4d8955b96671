"""A user's script with every Triton launch in it traced."""

from __future__ import annotations

from bdb import BdbQuit
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from warplens_lab.compiling.gpu_stand_in import NOTE
from warplens_lab.compiling.stand_in_cards import DEFAULT
from warplens_lab.compiling.user_script import as_error, run_script
from warplens_lab.tracing import KernelFault, KernelTrace, ProgramDebugger
from warplens_lab.tracing.watching.benchmarks import benchmarks_omitted
from warplens_lab.tracing.watching.recorder import RecordingOptions
from warplens_lab.tracing.watching.session import recording
from warplens_run.base.errors import UsageError


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
    with recording(options or RecordingOptions(), debugger) as tracing:
        benchmarks = benchmarks_omitted(lambda: bool(tracing.launches), messages.append)
        run = run_script(script, arguments, benchmarks, target=target)
        if isinstance(run.error, KernelFault):
            tracing.decide_nothing()
            messages.append(f"stopped: {run.error}")
        elif isinstance(run.error, BdbQuit):
            tracing.decide_nothing()
            messages.append("stopped in the debugger")
        elif run.failure is not None and not (tracing.launches and isinstance(run.error, SystemExit)):
            if not partial or not tracing.launches:
                request = run.gpu_request
                raise as_error(run.failure, wants_gpu=request.happened, gpu_line=request.line) from run.error
            failure = run.failure.text
            tracing.decide_nothing()
        if run.gpu_request.happened:
            messages.append(NOTE)
        tracing.finish()
        return ScriptTrace(tracing.trace, dict(tracing.configs), failure, tuple(messages))

"""A user's script with every Triton launch in it traced."""

from __future__ import annotations

import runpy
import sys
from bdb import BdbQuit
from collections.abc import Sequence
from pathlib import Path
from traceback import walk_tb

from warplens.errors import UsageError, WarplensError
from warplens.kernel_lab.compiling.gpu_stand_in import NOTE, gpu_hint, gpu_stand_in
from warplens.kernel_lab.compiling.stand_in_driver import Asked
from warplens.kernel_lab.compiling.triton_version import install_hint
from warplens.kernel_lab.tracing import KernelFault, KernelTrace, ProgramDebugger, trace


def traced_script(
    script: Path,
    arguments: Sequence[str] = (),
    *,
    mode: str = "record",
    sample: float | None = None,
    seed: int = 0,
    checks: bool = True,
    values: bool = False,
    stop_at_fault: bool = False,
    programs: Sequence[tuple[int, ...]] = (),
    failures: list[str] | None = None,
) -> KernelTrace:
    """Runs the script as `python script.py` would; `programs` are those that open a debugger.

    A script that fails is an error in one line. With `failures`, which takes that line, what it launched before is
    given all the same.
    """
    if not script.is_file():
        raise UsageError(f"there is no file {script}")
    debugger = ProgramDebugger(programs) if programs else None
    before, path = sys.argv[:], sys.path[:]
    sys.argv, sys.path[:1] = [str(script), *arguments], [str(script.resolve().parent)]
    try:
        with (
            trace(
                mode, sample=sample, seed=seed, checks=checks, values=values, stop_at_fault=stop_at_fault,
                debugger=debugger,
            ) as tracing,
            gpu_stand_in(script) as asked,
        ):  # fmt: skip
            try:
                runpy.run_path(str(script), run_name="__main__")
            except SystemExit as leaving:
                if leaving.code not in (None, 0) and not tracing.launches:
                    raise WarplensError(f"{script} ended with status {leaving.code}") from None
            except KernelFault as fault:
                print(f"stopped: {fault}", file=sys.stderr)  # noqa: T201 - told at once, before the tables
            except BdbQuit:
                print("stopped in the debugger", file=sys.stderr)  # noqa: T201
            except Exception as error:
                failure = told(error, script, asked)
                if failures is None or not tracing.launches:
                    raise failure from error
                failures.append(failure.message)
            if asked.happened:
                print(f"note: {NOTE}", file=sys.stderr)  # noqa: T201
            return tracing.trace
    finally:
        sys.argv, sys.path[:] = before, path


def told(error: Exception, script: Path, asked: Asked) -> WarplensError:
    """What a script raised, in one line with the innermost line of the script's own."""
    own = script.resolve()
    lines = [line for frame, line in walk_tb(error.__traceback__) if Path(frame.f_code.co_filename).resolve() == own]
    place = f"{script.name}:{lines[-1]}" if lines else script.name
    hint = gpu_hint(str(error), lines[-1] if lines else None, asked.line, asked.happened)
    return WarplensError(f"{place}: {type(error).__name__}: {error}", hint=install_hint(str(error)) or hint)

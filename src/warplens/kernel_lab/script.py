"""A user's script with every Triton launch in it traced."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from warplens.errors import UsageError, WarplensError
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
) -> KernelTrace:
    """Runs the script as `python script.py` would; `programs` are those that open a debugger.

    What was traced before the script failed is kept where it launched something, and the failure is told.
    """
    if not script.is_file():
        raise UsageError(f"there is no file {script}")
    debugger = ProgramDebugger(programs) if programs else None
    before, path = sys.argv[:], sys.path[:]
    sys.argv, sys.path[:1] = [str(script), *arguments], [str(script.resolve().parent)]
    try:
        with trace(
            mode, sample=sample, seed=seed, checks=checks, values=values, stop_at_fault=stop_at_fault, debugger=debugger
        ) as tracing:
            try:
                runpy.run_path(str(script), run_name="__main__")
            except SystemExit as leaving:
                if leaving.code not in (None, 0) and not tracing.launches:
                    raise WarplensError(f"{script} ended with status {leaving.code}") from None
            except KernelFault as fault:
                print(f"stopped: {fault}", file=sys.stderr)  # noqa: T201 - told at once, before the tables
            return tracing.trace
    finally:
        sys.argv, sys.path[:] = before, path

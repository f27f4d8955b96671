"""The launches that a request is about: all of a script's, or those of one kernel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from warplens_lab.compiling.launching import Notify, ScriptLaunches, ignore, launches
from warplens_lab.compiling.loading import SEPARATOR
from warplens_lab.compiling.request import CompileRequest
from warplens_run.base.errors import UsageError


def launches_of(request: CompileRequest, notify: Notify = ignore, progress: Notify = ignore) -> ScriptLaunches:
    """At least one; a script without any is an error."""
    script = launches(
        request.script,
        request.script_arguments,
        limits=request.limits,
        target=request.parsed_targets()[0].name,
        notify=notify,
        progress=progress,
    )
    if not script.launches:
        reason = f": {script.notes[0]}" if script.notes else ""
        raise UsageError(
            f"{request.script} launches no Triton kernel{reason}", hint="a kernel alone is FILE.py::kernel"
        )
    return script if request.like is None else _of_kernel(script, request.source, request.like)


def _of_kernel(script: ScriptLaunches, kernel: str, like: str) -> ScriptLaunches:
    path, _, name = kernel.partition(SEPARATOR)
    file = Path(path).resolve()
    of_kernel = tuple(launch for launch in script.launches if _is(launch.kernel.file, launch.kernel.name, file, name))
    if not of_kernel:
        names = ", ".join(dict.fromkeys(launch.kernel.name for launch in script.launches))
        raise UsageError(f"{like} does not launch {name} of {file.name}", hint=f"it launches {names}")
    return replace(script, launches=of_kernel)


def _is(file: Path, name: str, wanted_file: Path, wanted: str) -> bool:
    own_name = name.rpartition("<locals>.")[2]
    return file == wanted_file and (not wanted or wanted in (name, own_name))

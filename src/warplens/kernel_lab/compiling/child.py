"""Starts the processes in which the user's file is imported, compiled or run, and reads what they leave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import warplens
from warplens.errors import UsageError, WarplensError
from warplens.files import write_whole
from warplens.kernel_lab.compiling.gpu_stand_in import gpu_hint
from warplens.kernel_lab.compiling.triton_version import install_hint, require_triton

IMPORT_SECONDS: Final = 120.0
JOB_SECONDS: Final = 180.0
"""A large kernel takes the compiler a few seconds; ten times that on a busy machine is still no hang."""
NOT_PASSED_ON: Final = (
    "TRITON_INTERPRET",
    "TRITON_STORE_BINARY_ONLY",
    "TRITON_DISABLE_LINE_INFO",
    "TRITON_KERNEL_DUMP",
    "USE_IR_LOC",
)
"""Settings under which the compiler would leave out what the facts are read from."""
WORKER: Final = "warplens.kernel_lab.compiling.compile_worker"


def environment(folder: Path, **more: str) -> dict[str, str]:
    """For a child that compiles: remarks on, the interpreter off, and Triton's own cache left as it is."""
    home = str(Path(warplens.__file__).parents[1])
    path = os.pathsep.join(filter(None, (home, os.environ.get("PYTHONPATH", ""))))
    kept = {name: value for name, value in os.environ.items() if name not in NOT_PASSED_ON}
    return {
        **kept,
        "PYTHONPATH": path,
        "PYTHONDONTWRITEBYTECODE": "1",
        "MLIR_ENABLE_DIAGNOSTICS": "remarks",
        "TRITON_DUMP_PTXAS_LOG": "1",
        "TRITON_CACHE_DIR": str(folder / "triton-cache"),
        **more,
    }


@dataclass(frozen=True)
class Work:
    """Jobs for one kernel; the child leaves their results in a folder of `Work`'s own."""

    file: Path
    name: str
    out: Path
    jobs: Sequence[Mapping[str, Any]] = ()


def run_worker(works: Sequence[Work], folder: Path) -> str:
    """Does the work; what is left in its folders says how each job went. Answers how the process ended, "" if well."""
    require_triton()
    request = folder / "request.json"
    listed = [{"file": str(w.file), "name": w.name, "out": str(w.out), "jobs": list(w.jobs)} for w in works]
    write_whole(request, json.dumps(listed).encode())
    seconds = sum(IMPORT_SECONDS + JOB_SECONDS * len(work.jobs) for work in works)
    try:
        done = subprocess.run(
            [sys.executable, "-m", WORKER, str(request)],
            env=environment(folder),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return "it took too long and was stopped"
    if done.returncode < 0:
        return f"it was ended by {signal.Signals(-done.returncode).name}"
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it failed"])[-1]


def description(work: Work, ending: str, hint: str | None = None) -> dict[str, Any]:
    """What the child found the kernel to be; raises if its file could not be imported or has no such kernel."""
    file, name = work.file, work.name
    failed, described = work.out / "import.json", work.out / "kernel.json"
    if failed.exists():
        found = json.loads(failed.read_text())
        if found["kind"] == "AttributeError" and found["message"].endswith(f"has no {name}"):
            raise UsageError(found["message"], hint=hint)
        message = f"importing {file.name} failed: {found['kind']}: {found['message']}"
        hint = install_hint(found["message"]) or gpu_hint(found["message"], found["line"], None, asked=False)
        raise WarplensError(message, hint=hint)
    if not described.exists():
        raise WarplensError(f"importing {file.name} in a child process failed: {ending or 'it left no answer'}")
    kernel: dict[str, Any] = json.loads(described.read_text())
    if kernel["parameters"] is None:
        raise UsageError(f"{name} of {file.name} is no Triton kernel", hint=hint)
    return kernel


def kernel_description(file: Path, name: str, hint: str | None = None) -> dict[str, Any]:
    with TemporaryDirectory(prefix="warplens-") as folder:
        work = Work(file, name, Path(folder) / "kernel")
        return description(work, run_worker([work], Path(folder)), hint)

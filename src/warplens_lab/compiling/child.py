"""Starts the processes in which the user's file is imported, compiled or run, and reads what they leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import warplens_run
from warplens_lab.compiling.gpu_stand_in import gpu_hint
from warplens_lab.compiling.records import (
    IMPORT_FAILURE_FILE,
    KERNEL_FILE,
    CompileFailure,
    KernelDescription,
    KernelWork,
    read_record,
    write_record,
)
from warplens_lab.compiling.triton_version import failure_hint, missing_package, require_triton
from warplens_run.base.errors import UsageError, WarplensError

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
"""Settings under which the compiler would omit what the facts are read from."""
LIBRARY_SETTINGS: Final = {"GEMS_VENDOR": "nvidia"}
"""What libraries ask the driver's own programs at import, where there is none: FlagGems runs `nvidia-smi`."""
WORKER: Final = "warplens_lab.compiling.compile_worker"


def environment(folder: Path, **more: str) -> dict[str, str]:
    """For a child that compiles: remarks on, the interpreter off, and Triton's own cache left as it is."""
    home = str(Path(warplens_run.__file__).parents[1])
    path = os.pathsep.join(filter(None, (home, os.environ.get("PYTHONPATH", ""))))
    inherited = {name: value for name, value in os.environ.items() if name not in NOT_PASSED_ON}
    return {
        **LIBRARY_SETTINGS,
        **inherited,
        "PYTHONPATH": path,
        "PYTHONDONTWRITEBYTECODE": "1",
        "MLIR_ENABLE_DIAGNOSTICS": "remarks",
        "TRITON_DUMP_PTXAS_LOG": "1",
        "TRITON_CACHE_DIR": str(folder / "triton-cache"),
        **more,
    }


def run_worker(works: Sequence[KernelWork], folder: Path) -> str:
    """Does the work; what is left in its folders says how each job went. Answers how the process ended, "" if well."""
    require_triton()
    request = folder / "request.msgpack"
    write_record(request, works)
    seconds = sum(IMPORT_SECONDS + JOB_SECONDS * len(work.jobs) for work in works)
    try:
        process = subprocess.run(
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
    if process.returncode < 0:
        return f"it was ended by {signal.Signals(-process.returncode).name}"
    return "" if process.returncode == 0 else (process.stderr.strip().splitlines() or ["it failed"])[-1]


def description(work: KernelWork, ending: str, hint: str | None = None) -> KernelDescription:
    """The kernel as the child imported it; raises if its file could not be imported or has no such kernel."""
    file_name, out = Path(work.file).name, Path(work.out)
    if (out / IMPORT_FAILURE_FILE).exists():
        failure = read_record(out / IMPORT_FAILURE_FILE, CompileFailure)
        if failure.kind == "AttributeError" and failure.message.endswith(f"has no {work.name}"):
            raise UsageError(failure.message, hint=hint)
        raise _import_error(file_name, failure)
    if not (out / KERNEL_FILE).exists():
        raise WarplensError(f"importing {file_name} in a child process failed: {ending or 'it left no answer'}")
    kernel = read_record(out / KERNEL_FILE, KernelDescription)
    if kernel.parameters is None:
        raise UsageError(f"{work.name} of {file_name} is not a Triton kernel", hint=hint)
    return kernel


def _import_error(file_name: str, failure: CompileFailure) -> WarplensError:
    if failure.kind == "LookupError":
        return UsageError(failure.message)
    package = missing_package(failure.message) if failure.kind == "ModuleNotFoundError" else ""
    if package:
        return WarplensError(f"{file_name} needs {package}: {failure_hint(failure.message)}")
    hint = failure_hint(failure.message) or gpu_hint(failure.message, failure.line, None, is_requested=False)
    return WarplensError(f"importing {file_name} failed: {failure.kind}: {failure.message}", hint=hint)


def kernel_description(file: Path, name: str, hint: str | None = None) -> KernelDescription:
    with TemporaryDirectory(prefix="warplens-") as folder:
        work = KernelWork(str(file), name, str(Path(folder) / "kernel"))
        return description(work, run_worker([work], Path(folder)), hint)

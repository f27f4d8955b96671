"""Starts the processes in which the user's file is imported, compiled or run, and reads what they leave."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

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
from warplens_run.base.temporary import temporary_folder
from warplens_run.processes.child import Child, environment

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


def compiler_environment(folder: Path) -> dict[str, str]:
    """For a child that compiles: remarks on, the interpreter off, and Triton's own cache left as it is."""
    return LIBRARY_SETTINGS | environment(
        without=NOT_PASSED_ON,
        PYTHONDONTWRITEBYTECODE="1",
        MLIR_ENABLE_DIAGNOSTICS="remarks",
        TRITON_DUMP_PTXAS_LOG="1",
        TRITON_CACHE_DIR=str(folder / "triton-cache"),
    )


def run_worker(works: Sequence[KernelWork], folder: Path) -> str:
    """Does the work; what is left in its folders says how each job went. Answers how the process ended."""
    require_triton()
    seconds = sum(IMPORT_SECONDS + JOB_SECONDS * len(work.jobs) for work in works)
    return run_request(WORKER, works, folder, seconds)


def run_request(worker: str, request: object, folder: Path, seconds: float) -> str:
    """A worker that is given its request in a file, run to its end; answers how that was."""
    path = folder / "request.msgpack"
    write_record(path, request)
    with Child(worker, str(path), variables=compiler_environment(folder)) as child:
        try:
            return str(child.wait(seconds))
        except TimeoutError as error:
            return str(error)


def description(work: KernelWork, ending: str, hint: str | None = None) -> KernelDescription:
    """The kernel as the child imported it; raises if its file could not be imported or has no such kernel."""
    file_name, out = Path(work.file).name, Path(work.out)
    if (out / IMPORT_FAILURE_FILE).exists():
        failure = read_record(out / IMPORT_FAILURE_FILE, CompileFailure)
        if failure.kind == "AttributeError" and failure.message.endswith(f"has no {work.name}"):
            raise UsageError(failure.message, hint=hint)
        raise _import_error(file_name, failure)
    if not (out / KERNEL_FILE).exists():
        raise WarplensError(f"importing {file_name} in a child process failed: {ending}")
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
    with temporary_folder() as folder:
        work = KernelWork(str(file), name, str(Path(folder) / "kernel"))
        return description(work, run_worker([work], Path(folder)), hint)

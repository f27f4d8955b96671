"""Runs in a child process: imports the user's file and compiles its kernel, so that a crash does not end the parent.

Standard library, msgspec and Triton only. Takes a request, writes one folder per job with the compiler's results.
What the user's file prints and what the compiler says go to files there, never to our output.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from warplens_lab.compiling.compiler_repairs import repair_places, skip_hash_of_compiler
from warplens_lab.compiling.describing import def_line, described_config, described_parameters, unwrapped
from warplens_lab.compiling.importing import imported_kernel
from warplens_lab.compiling.records import (
    IMPORT_FAILURE_FILE,
    KERNEL_FILE,
    OUTCOME_FILE,
    CompileFailure,
    CompileOutcome,
    KernelDescription,
    KernelWork,
    WorkerJob,
    read_record,
    write_record,
)
from warplens_lab.compiling.toolchain import source_of, tool
from warplens_run.base.own_code import FOLDERS
from warplens_run.processes.parent import Parent

TEXTS = ("ttir", "ttgir", "llir", "ptx", "amdgcn")
BINARIES = ("cubin", "hsaco")


def main(request_path: str) -> int:
    repair_places()
    skip_hash_of_compiler()
    for work in read_record(Path(request_path), list[KernelWork]):
        out = Path(work.out)
        out.mkdir()
        with _output_into(out, "import"):
            function = _kernel(work, out)
        if function is None:
            continue
        for job in work.jobs:
            folder = out / str(job.index)
            folder.mkdir()
            with _output_into(folder, "compile"):
                outcome = _compile(function, job, folder)
            write_record(folder / OUTCOME_FILE, outcome)
    return 0


def _kernel(work: KernelWork, out: Path) -> Any:
    """The requested kernel, described in a file; None where there is none, with the reason in a file."""
    try:
        function, configs, heuristics = unwrapped(_named(work))
        write_record(out / KERNEL_FILE, _described(function, configs, heuristics))
    except BaseException as error:  # noqa: BLE001 - whatever the user's file raises is the answer
        write_record(out / IMPORT_FAILURE_FILE, _failure(error, None))
        return None
    return function


def _named(work: KernelWork) -> Any:
    if work.origin is None:
        return imported_kernel(Path(work.file), work.name)
    from warplens_lab.compiling.launch_worker import kernel_of_script

    return kernel_of_script(work.file, work.name, work.origin)


@contextmanager
def _output_into(folder: Path, name: str) -> Iterator[None]:
    """Everything written to standard output and error meanwhile, by C++ too, goes to two files."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [os.dup(1), os.dup(2)]
    for descriptor, kind in ((1, "stdout"), (2, "stderr")):
        file = os.open(folder / f"{name}.{kind}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, descriptor)
        os.close(file)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, copy in zip((1, 2), saved, strict=True):
            os.dup2(copy, descriptor)
            os.close(copy)


def _described(function: Any, configs: list[Any], heuristics: list[str]) -> KernelDescription:
    if function is None:
        return KernelDescription(None)
    return KernelDescription(
        described_parameters(function),
        def_line(function.fn),
        tuple(described_config(config, function) for config in configs),
        tuple(heuristics),
        tuple(_own_files()),
    )


def _own_files() -> list[str]:
    """The files that the kernel may depend on: every imported one that is not installed."""
    roots = (Path(sys.prefix), Path(sys.base_prefix), *map(Path, FOLDERS))
    installed = tuple(f"{root.resolve()}{os.sep}" for root in roots)
    imported = {_resolved(str(file)) for m in list(sys.modules.values()) if (file := getattr(m, "__file__", None))}
    outside = [f for f in imported if not f.startswith(installed)]
    return sorted(f for f in outside if "site-packages" not in f and f.endswith(".py") and Path(f).is_file())


def _resolved(file: str) -> str:
    """As `Path.resolve`, which looks at every folder of every file: beside PyTorch's modules 0.13 s for each kernel."""
    folder, _, name = file.rpartition(os.sep)
    if not folder.startswith(os.sep) or Path(file).is_symlink():
        return str(Path(file).resolve())
    return f"{_resolved_folder(folder)}{os.sep}{name}"


@cache
def _resolved_folder(folder: str) -> str:
    return str(Path(folder).resolve())


def _compile(function: Any, job: WorkerJob, folder: Path) -> CompileOutcome:
    import triton
    from triton.backends.compiler import GPUTarget

    started = _cpu_seconds()
    version, target = str(triton.__version__), job.target
    architecture = int(target.architecture) if target.backend == "cuda" else target.architecture
    try:
        source = source_of(function, job.arguments)
        gpu = GPUTarget(target.backend, architecture, target.warp_size)
        kernel = triton.compile(source, target=gpu, options=job.options)
    except Exception as error:  # noqa: BLE001 - the compiler raises many kinds; each is the answer
        return CompileOutcome(version, failure=_failure(error, function))
    for kind in TEXTS:
        if kind in kernel.asm:
            (folder / kind).write_text(str(kernel.asm[kind]))
    for kind in BINARIES:
        if kind in kernel.asm:
            (folder / kind).write_bytes(kernel.asm[kind])
    compiled = _cpu_seconds()
    if "cubin" in kernel.asm:
        _disassemble(folder)
    metadata = json.loads(json.dumps(kernel.metadata._asdict(), default=str))
    return CompileOutcome(version, metadata, compiled - started, _cpu_seconds() - compiled)


def _cpu_seconds() -> float:
    """Of this process and of the assemblers it has run: what other programs take does not make a kernel slow."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def _disassemble(folder: Path) -> None:
    nvdisasm = tool("nvdisasm")
    if nvdisasm is None:
        return
    # Without data-flow analysis it is a third faster and prints the same.
    command = [nvdisasm, "-gi", "-c", "-ndf", str(folder / "cubin")]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode == 0:
        (folder / "sass").write_text(process.stdout)
    if "spill stores" not in (folder / "compile.stdout").read_text(errors="replace"):
        _assemble_again(folder)


def _assemble_again(folder: Path) -> None:
    """Only the assembler's own log says how much was spilled; some versions of Triton throw it away."""
    architecture = next((w for w in (folder / "ptx").read_text().split() if w.startswith("sm_")), "")
    for name in ("ptxas", "ptxas-blackwell"):
        assembler = tool(name)
        if assembler is None:
            continue
        command = [assembler, "-v", f"--gpu-name={architecture}", str(folder / "ptx"), "-o", os.devnull]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if process.returncode == 0:
            (folder / "ptxas").write_text(process.stderr)
            return


def _failure(error: BaseException, function: Any) -> CompileFailure:
    node = getattr(error, "node", None)
    message = _plain_message(getattr(error, "error_message", None) or str(error))
    cause = error.__cause__ or error.__context__
    if node is not None and getattr(error, "error_message", None) is None and cause is not None:
        message = str(cause)
    line = getattr(node, "lineno", None) or getattr(error, "lineno", None)
    file = getattr(error, "filename", None)
    if node is not None and line is not None:
        line, file = _absolute(error, line, function)
    column = getattr(node, "col_offset", -1) + 1 or None
    return CompileFailure(type(error).__name__, message, str(file or ""), line, column)


def _plain_message(message: str) -> str:
    """Up to Triton 3.8 the error of a kernel's statement reads `ValueError('…')`.

    >>> _plain_message("ValueError('no such shape')"), _plain_message("f(1) is wrong")
    ('no such shape', 'f(1) is wrong')
    """
    match = re.fullmatch(r"[A-Z]\w*\((['\"].*['\"])\)", message.strip(), re.DOTALL)
    try:
        inner = ast.literal_eval(match[1]) if match else None
    except (SyntaxError, ValueError):
        inner = None
    return inner if isinstance(inner, str) else message


def _absolute(error: Any, line: int, function: Any) -> tuple[int, str | None]:
    """Triton counts lines from the head of the function in which the error is: the kernel, or a helper of it."""
    from triton.runtime.jit import JITFunction

    candidates = [function, *(v for m in list(sys.modules.values()) for v in list(getattr(m, "__dict__", {}).values()))]
    for candidate in candidates:
        if isinstance(candidate, JITFunction) and candidate.src == error.src:
            return line + def_line(candidate.fn) - 1, candidate.fn.__code__.co_filename
    return line, None


if __name__ == "__main__":
    Parent()  # without which it ends
    status = main(sys.argv[1])
    sys.stdout.flush()
    sys.stderr.flush()
    # All is written; taking PyTorch apart, which the kernel's file mostly imports, would take half a second.
    os._exit(status)

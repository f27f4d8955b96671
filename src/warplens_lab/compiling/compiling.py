"""Compiles a kernel for GPUs that are not here, and keeps all that the compiler made of it.

The compiler runs in a child process: it can abort, and its remarks go to standard error. A kernel that does not
compile is an answer too, with the compiler's own message and the line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from warplens_lab.compiling import artefact_cache
from warplens_lab.compiling.child import description, run_worker
from warplens_lab.compiling.loading import LoadedKernel
from warplens_lab.compiling.records import (
    OUTCOME_FILE,
    CompileAnswer,
    CompileFailure,
    CompileOutcome,
    KernelWork,
    OptionValue,
    ScriptOrigin,
    TargetRecord,
    WorkerJob,
    read_record,
)
from warplens_lab.compiling.remarks import Remark, parse_remarks
from warplens_lab.compiling.signature import Signature
from warplens_lab.compiling.targets import CompileTarget
from warplens_lab.compiling.triton_options import is_option_name, option_kinds
from warplens_lab.compiling.triton_version import require_triton
from warplens_run.base.errors import UsageError
from warplens_run.base.temporary import temporary_folder

IR_KINDS: Final = ("ttir", "ttgir", "llir", "ptx", "amdgcn", "sass")
DEFAULT_OPTIONS: Final[Mapping[str, OptionValue]] = {"num_warps": 4, "num_stages": 3}
"""What Triton takes where a launch says nothing; its AMD backend takes two stages."""


MOST_PROCESSES: Final = 8
_SPLITTING: Final = re.compile(r"while executing \[`\w*WarpSpecialization`")
_NOT_SPLIT: Final = (
    "warp_specialize=True is what the compiler cannot do here: load through tensor descriptors that the kernel makes, "
    "or omit it"
)
JOBS_PER_PROCESS: Final = 4
"""Another process imports the user's file anew, which takes about as long as this many compilations."""


@dataclass(frozen=True)
class CompileJob:
    """One requested compilation."""

    signature: Signature
    target: CompileTarget
    options: Mapping[str, OptionValue] = field(default_factory=dict)

    def all_options(self) -> dict[str, OptionValue]:
        default = dict(DEFAULT_OPTIONS) if self.target.is_nvidia else {**DEFAULT_OPTIONS, "num_stages": 2}
        return {**default, **self.options}


@dataclass(frozen=True)
class Artefacts:
    """All that came of one compilation. Texts by kind (`IR_KINDS`); empty where it failed."""

    kernel: LoadedKernel
    signature: Signature
    target: CompileTarget
    options: Mapping[str, OptionValue]
    triton_version: str
    texts: Mapping[str, str]
    metadata: Mapping[str, Any]
    remarks: tuple[Remark, ...]
    assembler_log: str
    binary: bytes = b""
    failure: CompileFailure | None = None
    seconds: float = 0.0
    is_cached: bool = False

    @property
    def is_compiled(self) -> bool:
        return self.failure is None

    @cached_property
    def source_lines(self) -> tuple[str, ...]:
        try:
            return tuple(self.kernel.file.read_text(errors="replace").splitlines())
        except OSError:
            return ()


def compile_all(kernel: LoadedKernel, jobs: Sequence[CompileJob], *, cache: bool = True) -> list[Artefacts]:
    """The same kernel compiled several times, in one child process: importing its file may take seconds."""
    return compile_many([(kernel, job) for job in jobs], cache=cache)


def compile_many(requests: Sequence[tuple[LoadedKernel, CompileJob]], *, cache: bool = True) -> list[Artefacts]:
    """Several kernels, in one child process."""
    for _, job in requests:
        _check(job)
    version = require_triton()
    keys = [_key(kernel, job, version) for kernel, job in requests]
    artefacts: dict[int, Artefacts] = {}
    for at, (kernel, job) in enumerate(requests):
        cached = artefact_cache.load(keys[at]) if cache else None
        if cached is not None:
            artefacts[at] = _from_files(kernel, job, cached[0].outcome, cached[1], is_cached=True)
    missing = {at: pair for at, pair in enumerate(requests) if at not in artefacts}
    shares = _shares(missing)
    with ThreadPoolExecutor(max(len(shares), 1)) as pool:
        for answers in pool.map(_compiled, shares):
            for at, (answer, files) in answers.items():
                artefacts[at] = _from_files(*requests[at], answer.outcome, files, is_cached=False)
                if cache and answer.outcome.failure is None:
                    artefact_cache.save(keys[at], answer, files)
    return [artefacts[at] for at in range(len(requests))]


def _shares(
    requests: Mapping[int, tuple[LoadedKernel, CompileJob]],
) -> list[dict[int, tuple[LoadedKernel, CompileJob]]]:
    """The work of each child process: another one is worth its start from a few jobs on."""
    count = min(os.cpu_count() or 1, MOST_PROCESSES, len(requests) // JOBS_PER_PROCESS)
    listed = list(requests.items())
    return [dict(listed[at :: max(count, 1)]) for at in range(max(count, 1))] if listed else []


def _check(job: CompileJob) -> None:
    for name in job.options:
        if not is_option_name(name):
            raise UsageError(f"unknown compile option {name!r}", hint=f"options: {', '.join(option_kinds())}")
    warps = int(job.all_options()["num_warps"])
    if warps < 1 or warps & (warps - 1):
        raise UsageError(f"num_warps is a power of two, not {warps}")


def _key(kernel: LoadedKernel, job: CompileJob, triton_version: str) -> str:
    options = sorted(job.all_options().items())
    content = artefact_cache.file_hash(kernel.file)
    return artefact_cache.key(
        (
            kernel.file,
            content,
            kernel.name,
            kernel.origin,
            job.signature.text(),
            job.target.name,
            options,
            triton_version,
        )
    )


AnswerFiles = tuple[CompileAnswer, dict[str, bytes]]


def _compiled(requests: Mapping[int, tuple[LoadedKernel, CompileJob]]) -> dict[int, AnswerFiles]:
    """Every job's result; after a crash the rest go on in a new process."""
    answers: dict[int, AnswerFiles] = {}
    while missing := {at: pair for at, pair in requests.items() if at not in answers}:
        with temporary_folder() as folder:
            works = _works(missing, Path(folder))
            ending = run_worker(works, Path(folder))
            for work in works:
                results = _results(work, ending)
                answers.update(results)
                if len(results) < len(work.jobs) or any(answer.is_crash for answer, _ in results.values()):
                    break
    return answers


def _works(requests: Mapping[int, tuple[LoadedKernel, CompileJob]], folder: Path) -> list[KernelWork]:
    groups: dict[tuple[Path, str, ScriptOrigin | None], list[WorkerJob]] = {}
    for at, (kernel, job) in requests.items():
        groups.setdefault((kernel.file, kernel.name, kernel.origin), []).append(_request(at, job))
    return [
        KernelWork(str(file), name, str(folder / f"kernel-{at}"), tuple(jobs), origin)
        for at, ((file, name, origin), jobs) in enumerate(groups.items())
    ]


def _results(work: KernelWork, ending: str) -> dict[int, AnswerFiles]:
    """Up to the job that took the process down, which has that as its result."""
    depends = {file: artefact_cache.file_hash(file) for file in description(work, ending).files}
    results: dict[int, AnswerFiles] = {}
    for job in work.jobs:
        folder = Path(work.out) / str(job.index)
        if not (folder / OUTCOME_FILE).exists():
            results[job.index] = _crashed(folder, ending, depends)
            break
        results[job.index] = _read(folder, depends)
    return results


def _request(at: int, job: CompileJob) -> WorkerJob:
    target = job.target
    named = TargetRecord("cuda" if target.is_nvidia else "hip", target.architecture, target.warp_size)
    return WorkerJob(at, job.signature.arguments, job.all_options(), named)


def _read(folder: Path, depends: dict[str, str]) -> AnswerFiles:
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != OUTCOME_FILE}
    return CompileAnswer(read_record(folder / OUTCOME_FILE, CompileOutcome), depends), files


def _crashed(folder: Path, ending: str, depends: dict[str, str]) -> AnswerFiles:
    stderr = folder / "compile.stderr"
    words = stderr.read_text(errors="replace") if stderr.exists() else ""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() or "assert" in line.lower()]
    message = f"the compiler crashed: {ending}"
    if errors or lines:
        message += f"; {(errors or lines)[0]}"
    answer = CompileAnswer(CompileOutcome(failure=CompileFailure("Crash", message)), depends, is_crash=True)
    return answer, {"compile.stderr": words.encode()}


def _from_files(
    kernel: LoadedKernel, job: CompileJob, outcome: CompileOutcome, files: Mapping[str, bytes], *, is_cached: bool
) -> Artefacts:
    texts = {kind: files[kind].decode(errors="replace") for kind in IR_KINDS if kind in files}
    remarks = parse_remarks(files.get("compile.stderr", b"").decode(errors="replace"))
    log = (files.get("ptxas") or files.get("compile.stdout") or b"").decode(errors="replace")
    return Artefacts(
        kernel=kernel,
        signature=job.signature,
        target=job.target,
        options=job.all_options(),
        triton_version=outcome.triton_version,
        texts=texts,
        metadata=outcome.metadata,
        remarks=tuple(remark for remark in remarks if remark.severity != "error"),
        assembler_log=log,
        binary=files.get("cubin") or files.get("hsaco") or b"",
        failure=_located(outcome.failure, remarks) if outcome.failure else None,
        seconds=outcome.compile_seconds + outcome.disassembly_seconds,
        is_cached=is_cached,
    )


def _located(failure: CompileFailure, remarks: Sequence[Remark]) -> CompileFailure:
    """The compiler's passes say what is wrong on standard error and raise only "failed"."""
    errors = [remark for remark in remarks if remark.severity == "error"]
    if failure.line is None and errors:
        first = errors[0]
        is_split = any(_SPLITTING.search(note) for error in errors for note in error.notes)
        text = f"{first.text}; {_NOT_SPLIT}" if is_split else first.text
        return CompileFailure(failure.kind, text, first.file, first.line or None, first.column or None)
    return replace(failure, message=failure.message.strip())

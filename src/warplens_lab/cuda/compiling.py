"""Compiles kernels of a CUDA file in a child process, and keeps all that the compiler made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from warplens.cache import place
from warplens_lab.compiling import artefact_cache
from warplens_lab.compiling.child import run_request
from warplens_lab.compiling.compiling import Artefacts
from warplens_lab.compiling.loading import LoadedKernel
from warplens_lab.compiling.records import (
    OUTCOME_FILE,
    CompileAnswer,
    CompileFailure,
    CompileOutcome,
    read_record,
)
from warplens_lab.compiling.signature import KernelArgument, Signature
from warplens_lab.compiling.targets import CompileTarget
from warplens_lab.cuda.headers import included
from warplens_lab.cuda.records import CudaJob, CudaWork
from warplens_lab.cuda.request import architecture
from warplens_lab.cuda.source import CudaKernel, CudaSource
from warplens_lab.cuda.toolkit import Toolkit, require_toolkit
from warplens_run.base.temporary import temporary_folder

WORKER: Final = "warplens_lab.cuda.worker"
SECONDS: Final = 180.0
TEXTS: Final = ("ptx", "sass")
HEADERS: Final = "cuda-headers"


@dataclass(frozen=True)
class CudaCompilation:
    """A kernel to compile for one target; `arguments` are those of a template."""

    kernel: CudaKernel
    arguments: str
    target: CompileTarget

    @property
    def name(self) -> str:
        return f"{self.kernel.name}<{self.arguments}>" if self.arguments else self.kernel.name


def compile_cuda(
    source: CudaSource,
    compilations: Sequence[CudaCompilation],
    options: tuple[str, ...],
    includes: Sequence[str],
    *,
    cache: bool = True,
) -> list[Artefacts]:
    """`includes` are folders of the user's own headers, which results depend on."""
    toolkit = require_toolkit()
    depends = {str(file): artefact_cache.file_hash(file) for file in included(source.path, includes)[0]}
    keys = [_key(source, compilation, options, toolkit) for compilation in compilations]
    answers: dict[int, tuple[CompileOutcome, dict[str, bytes], bool]] = {}
    for at, key in enumerate(keys):
        cached = artefact_cache.load(key) if cache else None
        if cached is not None:
            answers[at] = cached[0].outcome, cached[1], True
    while missing := [at for at in range(len(compilations)) if at not in answers]:
        for at, (outcome, files) in _compiled(source, compilations, options, toolkit, missing, cache=cache).items():
            answers[at] = outcome, files, False
            if cache and outcome.failure is None:
                artefact_cache.save(keys[at], CompileAnswer(outcome, depends), files)
    return [_artefacts(source, compilations[at], *answers[at]) for at in range(len(compilations))]


def _key(source: CudaSource, compilation: CudaCompilation, options: tuple[str, ...], toolkit: Toolkit) -> str:
    content = artefact_cache.file_hash(source.path)
    return artefact_cache.key(
        ("cuda", source.path, content, compilation.name, compilation.target.name, options, toolkit.identity())
    )


def _compiled(
    source: CudaSource,
    compilations: Sequence[CudaCompilation],
    options: tuple[str, ...],
    toolkit: Toolkit,
    missing: Sequence[int],
    *,
    cache: bool,
) -> dict[int, tuple[CompileOutcome, dict[str, bytes]]]:
    """What one process got done; the job that took it down has that as its result."""
    with temporary_folder() as folder:
        jobs = tuple(
            CudaJob(at, compilations[at].name, architecture(compilations[at].target), options) for at in missing
        )
        out = Path(folder) / "out"
        # Kept for the next time: unpacking takes longer than compiling a small kernel.
        headers = str((place.cache_directory() if cache and not place.refusal() else Path(folder)) / HEADERS)
        work = CudaWork(
            str(source.path),
            str(out),
            toolkit.nvrtc,
            toolkit.nvdisasm,
            toolkit.includes,
            toolkit.spare_includes,
            headers,
            jobs,
        )
        ending = run_request(WORKER, [work], Path(folder), SECONDS * len(jobs))
        answers = {
            job.index: _read(out / str(job.index)) for job in jobs if (out / str(job.index) / OUTCOME_FILE).exists()
        }
        if not answers:
            failure = CompileFailure("Crash", f"the compiler crashed: {ending}")
            answers[missing[0]] = CompileOutcome(failure=failure), {}
        return answers


def _read(folder: Path) -> tuple[CompileOutcome, dict[str, bytes]]:
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != OUTCOME_FILE}
    return read_record(folder / OUTCOME_FILE, CompileOutcome), files


def _artefacts(
    source: CudaSource, compilation: CudaCompilation, outcome: CompileOutcome, files: dict[str, bytes], is_cached: bool
) -> Artefacts:
    kernel = compilation.kernel
    arguments = tuple(KernelArgument(p.name, p.type) for p in kernel.parameters)
    return Artefacts(
        kernel=LoadedKernel(source.path, compilation.name, (), kernel.first_line, ()),
        signature=Signature(arguments),
        target=compilation.target,
        options={},
        triton_version="",
        texts={kind: files[kind].decode(errors="replace") for kind in TEXTS if kind in files},
        metadata=outcome.metadata,
        remarks=(),
        assembler_log=files.get("ptxas", b"").decode(errors="replace"),
        binary=files.get("cubin", b""),
        failure=outcome.failure,
        seconds=outcome.compile_seconds + outcome.disassembly_seconds,
        is_cached=is_cached,
    )

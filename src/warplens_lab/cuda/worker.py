"""Runs in a child process: compiles kernels of a CUDA file with NVRTC, so that a crash does not end the parent.

Standard library and msgspec only. Takes a request, writes one folder per job with the compiler's results.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from warplens_lab.compiling.records import (
    OUTCOME_FILE,
    CompileFailure,
    CompileOutcome,
    read_record,
    write_record,
)
from warplens_lab.cuda.headers import NEVER_NEEDED, included, missing_header, stand_in
from warplens_lab.cuda.nvrtc import Nvrtc, NvrtcError, NvrtcResult
from warplens_lab.cuda.records import CudaJob, CudaWork
from warplens_lab.cuda.slicing import ptx_of, report_of, sass_of
from warplens_lab.cuda.text import Function, blanked, declarations
from warplens_run.processes.parent import Parent

MOST_ATTEMPTS = 60
_ERROR = re.compile(
    r"^(?P<file>.*?)\((?P<line>\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<text>.*)$", re.MULTILINE
)
_ASSEMBLER_ERROR = re.compile(r"^ptxas .*\berror\s*: (?P<text>.*)$", re.MULTILINE)
_INTEGERS = re.compile(r'identifier "u?int\d+_t" is undefined')
_STDINT = "stdint.h"
_BUNDLED = "bundled"
_ALWAYS = ("--ptxas-options=-v", "--diag-suppress=177")
"""177 is about functions that nothing calls, as a kernel without its host code is."""
_OF_KERNELS = ("__global__", "__device__", "constexpr")


def main(request_path: str) -> int:
    for work in read_record(Path(request_path), list[CudaWork]):
        out = Path(work.out)
        out.mkdir()
        nvrtc = Nvrtc(work.nvrtc)
        groups: dict[tuple[str, tuple[str, ...]], list[CudaJob]] = {}
        for job in work.jobs:
            groups.setdefault((job.architecture, job.options), []).append(job)
        for jobs in groups.values():
            _compile(work, nvrtc, jobs, out)
    return 0


@dataclass
class _Program:
    """The text and the headers as they are tried: both are changed until all is found or nothing helps."""

    work: CudaWork
    text: str
    hidden: list[Function] = field(default_factory=list)
    """Functions of the host: NVRTC refuses them."""
    stand_ins: dict[str, str] = field(default_factory=dict)
    includes: list[str] = field(default_factory=list)
    preincluded: str = ""
    waiting: list[tuple[str, ...]] = field(default_factory=list)
    """Folders to look for headers in, the best first; `_BUNDLED` is where NVRTC unpacks its own."""

    def prepare(self, options: Sequence[str]) -> None:
        """What is certain to be missing, at once: each attempt reads all headers anew, which may take seconds."""
        folders = [option[2:] for option in options if option.startswith("-I")]
        _, names = included(Path(self.work.file), folders)
        if any(stand_in(name, has_cuda_headers=False) is None for name in names):
            while self.waiting:
                self.includes += self.waiting.pop(0)
        for name in names:
            is_there = name not in NEVER_NEEDED and any((Path(f) / name).is_file() for f in self.work.includes)
            text = stand_in(name, has_cuda_headers=bool(self.includes) and not self.waiting)
            if text is not None and not is_there and stand_in(name, has_cuda_headers=True) == text:
                self.stand_ins[name] = text

    def mend(self, log: str, errors: Sequence[re.Match[str]]) -> bool:
        """Whether there is something else to try."""
        if header := missing_header(log):
            return self._mend_header(header)
        if _INTEGERS.search(log) and self.preincluded != _STDINT:
            self.preincluded = _STDINT
            self.stand_ins[_STDINT] = stand_in(_STDINT, has_cuda_headers=False) or ""
            return True
        hosts = [f for f in declarations(self.text) if not any(word in f.head for word in _OF_KERNELS)]
        lines = {int(error["line"]) for error in errors if error["file"] == self.work.file}
        wrong = [function for function in hosts if lines & set(self._lines(function))]
        self.hidden += wrong
        self.text = blanked(self.text, wrong)
        return bool(wrong)

    def _mend_header(self, header: str) -> bool:
        """What CUDA has for kernels is looked for; what only a host needs is nowhere to be found."""
        text = stand_in(header, has_cuda_headers=not self.waiting and bool(self.includes))
        is_hosts = text is not None and stand_in(header, has_cuda_headers=True) == text
        if self.waiting and not is_hosts:
            self.includes += self.waiting.pop(0)
            return True
        if text is None or header in self.stand_ins:
            return False
        self.stand_ins[header] = text
        return True

    def _lines(self, function: Function) -> range:
        first = self.text.count("\n", 0, function.start) + 1
        return range(first, self.text.count("\n", 0, function.end) + 2)

    def options(self) -> Iterator[str]:
        if self.preincluded:
            yield f"--pre-include={self.preincluded}"
        for folder in self.includes:
            yield f"--use-bundled-headers={self.work.headers}" if folder == _BUNDLED else f"-I{folder}"


def _compile(work: CudaWork, nvrtc: Nvrtc, jobs: Sequence[CudaJob], out: Path) -> None:
    """All in one go; where that fails, each alone, so that one kernel's error is not that of all."""
    started = time.process_time()
    compiler = f"NVRTC {nvrtc.version()}"
    result = _result(work, nvrtc, jobs)
    if not result.is_compiled and len(jobs) > 1:
        for job in jobs:
            _compile(work, nvrtc, [job], out)
        return
    compiled = time.process_time()
    sass = _disassembled(work, out, result.cubin) if result.is_compiled else ""
    seconds = (compiled - started) / len(jobs), (time.process_time() - compiled) / len(jobs)
    for job in jobs:
        folder = out / str(job.index)
        folder.mkdir()
        failure = None if result.is_compiled else _failure(result.log, work.file)
        name = result.names.get(job.name, "")
        if failure is None:
            _write(folder, {"ptx": ptx_of(result.ptx, name), "sass": sass_of(sass, name) if sass else "",
                            "ptxas": report_of(result.log, name)})  # fmt: skip
            (folder / "cubin").write_bytes(result.cubin)
        metadata = {"compiler": compiler, "name": name, "warnings": _warnings(result.log)}
        write_record(folder / OUTCOME_FILE, CompileOutcome("", metadata, *seconds, failure))


def _result(work: CudaWork, nvrtc: Nvrtc, jobs: Sequence[CudaJob]) -> NvrtcResult:
    bundled = (_BUNDLED,) if work.headers and nvrtc.has_headers else ()
    places = (work.includes, bundled, work.spare_includes)
    program = _Program(work, Path(work.file).read_text("utf-8", errors="replace"))
    program.waiting = [folders for folders in places if folders]
    program.prepare(jobs[0].options)
    names = [job.name for job in jobs]
    for _ in range(MOST_ATTEMPTS):
        options = [
            f"-arch={jobs[0].architecture}",
            "-lineinfo",
            *_ALWAYS,
            *jobs[0].options,
            *program.options(),
        ]
        try:
            result = nvrtc.compile(program.text, work.file, options, names, program.stand_ins)
        except NvrtcError as error:
            return NvrtcResult(f"{work.file}(0): error: {error}")
        if result.is_compiled or not program.mend(result.log, list(_ERROR.finditer(result.log))):
            break
    return result


def _disassembled(work: CudaWork, out: Path, cubin: bytes) -> str:
    if not work.nvdisasm:
        return ""
    (out / "cubin").write_bytes(cubin)
    command = [work.nvdisasm, "-gi", "-c", "-ndf", str(out / "cubin")]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    return process.stdout if process.returncode == 0 else ""


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    for kind, text in texts.items():
        if text:
            (folder / kind).write_text(text)


def _failure(log: str, file: str) -> CompileFailure:
    """The first error, in the words of the compiler, with the text of its line, or of the assembler."""
    error = _ERROR.search(log)
    if error is None:
        if refused := _ASSEMBLER_ERROR.search(log):
            return CompileFailure("NVRTC", f"ptxas: {refused['text'].strip()}")
        lines = [line.strip() for line in log.splitlines() if line.strip()]
        return CompileFailure("NVRTC", (lines or ["NVRTC gave no reason"])[-1])
    rest = log[error.end() :].splitlines()[1:3]
    source = rest[0].strip() if rest else ""
    caret = rest[1].find("^") - 1 if len(rest) > 1 and rest[1].strip() == "^" else None
    quoted = f": {source}" if source and caret is not None else ""
    line = int(error["line"]) or None
    return CompileFailure("NVRTC", error["text"].strip() + quoted, error["file"] if line else "", line, caret)


def _warnings(log: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"^.*\): warning.*$", log, re.MULTILINE)))


if __name__ == "__main__":
    Parent()  # without which it ends
    sys.exit(main(sys.argv[1]))

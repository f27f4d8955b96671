"""The launches that a script makes, noted while it runs on the CPU: they give signatures and constants to compile."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from warplens.errors import UsageError, WarplensError
from warplens.kernel_lab.compiling.child import environment
from warplens.kernel_lab.compiling.gpu_stand_in import NOTE as GPU_NOTE
from warplens.kernel_lab.compiling.gpu_stand_in import gpu_hint
from warplens.kernel_lab.compiling.loading import SEPARATOR, LoadedKernel, load_kernel
from warplens.kernel_lab.compiling.records import (
    ScriptAnswer,
    ScriptFailure,
    ScriptLaunchRecord,
    ScriptRequest,
    read_record,
    write_record,
)
from warplens.kernel_lab.compiling.signature import Signature
from warplens.kernel_lab.compiling.triton_version import install_hint, require_triton

WORKER: Final = "warplens.kernel_lab.compiling.launch_worker"
LAUNCH_SECONDS: Final = 600.0
FAILED: Final = "the script failed; what it launched before is used"
Notify = Callable[[str], None]


def ignore(message: str) -> None:
    """For callers that need no messages."""


@dataclass(frozen=True)
class ScriptLaunch:
    """One way in which a script launches a kernel; `count` says how often, with equal signature, grid and options."""

    kernel: LoadedKernel
    signature: Signature
    grid: tuple[int, ...]
    options: tuple[tuple[str, int], ...]
    count: int = 1


@dataclass(frozen=True)
class ScriptLaunches:
    """All launches of a script, each way once."""

    launches: tuple[ScriptLaunch, ...]
    notes: tuple[str, ...] = ()
    failure: str | None = None
    """What ended the script before its end; it is among the notes too."""


def launches(
    script: str, arguments: Sequence[str] = (), *, execute: bool = True, notify: Notify = ignore
) -> ScriptLaunches:
    """Runs the script with its kernels in Triton's interpreter; without `execute` kernels are noted, not run.

    A script that fails after it has launched something gives what it launched. `notify` is called with what a
    user should know before anything is compiled.
    """
    require_triton()
    path = Path(script).resolve()
    if not path.is_file():
        raise UsageError(f"no such file: {script}")
    answer = _answer(path, arguments, execute)
    notes, failure = list(answer.notes), answer.failure
    if failure is not None and not answer.launches:
        raise WarplensError(failure.text, hint=_hint(failure, answer))
    if answer.wants_gpu:
        notify(GPU_NOTE)
    if failure is not None:
        notes.append(failure.text)
        notify(f"{FAILED}: {failure.text}")
    # By their bytes: True, 1 and 1.0 are equal, and compiled differently.
    counts = Counter(msgspec.msgpack.encode(record) for record in answer.launches)
    by_bytes = {msgspec.msgpack.encode(record): record for record in answer.launches}
    listed: list[ScriptLaunch] = []
    for encoded, count in counts.items():
        record = by_bytes[encoded]
        unknown = [argument for argument in record.arguments if argument.unknown]
        if unknown:
            notes.append(f"{record.name}: omitted, its {unknown[0].argument.name} is a {unknown[0].unknown}")
        else:
            listed.append(_launch(record, count))
    return ScriptLaunches(tuple(listed), tuple(dict.fromkeys(notes)), failure.text if failure is not None else None)


def _answer(script: Path, arguments: Sequence[str], execute: bool) -> ScriptAnswer:
    with TemporaryDirectory(prefix="warplens-") as folder:
        answer, request = Path(folder) / "answer.msgpack", Path(folder) / "request.msgpack"
        write_record(request, ScriptRequest(str(script), tuple(arguments), execute, str(answer)))
        try:
            process = subprocess.run(
                [sys.executable, "-m", WORKER, str(request)],
                env=environment(Path(folder), TRITON_INTERPRET="1"),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=LAUNCH_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise WarplensError(
                f"{script.name} ran for {LAUNCH_SECONDS:.0f} s and was stopped", hint="let it launch smaller problems"
            ) from None
        if not answer.exists():
            last_line = (process.stderr.strip().splitlines() or ["it left no answer"])[-1]
            raise WarplensError(f"running {script.name} failed: {last_line}")
        return read_record(answer, ScriptAnswer)


def _hint(failure: ScriptFailure, answer: ScriptAnswer) -> str | None:
    hint = (
        gpu_hint(failure.message, failure.line, answer.gpu_line, is_requested=answer.wants_gpu)
        if failure.may_want_gpu
        else None
    )
    return install_hint(failure.message) or hint


def _launch(record: ScriptLaunchRecord, count: int) -> ScriptLaunch:
    arguments = tuple(argument.argument for argument in record.arguments)
    kernel = load_kernel(f"{record.file}{SEPARATOR}{record.name}")
    return ScriptLaunch(kernel, Signature(arguments), record.grid, record.options, count)

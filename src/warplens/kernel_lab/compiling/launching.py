"""The launches that a script makes, noted while it runs on the CPU: they give signatures and constants to compile."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from warplens.errors import UsageError, WarplensError
from warplens.files import write_whole
from warplens.kernel_lab.compiling.child import environment
from warplens.kernel_lab.compiling.gpu_stand_in import NOTE as GPU_NOTE
from warplens.kernel_lab.compiling.gpu_stand_in import gpu_hint
from warplens.kernel_lab.compiling.loading import SEPARATOR, Kernel, load_kernel
from warplens.kernel_lab.compiling.signature import Argument, Dtype, Signature
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

    kernel: Kernel
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
        raise UsageError(f"there is no file {script}")
    answer = _answer(path, arguments, execute)
    notes, failure = list(answer["notes"]), answer["failure"]
    if failure is not None and not answer["launches"]:
        raise WarplensError(failure["text"], hint=_hint(failure, answer.get("gpu")))
    if answer.get("gpu") is not None:
        notify(GPU_NOTE)
    if failure is not None:
        notes.append(failure["text"])
        notify(f"{FAILED}: {failure['text']}")
    found: dict[str, ScriptLaunch] = {}
    counts: dict[str, int] = {}
    for record in answer["launches"]:
        unknown = [a for a in record["arguments"] if "unknown" in a]
        if unknown:
            notes.append(f"{record['name']}: left out, its {unknown[0]['name']} is a {unknown[0]['unknown']}")
            continue
        key = json.dumps(record, sort_keys=True)
        counts[key] = counts.get(key, 0) + 1
        if key not in found:
            found[key] = _launch(record)
    counted = [replace(launch, count=counts[key]) for key, launch in found.items()]
    return ScriptLaunches(tuple(counted), tuple(dict.fromkeys(notes)), failure["text"] if failure is not None else None)


def _answer(script: Path, arguments: Sequence[str], execute: bool) -> dict[str, Any]:
    with TemporaryDirectory(prefix="warplens-") as folder:
        place, request = Path(folder) / "answer.json", Path(folder) / "request.json"
        content = {"script": str(script), "arguments": list(arguments), "execute": execute, "answer": str(place)}
        write_whole(request, json.dumps(content).encode())
        try:
            done = subprocess.run(
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
        if not place.exists():
            said = (done.stderr.strip().splitlines() or ["it left no answer"])[-1]
            raise WarplensError(f"running {script.name} failed: {said}")
        found: dict[str, Any] = json.loads(place.read_text())
        return found


def _hint(failure: Mapping[str, Any], gpu: Mapping[str, Any] | None) -> str | None:
    message = failure["message"]
    asked_line = gpu["line"] if gpu is not None else None
    hint = gpu_hint(message, failure["line"], asked_line, asked=gpu is not None) if failure["may_want_gpu"] else None
    return install_hint(message) or hint


def _launch(record: Mapping[str, Any]) -> ScriptLaunch:
    arguments = tuple(
        Argument(
            a["name"],
            a["type"],
            Dtype(a["dtype"]) if "dtype" in a else a["value"],
            divisible=a["divisible"],
            is_one=a["is_one"],
        )
        for a in record["arguments"]
    )
    kernel = load_kernel(f"{record['file']}{SEPARATOR}{record['name']}")
    return ScriptLaunch(kernel, Signature(arguments), tuple(record["grid"]), tuple(sorted(record["options"].items())))

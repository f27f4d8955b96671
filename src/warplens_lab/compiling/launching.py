"""The launches that a script makes, noted while it runs: they give signatures and constants to compile."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from warplens_lab.compiling.child import compiler_environment
from warplens_lab.compiling.gpu_stand_in import NOTE as GPU_NOTE
from warplens_lab.compiling.loading import LoadedKernel
from warplens_lab.compiling.records import (
    OptionValue,
    ScriptAnswer,
    ScriptLaunchRecord,
    ScriptLimits,
    ScriptOrigin,
    ScriptRequest,
    read_record,
    write_record,
)
from warplens_lab.compiling.signature import Signature
from warplens_lab.compiling.triton_version import require_triton
from warplens_lab.compiling.user_script import as_error
from warplens_run.base.errors import UsageError, WarplensError
from warplens_run.base.temporary import temporary_folder
from warplens_run.processes.child import Child, ChildEnded

WORKER: Final = "warplens_lab.compiling.launch_worker"
DEFAULT_TARGET: Final = "sm90"
GRACE_SECONDS: Final = 30.0
"""A script that does not end at its limit, inside code that is not Python, is ended after this time."""
LOOK_SECONDS: Final = 0.1
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
    options: tuple[tuple[str, OptionValue], ...]
    count: int = 1
    """0 where the script only compiles it, with `kernel.warmup`."""


@dataclass(frozen=True)
class ScriptLaunches:
    """All launches of a script, each way once."""

    launches: tuple[ScriptLaunch, ...]
    notes: tuple[str, ...] = ()
    failure: str | None = None
    """What ended the script before its end; it is among the notes too."""


def launches(
    script: str,
    arguments: Sequence[str] = (),
    *,
    limits: ScriptLimits | None = None,
    target: str = DEFAULT_TARGET,
    notify: Notify = ignore,
    progress: Notify = ignore,
) -> ScriptLaunches:
    """Runs the script, whose kernels are noted and not run; `target` is the GPU that it sees.

    A script that fails after it has launched something gives what it launched. `notify` is called with what a
    user should know before anything is compiled, `progress` several times a second with how far it is.
    """
    require_triton()
    path = Path(script).resolve()
    if not path.is_file():
        raise UsageError(f"no such file: {script}")
    answer = _answer(path, arguments, limits or ScriptLimits(), target, progress)
    notes, failure = list(answer.notes), answer.failure
    if failure is not None and not answer.launches:
        raise as_error(failure, wants_gpu=answer.wants_gpu, gpu_line=answer.gpu_line)
    if answer.wants_gpu:
        notify(GPU_NOTE)
    if failure is not None:
        notes.append(failure.text)
        notify(f"{FAILED}: {failure.text}")
    listed: list[ScriptLaunch] = []
    for record, count in _without_warmups(answer.launches):
        unknown = [argument for argument in record.arguments if argument.unknown]
        if unknown:
            notes.append(f"{record.kernel.name}: omitted, its {unknown[0].argument.name} is a {unknown[0].unknown}")
        else:
            listed.append(_launch(record, count, ScriptOrigin(str(path), tuple(arguments), target=target)))
    return ScriptLaunches(tuple(listed), tuple(dict.fromkeys(notes)), failure.text if failure is not None else None)


def _without_warmups(
    ways: Sequence[tuple[ScriptLaunchRecord, int]],
) -> list[tuple[ScriptLaunchRecord, int]]:
    """A compilation by `kernel.warmup` counts where nothing is launched like it, as launched 0 times."""
    launched = [(record.kernel, record.arguments, record.options) for record, _ in ways if not record.is_warmup]
    return [
        (record, 0 if record.is_warmup else count)
        for record, count in ways
        if not record.is_warmup or (record.kernel, record.arguments, record.options) not in launched
    ]


def _answer(
    script: Path, arguments: Sequence[str], limits: ScriptLimits, target: str, progress: Notify
) -> ScriptAnswer:
    with temporary_folder() as name:
        folder = Path(name)
        answer, request = folder / "answer.msgpack", folder / "request.msgpack"
        write_record(request, ScriptRequest(str(script), tuple(arguments), str(answer), limits, target))
        started, count = time.monotonic(), "no"
        with Child(WORKER, str(request), variables=compiler_environment(folder)) as child:
            while True:
                try:
                    count = child.receive(LOOK_SECONDS)
                except TimeoutError:
                    pass
                except ChildEnded as error:
                    ending = error.ending
                    break
                seconds = time.monotonic() - started
                progress(f"running {script.name}: {count} launch{'' if count == '1' else 'es'}, {seconds:.0f} s")
                if seconds > limits.seconds + GRACE_SECONDS:
                    raise WarplensError(
                        f"{script.name} ran for {seconds:.0f} s and was stopped", hint="let it launch smaller problems"
                    )
        if not answer.exists():
            raise WarplensError(f"running {script.name} failed: {ending}")
        return read_record(answer, ScriptAnswer)


def _launch(record: ScriptLaunchRecord, count: int, script: ScriptOrigin) -> ScriptLaunch:
    launched = record.kernel
    origin = None if launched.captured is None else replace(script, captured=launched.captured)
    kernel = LoadedKernel(
        Path(launched.file),
        launched.name,
        launched.parameters,
        launched.first_line,
        launched.configs,
        launched.heuristics,
        bool(launched.configs),
        origin,
    )
    arguments = tuple(argument.argument for argument in record.arguments)
    return ScriptLaunch(kernel, Signature(arguments), record.grid, record.options, count)

"""What passes between this process and the workers that import, compile or run a user's file.

Requests and answers are files of MessagePack, which keeps what JSON cannot hold: a constant may be infinite.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from warplens_lab.compiling.signature import KernelArgument
from warplens_lab.compiling.values import Value
from warplens_run.base.files import write_whole

KERNEL_FILE: Final = "kernel.msgpack"
IMPORT_FAILURE_FILE: Final = "import.msgpack"
OUTCOME_FILE: Final = "outcome.msgpack"
Record = TypeVar("Record")
OptionValue = bool | int | float | str
"""What an option of a compilation can be: `num_warps=8`, `launch_pdl=True`, `ptx_options="-O1"`."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel; a default that has no plain value counts as none."""

    name: str
    is_constexpr: bool
    has_default: bool = False
    default: Value = None
    annotation: str = ""


@dataclass(frozen=True)
class Config:
    """Values of constexprs and compile options, as one entry of `triton.autotune` holds them.

    >>> Config((("BLOCK", 128),), (("num_warps", 8),)).text()
    'BLOCK=128, num_warps=8'
    """

    constants: tuple[tuple[str, Value], ...] = ()
    options: tuple[tuple[str, OptionValue], ...] = ()

    def text(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in (*self.constants, *self.options))


@dataclass(frozen=True)
class KernelDescription:
    """What importing the file shows of a kernel; `parameters` is None where the name is not that of a kernel."""

    parameters: tuple[Parameter, ...] | None
    first_line: int = 0
    configs: tuple[Config, ...] = ()
    heuristics: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """The user's own files that were imported: what the kernel may depend on."""


@dataclass(frozen=True)
class TargetRecord:
    """A GPU as Triton names it."""

    backend: str
    architecture: str
    warp_size: int


@dataclass(frozen=True)
class WorkerJob:
    """One compilation; its results are left in a folder named by the index."""

    index: int
    arguments: tuple[KernelArgument, ...]
    options: dict[str, OptionValue]
    target: TargetRecord


@dataclass(frozen=True)
class ScriptOrigin:
    """The script that makes a kernel which no import of its file does: one inside a function, with what it captures."""

    script: str
    arguments: tuple[str, ...] = ()
    captured: str = ""
    target: str = "sm90"


@dataclass(frozen=True)
class KernelWork:
    """Jobs for one kernel; the worker leaves their results in the folder `out`, which it makes."""

    file: str
    name: str
    out: str
    jobs: tuple[WorkerJob, ...] = ()
    origin: ScriptOrigin | None = None


@dataclass(frozen=True)
class CompileFailure:
    """Why a kernel did not compile: the compiler's own message, and the line of the user's file that it names."""

    kind: str
    message: str
    file: str = ""
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True)
class CompileOutcome:
    """How one compilation went. `metadata` is Triton's own, as it is."""

    triton_version: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    compile_seconds: float = 0.0
    disassembly_seconds: float = 0.0
    failure: CompileFailure | None = None


@dataclass(frozen=True)
class CompileAnswer:
    """An outcome with the hashes of the files it depends on; the artefact cache keeps it."""

    outcome: CompileOutcome
    depends: dict[str, str]
    is_crash: bool = False


@dataclass(frozen=True)
class ScriptLimits:
    """When a script has shown enough: after so many launches, or seconds; None for no limit of launches."""

    launches: int | None = None
    seconds: float = 600.0


@dataclass(frozen=True)
class ScriptRequest:
    """A script to run; its kernels are noted and not run. The answer goes to the file `answer`.

    While it runs, the number of launches so far is sent now and then.
    """

    script: str
    arguments: tuple[str, ...]
    answer: str
    limits: ScriptLimits = field(default_factory=ScriptLimits)
    target: str = "sm90"
    """The architecture of the GPU that the script sees."""


@dataclass(frozen=True)
class LaunchArgument:
    """`unknown` names the type of a value that the compiler cannot be given."""

    argument: KernelArgument
    unknown: str = ""


@dataclass(frozen=True)
class LaunchedKernel:
    """A kernel as a script launches it."""

    file: str
    name: str
    parameters: tuple[Parameter, ...]
    first_line: int
    configs: tuple[Config, ...] = ()
    """Of its `autotune`."""
    heuristics: tuple[str, ...] = ()
    captured: str | None = None
    """What it takes from the function around it; None where its file defines it."""


@dataclass(frozen=True)
class ScriptLaunchRecord:
    """One launch of a script, as Triton's just-in-time compiler would specialise it."""

    kernel: LaunchedKernel
    arguments: tuple[LaunchArgument, ...]
    grid: tuple[int, ...]
    options: tuple[tuple[str, OptionValue], ...]
    is_warmup: bool = False
    """Compiled by `kernel.warmup`, not launched."""


@dataclass(frozen=True)
class ScriptFailure:
    """The error that ended a script."""

    text: str
    message: str
    """What the exception itself says."""
    line: int | None
    """The innermost of the script's own."""
    may_want_gpu: bool
    """False where the reason is known to be another one."""


@dataclass(frozen=True)
class ScriptAnswer:
    """What a script launched, and whether and where it asked for a GPU."""

    launches: tuple[tuple[ScriptLaunchRecord, int], ...]
    """Each way once, in the order of their first, with how often."""
    notes: tuple[str, ...] = ()
    failure: ScriptFailure | None = None
    wants_gpu: bool = False
    gpu_line: int | None = None


def write_record(path: Path, record: object) -> None:
    write_whole(path, msgspec.msgpack.encode(record))


def read_record(path: Path, kind: type[Record]) -> Record:
    return msgspec.msgpack.decode(path.read_bytes(), type=kind)

"""What a session is asked to record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypedDict

from warplens_run.base.errors import UsageError

CHOICES: Final = {
    # option: what it may be
    "context": ("shadow", "python"),
    "data": ("tree", "trace"),
    "backend": ("auto", "torch", "proton", "jax"),
    "hook": ("", "triton"),
    "execution_trace": ("step", "all", "none"),
}
PROTON_MODES: Final = {
    # mode: the backend that Proton's start is given for it (its choice where empty), and the mode
    "pcsampling": ("", "pcsampling"),
    "instrumentation": ("instrumentation", "default"),
    "mma": ("instrumentation", "mma"),
}


class CaptureOptions(TypedDict, total=False):
    """The options that `start` passes on; `RecordingPlan` has their meaning and defaults."""

    shapes: bool
    stacks: bool
    memory: bool
    threads: bool
    execution_trace: str
    steps: int
    wait: int
    warmup: int
    light_steps: int
    sync_events: bool
    graph_captures: int
    counters: bool
    early: bool


class PlanOptions(CaptureOptions, total=False):
    """All fields of a `RecordingPlan`: also those that `start` has as parameters of its own."""

    context: str
    data: str
    backend: str
    mode: str
    hook: str


@dataclass(frozen=True)
class RecordingPlan:
    """`steps` of them are recorded after `wait` and `warmup` steps; 0 steps means the whole run.

    `threads` records the ops of every thread, not only of the one that begins the recording and of autograd's.
    `execution_trace` selects the steps of PyTorch's ExecutionTrace: one outside the recorded ones, all, or none.
    `light_steps` more are recorded with the GPU's activity only, which slows the host far less: 0 for none, and none
    without `steps` or a GPU. `sync_events` records what waits of the host and of streams wait for. `graph_captures` is
    how many captures of CUDA or HIP graphs are recorded at the most, whenever in the run they happen. `counters` are
    power, clocks and other readings of the GPU, sampled while steps are recorded or timed. `mode` says what Proton
    records inside kernels: "pcsampling", "instrumentation" or "mma", with options of Proton's after a colon. `early`
    records what comes before the steps as well, and keeps it only where the program ends before one of them has.
    """

    context: str = "shadow"
    data: str = "trace"
    backend: str = "auto"
    mode: str = ""
    hook: str = "triton"
    shapes: bool = True
    stacks: bool = False
    memory: bool = False
    threads: bool = False
    execution_trace: str = "step"
    steps: int = 0
    wait: int = 0
    warmup: int = 0
    light_steps: int = 3
    sync_events: bool = True
    graph_captures: int = 4096
    counters: bool = False
    early: bool = False

    def __post_init__(self) -> None:
        for option, choices in CHOICES.items():
            value = getattr(self, option)
            if value not in choices:
                listed = ", ".join(word or "none" for word in choices)
                raise UsageError(f"no {option} {value!r}", hint=f"one of: {listed}")
        self._check_mode()
        for option in ("steps", "wait", "warmup", "light_steps", "graph_captures"):
            if getattr(self, option) < 0:
                raise UsageError(f"{option} cannot be negative")
        if not self.steps and (self.wait or self.warmup):
            raise UsageError("wait and warmup need a number of steps to record", hint="set steps")
        if self.early and (not self.steps or self.warmup or self.data == "tree"):
            raise UsageError("early needs a trace and a number of steps, and no warmup")

    def _check_mode(self) -> None:
        if not self.mode:
            return
        modes = f"modes of Proton: {', '.join(PROTON_MODES)}"
        if self.mode.partition(":")[0] not in PROTON_MODES:
            raise UsageError(f"no mode {self.mode!r}", hint=modes)
        if self.backend not in ("auto", "proton"):
            raise UsageError(f"the backend {self.backend} has no modes", hint=f"use the backend proton; {modes}")
        if self.mode.startswith("pcsampling") and self.data == "trace":
            raise UsageError("Proton's traces have no instruction samples", hint="use data='tree'")

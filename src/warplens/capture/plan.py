"""What a session is asked to record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from warplens.errors import UsageError

CHOICES: Final = {
    # option: what it may be
    "context": ("shadow", "python"),
    "data": ("tree", "trace"),
    "backend": ("auto", "torch", "proton", "jax"),
    "hook": ("", "triton"),
    "execution_trace": ("step", "all", "none"),
}


@dataclass(frozen=True)
class RecordingPlan:
    """`steps` of them are recorded after `wait` and `warmup` steps; 0 steps means the whole run.

    `threads` records the ops of every thread, not only of the one that begins the recording and of autograd's.
    `execution_trace` says of what PyTorch's ExecutionTrace is: of a step beside the recorded ones, of all, or of none.
    """

    context: str = "shadow"
    data: str = "trace"
    backend: str = "auto"
    hook: str = "triton"
    shapes: bool = True
    stacks: bool = False
    memory: bool = False
    threads: bool = False
    execution_trace: str = "step"
    steps: int = 0
    wait: int = 0
    warmup: int = 0

    def __post_init__(self) -> None:
        for option, known in CHOICES.items():
            value = getattr(self, option)
            if value not in known:
                listed = ", ".join(word or "none" for word in known)
                raise UsageError(f"no {option} {value!r}", hint=f"one of: {listed}")
        for option in ("steps", "wait", "warmup"):
            if getattr(self, option) < 0:
                raise UsageError(f"{option} cannot be negative")
        if not self.steps and (self.wait or self.warmup):
            raise UsageError("wait and warmup need a number of steps to record", hint="set steps")

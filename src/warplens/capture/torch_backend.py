"""Recording with PyTorch's own profiler (CUPTI or roctracer inside).

An ExecutionTrace slows a step down several times over, so by default it is recorded of one step of its own, beside the
steps that are measured: the last one before them, or else the first one after. That step's trace is kept as well; the
reader ties the two together call by call, and from there to the measured steps by what was called with what.
"""

from __future__ import annotations

import time
from typing import Any, Final

from warplens.capture import bundle
from warplens.capture.bundle import Staging
from warplens.capture.folding import Folder
from warplens.capture.plan import Plan
from warplens.capture.scopes import Metrics
from warplens.capture.torch_recording import Recording
from warplens.errors import WarplensError

STEP: Final = "ProfilerStep#"
MEASURED, ARGUMENTS, NOTHING = "measured", "arguments", ""
PIECE_SECONDS: Final = 2.0
"""A tree is folded in pieces, so that a long run needs no more memory than a short one: no piece is much longer."""


def import_torch() -> Any:
    try:
        import torch
    except ImportError:
        raise WarplensError("PyTorch is not installed here", hint="pip install torch, or --backend jax") from None
    return torch


class TorchBackend:
    """One session; PyTorch allows one at a time in a process."""

    name = "torch"

    def __init__(self, plan: Plan, staging: Staging) -> None:
        self.plan, self.staging = plan, staging
        self.torch = import_torch()
        self.notes: list[str] = []
        self.has_gpu = bool(self.torch.cuda.is_available())
        self._seen = self._measured = 0
        self._recording: Recording | None = None
        self._next: Recording | None = None
        self._mark: Any = None
        self._folder = Folder(staging) if plan.data == "tree" else None
        self._began = 0.0
        self._is_paused = False
        self._has_arguments = plan.data == "tree" or plan.execution_trace != "step"
        if not self.has_gpu:
            self.notes.append("no GPU visible to PyTorch: only the host's side is recorded")
        if not self._has_arguments and not plan.steps:
            self._has_arguments = True
            self.notes.append("no ExecutionTrace: it takes a step of its own (--steps N), or --execution-trace all")

    def start(self) -> None:
        self._open(self._phase())

    def pause(self) -> None:
        self._is_paused = True
        if self._recording is not None and not self._recording.toggle(False):
            self.notes.append("this PyTorch cannot pause its profiler: all was recorded")

    def resume(self) -> None:
        self._is_paused = False
        if self._recording is not None:
            self._recording.toggle(True)

    def step(self) -> None:
        before = self._phase()
        self._measured += before == MEASURED and bool(self._recording)
        self._close_mark()
        self._seen += 1
        after = self._phase()
        if before != after:
            self._close(before)
            self._open(after)
        self._fold_piece()
        if after == MEASURED:
            self._mark = self.torch.profiler.record_function(f"{STEP}{self._seen}")
            self._mark.__enter__()

    def stop(self) -> dict[str, Any]:
        """Everything recorded is in the bundle's folder afterwards."""
        self._close_mark()
        self._close(self._phase())
        if self._folder is not None:
            self._folder.finish()
            if self._folder.skipped_seconds:
                self.notes.append(
                    f"recorded {self._folder.recorded_seconds:.1f} s of the run and skipped "
                    f"{self._folder.skipped_seconds:.1f} s in which earlier pieces were being folded"
                )
        if self.plan.steps and self._measured < self.plan.steps:
            self.notes.append(_too_few(self.plan, self._seen, self._measured))
        return {"steps_marked": self._seen, "steps_recorded": self._measured, "gpu": self.has_gpu}

    def enter(self, name: str, metrics: Metrics) -> Any:
        if self._recording is not None and self._recording.is_running:
            self._recording.log.enter(name, dict(metrics))
        handle = self.torch.profiler.record_function(name)
        handle.__enter__()
        return handle

    def exit(self, handle: Any, depth: int) -> None:
        handle.__exit__(None, None, None)
        if depth == 0:
            self._fold_piece()

    def _phase(self) -> str:
        """What the step that runs now is recorded for."""
        plan = self.plan
        if not plan.steps:
            return MEASURED
        first = plan.wait + plan.warmup
        if first <= self._seen < first + plan.steps:
            return MEASURED
        is_beside = self._seen == first - 1 or self._seen == first + plan.steps
        return ARGUMENTS if is_beside and not self._has_arguments else NOTHING

    def _open(self, phase: str) -> None:
        if phase:
            self._recording = self._next or self._made(phase)
            self._next = None
            self._recording.start()
            self._began = time.monotonic()
            if self._is_paused:
                self._recording.toggle(False)
        elif self.plan.warmup and self._next is None and self._seen < self.plan.wait + self.plan.warmup:
            self._next = self._made(MEASURED)
            self._next.prepare()

    def _made(self, phase: str) -> Recording:
        plan = self.plan
        is_trace = plan.data == "trace"
        wants = phase == ARGUMENTS or (is_trace and plan.execution_trace == "all")
        return Recording(
            self.torch,
            shapes=plan.shapes and is_trace,
            memory=plan.memory and phase == MEASURED and is_trace,
            stacks=(plan.stacks or plan.context == "python") and phase == MEASURED,
            execution_trace=self.staging.path("execution_trace.json") if wants else None,
        )

    def _close(self, phase: str) -> None:
        """End what is being recorded, and keep it."""
        recording, self._recording = self._recording, None
        if recording is None:
            return
        plain = self.staging.path("trace.json")
        recording.stop(plain)
        if self._folder is not None:
            self._folder.add(plain, time.monotonic() - self._began)
            return
        bundle.compress(plain, self.staging.path(bundle.TRACE if phase == MEASURED else bundle.ARGUMENTS_STEP))
        calls = self.staging.path("execution_trace.json")
        if calls.exists():
            self._has_arguments = True
            bundle.compress(calls, self.staging.path(bundle.EXECUTION_TRACE))

    def _fold_piece(self) -> None:
        """End a piece of a tree where the run has come to a pause between two regions."""
        if self._folder is None or self.plan.steps or self._is_paused:
            return
        if self._recording is None:
            if self._folder.is_idle:
                self._folder.skipped_seconds += time.monotonic() - self._began
                self._open(MEASURED)
        elif time.monotonic() - self._began > PIECE_SECONDS:
            self._close(MEASURED)
            self._began = time.monotonic()

    def _close_mark(self) -> None:
        if self._mark is not None:
            self._mark.__exit__(None, None, None)
            self._mark = None


def _too_few(plan: Plan, seen: int, measured: int) -> str:
    asked = plan.wait + plan.warmup + plan.steps
    return (
        f"{seen} steps were marked and {measured} recorded; --wait {plan.wait} --warmup {plan.warmup} --steps "
        f"{plan.steps} needs {asked} (a step ends with Optimizer.step() or warplens.step())"
    )

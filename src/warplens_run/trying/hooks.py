"""What a trial asks of PyTorch, of the GPU and of the recorder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from warplens_run.capture.launch import rank
from warplens_run.capture.plain_steps import wait_for_gpu
from warplens_run.capture.plan import RecordingPlan
from warplens_run.capture.session import begin, end
from warplens_run.capture.torch_recording import is_enabled
from warplens_run.meter.window import EnergyWindow
from warplens_run.trying.trial import TrialHooks


def hooks_of(torch: Any, words: Sequence[str] = ()) -> TrialHooks:
    """For the device that PyTorch uses, and the program that runs."""
    common: dict[str, Any] = {
        # Ranks that waited for what each of them compiles would switch at different steps.
        "compilations": Compilations() if rank()[1] == 1 else lambda: 0,
        "observe_ops": lambda: observe_ops(torch),
        "record": lambda path: record(path, words),
    }
    if not torch.cuda.is_available():
        return TrialHooks(**common)
    return TrialHooks(
        settle=lambda: wait_for_gpu(torch),
        reset_peak=lambda: torch.cuda.reset_peak_memory_stats() if torch.cuda.is_initialized() else None,
        peak_bytes=lambda: int(torch.cuda.max_memory_allocated()) if torch.cuda.is_initialized() else 0,
        energy=EnergyWindow,
        device=torch.cuda.get_device_name,
        **common,
    )


class Compilations:
    """Counts what `torch.compile` begins, also of backward passes, which it compiles when they first run."""

    def __init__(self) -> None:
        self._count = 0
        self._is_listening = False

    def __call__(self) -> int:
        handler = getattr(sys.modules.get("torch._dynamo.callback"), "callback_handler", None)
        if handler is not None and not self._is_listening:
            self._is_listening = True
            handler.register_start_callback(self._on_start)
        return self._count

    def _on_start(self, *_: Any) -> None:
        self._count += 1


def observe_ops(torch: Any) -> Callable[[], frozenset[str] | None]:
    """The names of the ops of a warm-up step; None where the program itself uses the profiler."""
    if is_enabled(torch):
        return lambda: None
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    profiler.start()

    def stop() -> frozenset[str]:
        profiler.stop()
        return frozenset(event.name for event in profiler.events())

    return stop


def record(path: str, words: Sequence[str]) -> Callable[[], str]:
    session = begin(Path(path), RecordingPlan(execution_trace="none"), force=True, command=["python", *words])
    return lambda: str(end(session))

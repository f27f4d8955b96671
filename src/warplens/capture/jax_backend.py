"""Recording with `jax.profiler`: an `.xplane.pb` file with kernels, HLO and Python frames."""

from __future__ import annotations

import shutil
from typing import Any, Final

from warplens import bundle_files
from warplens.capture.backend_facts import BackendFacts
from warplens.capture.bundle import Staging
from warplens.capture.plan import RecordingPlan
from warplens.capture.scopes import Metrics
from warplens.capture.triton_launches import LaunchRecorder
from warplens.capture.windows import StepWindow
from warplens.errors import UsageError, WarplensError

CANNOT_PAUSE: Final = "JAX's profiler cannot pause: everything was recorded"


class JaxBackend:
    """One recording; JAX allows one at a time in a process."""

    name = "jax"
    records_scopes = True

    def __init__(self, plan: RecordingPlan, staging: Staging) -> None:
        if plan.data == "tree":
            raise UsageError("JAX's profiler records traces only", hint="use data='trace'")
        self.plan, self.staging = plan, staging
        self.notes: list[str] = []
        try:
            import jax
        except ImportError:
            raise WarplensError("JAX is not installed here", hint="pip install jax, or use the backend torch") from None
        self._jax = jax
        self._folder = staging.path("jax")
        self._window = StepWindow(plan)
        self._is_recording = False
        self._mark: Any = None
        self._has_metrics = False
        if plan.memory:
            self.notes.append("JAX's profiler has no switch for memory: it records allocations by itself")

    def is_measuring(self) -> bool:
        return False

    def is_timing(self) -> bool:
        return self._is_recording

    def watch_launches(self, recorder: LaunchRecorder) -> None:
        """Nothing: its launches are not recorded."""

    def start(self) -> None:
        if self._window.is_open:
            self._begin()

    def pause(self) -> None:
        if CANNOT_PAUSE not in self.notes:
            self.notes.append(CANNOT_PAUSE)

    def resume(self) -> None:
        """Nothing was paused."""

    def step(self) -> None:
        self._close_mark()
        change = self._window.step()
        if change == "open":
            self._begin()
        elif change == "close":
            self._end()
        if self._is_recording:
            self._mark = self._jax.profiler.StepTraceAnnotation("step", step_num=self._window.steps_seen)
            self._mark.__enter__()

    def stop(self) -> BackendFacts:
        self._close_mark()
        self._end()
        files = sorted(self._folder.rglob("*.xplane.pb"))
        if files:
            shutil.move(files[-1], self.staging.path(bundle_files.XPLANE))
        else:
            self.notes.append("nothing was recorded" + (": too few steps were marked" if self.plan.steps else ""))
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._has_metrics:
            self.notes.append("JAX's profiler keeps the names of scopes, not their metrics")
        return BackendFacts(self._window.steps_seen, self._jax.default_backend() == "gpu")

    def forget(self) -> None:
        """In a forked child: the recording is the parent's."""
        self._is_recording, self._mark = False, None

    def enter(self, name: str, metrics: Metrics) -> Any:
        self._has_metrics |= bool(metrics)
        handle = self._jax.profiler.TraceAnnotation(name)
        handle.__enter__()
        return handle

    def exit(self, handle: Any, depth: int) -> None:
        handle.__exit__(None, None, None)

    def _begin(self) -> None:
        self._jax.profiler.start_trace(str(self._folder))
        self._is_recording = True

    def _end(self) -> None:
        if self._is_recording:
            self._is_recording = False
            self._jax.profiler.stop_trace()

    def _close_mark(self) -> None:
        if self._mark is not None:
            self._mark.__exit__(None, None, None)
            self._mark = None

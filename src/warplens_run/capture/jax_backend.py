"""Recording with `jax.profiler`: an `.xplane.pb` file with kernels, HLO and Python frames."""

from __future__ import annotations

import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from warplens_run.base.errors import UsageError, WarplensError
from warplens_run.capture.backend_facts import BackendFacts
from warplens_run.capture.plan import RecordingPlan
from warplens_run.capture.recorded_files import RecordedPart
from warplens_run.capture.scopes import Metrics
from warplens_run.capture.step_search import StepSearch
from warplens_run.capture.steps import StepSource
from warplens_run.capture.ticker import TICK_SECONDS, Ticker
from warplens_run.capture.torch_phases import FIRST, MEASURED, RecordingPhases
from warplens_run.capture.triton_launches import LaunchRecorder
from warplens_run.formats import bundle_files
from warplens_run.formats.bundle import Staging

CANNOT_PAUSE: Final = "JAX's profiler cannot pause: everything was recorded"
COMPILATION: Final = "/jax/core/compile/"
"""How events begin that JAX reports when it traces and compiles a function: the first is the program's first work."""


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
        self._phases = RecordingPhases(replace(plan, execution_trace="none"), can_be_light=False)
        self.busy = threading.Lock()
        self.search = StepSearch(self._phases, self, wants_frames=False) if plan.steps else None
        self._ticker: Ticker | None = None
        self._is_recording = self._is_over = self._has_begun = False
        self._began = 0.0
        self._whole_steps = self._parts = 0
        self._kept: RecordedPart | None = None
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
        if self._phases.now == MEASURED:
            self._begin()
        elif self.search is not None and self.plan.early:
            self._jax.monitoring.register_event_duration_secs_listener(self._on_event)
            self._ticker = Ticker(TICK_SECONDS, self.search.look)

    def pause(self) -> None:
        if CANNOT_PAUSE not in self.notes:
            self.notes.append(CANNOT_PAUSE)

    def resume(self) -> None:
        """Nothing was paused."""

    def step(self) -> None:
        with self.busy:
            self._close_mark()
            before = self._phases.now
            self._whole_steps += self._is_recording
            self._phases.advance(is_recorded=self._is_recording)
            after = self._phases.now
            if before != after:
                self._end(before)
                self._open(after)
            if self._is_recording:
                self._open_mark()

    def may_switch(self) -> bool:
        return not self._is_over

    def switch(self, before: str, after: str) -> None:
        self._close_mark()
        self._end(before)
        self._open(after)

    def has_work(self) -> bool:
        return self._kept is not None

    def forget_steps(self, *, with_profile: bool) -> None:
        self._kept = None if with_profile else self._kept

    def stop(self) -> BackendFacts:
        self._is_over = True
        if self._ticker is not None:
            self._ticker.stop()
        self._close_mark()
        self._end(self._phases.now)
        files = sorted(self._folder.rglob("*.xplane.pb"))
        if files:
            shutil.move(files[-1], self.staging.path(bundle_files.XPLANE))
        else:
            self.notes.append("nothing was recorded" + (": too few steps were marked" if self.plan.steps else ""))
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._has_metrics:
            self.notes.append("JAX's profiler keeps the names of scopes, not their metrics")
        has_gpu = self._jax.default_backend() == "gpu"
        if self.search is None:
            return BackendFacts(self._phases.steps_seen, has_gpu)
        self.notes += self.search.summary(self._kept, self.plan.steps)
        return self.search.facts(self._kept, gpu=has_gpu, recorded=None)

    def forget(self) -> None:
        """In a forked child: the recording is the parent's."""
        self._is_recording, self._is_over, self._mark = False, True, None
        if self._ticker is not None:
            self._ticker.stop()

    def enter(self, name: str, metrics: Metrics) -> Any:
        self._has_metrics |= bool(metrics)
        handle = self._jax.profiler.TraceAnnotation(name)
        handle.__enter__()
        return handle

    def exit(self, handle: Any, depth: int) -> None:
        handle.__exit__(None, None, None)

    def _on_event(self, event: str, seconds: float, **_: Any) -> None:
        if self.search is not None and not self._has_begun and event.startswith(COMPILATION) and not self._is_over:
            self._has_begun = True
            self.search.work_begins()

    def _open(self, phase: str) -> None:
        if phase in (FIRST, MEASURED) and not self._is_over:
            self._begin()

    def _begin(self) -> None:
        self._parts += 1
        self._jax.profiler.start_trace(str(self._part_folder))
        self._is_recording, self._began, self._whole_steps = True, time.monotonic(), 0

    @property
    def _part_folder(self) -> Path:
        return self._folder / str(self._parts)

    def _end(self, phase: str) -> None:
        """End what is being recorded; of several recordings the best stays."""
        if not self._is_recording:
            return
        self._is_recording = False
        source = StepSource.NONE if self.search is None else self.search.source
        part = RecordedPart(phase, self._whole_steps, source, time.monotonic() - self._began, has_ops=True)
        self._jax.profiler.stop_trace()
        is_better = self._kept is None or part.worth >= self._kept.worth
        for folder in list(self._folder.iterdir()):
            if (folder == self._part_folder) != is_better:
                shutil.rmtree(folder, ignore_errors=True)
        self._kept = part if is_better else self._kept

    def _open_mark(self) -> None:
        self._mark = self._jax.profiler.StepTraceAnnotation("step", step_num=self._phases.steps_seen)
        self._mark.__enter__()

    def _close_mark(self) -> None:
        if self._mark is not None:
            self._mark.__exit__(None, None, None)
            self._mark = None

"""Recording with Proton, Triton's profiler: trees that stay small however long the run, scopes and Triton's hooks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from warplens import bundle_files
from warplens.capture import bundle
from warplens.capture.backend_facts import BackendFacts
from warplens.capture.bundle import Staging
from warplens.capture.plan import RecordingPlan
from warplens.capture.scopes import Metrics
from warplens.capture.triton_launches import LaunchRecorder
from warplens.capture.windows import StepWindow
from warplens.errors import WarplensError

SUFFIXES: Final = {"tree": ".hatchet", "trace": ".chrome_trace"}
TARGETS: Final = {"tree": bundle_files.TREE, "trace": bundle_files.PROTON_TRACE}


class ProtonBackend:
    """One Proton session."""

    name = "proton"
    records_scopes = True

    def __init__(self, plan: RecordingPlan, staging: Staging) -> None:
        self.plan, self.staging = plan, staging
        self.notes: list[str] = []
        try:
            import triton.profiler as proton
        except ImportError as error:
            hint = "pip install triton, or use the backend torch"
            raise WarplensError(f"Proton is not available here ({error})", hint=hint) from None
        self._proton = proton
        self._session: Any = None
        self._window = StepWindow(plan)
        self._stem = staging.path("proton")
        if plan.memory:
            self.notes.append("Proton records no allocations")

    def is_measuring(self) -> bool:
        return False

    def is_timing(self) -> bool:
        return False

    def watch_launches(self, recorder: LaunchRecorder) -> None:
        """Nothing: its launches are not recorded."""

    def start(self) -> None:
        options: dict[str, Any] = {"context": self.plan.context, "data": self.plan.data}
        if self.plan.hook:
            options["hook"] = self.plan.hook
        try:
            self._session = self._proton.start(str(self._stem), **options)
        except Exception as error:  # noqa: BLE001 - Proton raises plain RuntimeErrors, and others, without a driver
            raise WarplensError(f"Proton does not start: {error}", hint="it needs an NVIDIA or AMD GPU") from None
        if not self._window.is_open:
            self._proton.deactivate(self._session)

    def pause(self) -> None:
        self._proton.deactivate(self._session)

    def resume(self) -> None:
        if self._window.is_open:
            self._proton.activate(self._session)

    def step(self) -> None:
        change = self._window.step()
        if change == "open":
            self._proton.activate(self._session)
        elif change == "close":
            self._proton.deactivate(self._session)

    def stop(self) -> BackendFacts:
        try:
            self._proton.finalize(self._session)
        except RuntimeError as error:
            hint = "another profiler used the GPU in this process: PyTorch's, or nsys and ncu around it"
            raise WarplensError(f"Proton cannot write its profile: {error}", hint=hint) from None
        written = self._written()
        if written is None:
            self.notes.append("Proton wrote no profile")
        else:
            bundle.compress(written, self.staging.path(TARGETS[self.plan.data]))
        if self.plan.steps and self._window.steps_seen < self.plan.wait + self.plan.warmup + self.plan.steps:
            self.notes.append(f"only {self._window.steps_seen} steps were marked")
        return BackendFacts(self._window.steps_seen, gpu=True)

    def forget(self) -> None:
        """In a forked child: Proton's session is the parent's."""

    def enter(self, name: str, metrics: Metrics) -> Any:
        return self._proton.enter_scope(name, metrics=dict(metrics) or None)

    def exit(self, handle: Any, depth: int) -> None:
        self._proton.exit_scope()

    def _written(self) -> Path | None:
        files = sorted(self._stem.parent.glob(f"{self._stem.name}*{SUFFIXES[self.plan.data]}"))
        return files[0] if files else None

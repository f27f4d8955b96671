"""Recording with Proton, Triton's profiler: trees that stay small however long the run, scopes and Triton's hooks.

A mode records inside kernels: instruction samples with what warps wait for, or the regions that kernels mark.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from warplens_run.base.errors import WarplensError
from warplens_run.capture.backend_facts import BackendFacts
from warplens_run.capture.kernel_sources import sampled_lines
from warplens_run.capture.plan import PROTON_MODES, RecordingPlan
from warplens_run.capture.scopes import Metrics
from warplens_run.capture.triton_launches import LaunchRecorder
from warplens_run.capture.windows import StepWindow
from warplens_run.formats import bundle, bundle_files
from warplens_run.formats.bundle import Staging

SUFFIXES: Final = {"tree": ".hatchet", "trace": ".chrome_trace"}
TARGETS: Final = {"tree": bundle_files.TREE, "trace": bundle_files.PROTON_TRACE}
NO_LINES: Final = "TRITON_DISABLE_LINE_INFO"
LARGEST_REGIONS: Final = 64_000_000
"""Bytes of a trace of regions that are kept: a launch of 1,000 blocks can have 14 MB of them."""
EVENT_START: Final = b'},{"args"'
NAMED: Final = 4


class ProtonBackend:
    """One Proton session."""

    name = "proton"
    records_scopes = True

    def __init__(self, plan: RecordingPlan, staging: Staging) -> None:
        self.plan, self.staging = plan, staging
        self.notes: list[str] = []
        self._samples = plan.mode.startswith("pcsampling")
        self._loaded = _loaded_kernels() if self._samples else set()
        if self._samples:
            self._ask_for_lines()
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
        if self.plan.mode:
            word, _, own_options = self.plan.mode.partition(":")
            backend, mode = PROTON_MODES[word]
            options |= {"backend": backend or None, "mode": f"{mode}:{own_options}" if own_options else mode}
        try:
            self._session = self._proton.start(str(self._stem), **options)
        except Exception as error:  # noqa: BLE001 - Proton raises plain RuntimeErrors, and others, without a driver
            hint = "it needs an NVIDIA or AMD GPU" + (", and a Triton that has this mode" if self.plan.mode else "")
            raise WarplensError(f"Proton does not start: {error}", hint=hint) from None
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
            if self._samples:
                self._keep_sampled_lines(written)
            elif self.plan.mode:
                self._check_regions(written)
            if written.stat().st_size:
                bundle.compress(written, self.staging.path(TARGETS[self.plan.data]))
            else:  # then the bundle has no profile, and its notes say why
                written.unlink()
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

    def _ask_for_lines(self) -> None:
        """Set what Triton asks for when it compiles, which also keeps apart what it compiled before without lines."""
        if os.environ.get(NO_LINES, "0").lower() in ("1", "on", "true", "y", "yes"):
            self.notes.append(f"{NO_LINES} was set: it is 0 for this recording, so that samples have source lines")
        os.environ[NO_LINES] = "0"

    def _keep_sampled_lines(self, tree: Path) -> None:
        """The texts of the sampled lines: where the bundle is opened, the sources may be missing or others."""
        try:
            texts, whole = sampled_lines(json.loads(tree.read_bytes()))
        except (ValueError, KeyError, TypeError) as error:
            self.notes.append(f"the tree of samples has another form than expected ({error}): no source lines are kept")
            return
        if texts:
            self.staging.write_json(bundle_files.SAMPLED_LINES, texts)
        if late := sorted(self._loaded & whole):
            names = ", ".join(late[:NAMED]) + (" and others" if len(late) > NAMED else "")
            self.notes.append(
                f"samples of {names} have no source lines: the GPU had their code before the recording began, which "
                "has to start before their first launch"
            )

    def _check_regions(self, written: Path) -> None:
        size = written.stat().st_size
        if self.plan.data == "trace" and size > LARGEST_REGIONS:
            _cut(written)
            self.notes.append(
                f"the trace of regions has {size / 1e6:,.0f} MB, of which the first {LARGEST_REGIONS / 1e6:.0f} are "
                "kept: record fewer steps, or sums with data='tree'"
            )
        text = written.read_bytes()
        if b'"cycles"' not in text and b'"X"' not in text:
            self.notes.append("no regions: no kernel that ran marks any with triton.profiler.language")


def _loaded_kernels() -> set[str]:
    """The Triton kernels that were launched in this process, whose code the GPU has: Proton reads lines at loading."""
    jit = sys.modules.get("triton.runtime.jit")
    if jit is None:
        return set()
    # Not isinstance: that would ask objects of any library for their class.
    kernels = [thing for thing in gc.get_objects() if issubclass(type(thing), jit.JITFunction)]
    caches = ((kernel, getattr(kernel, "device_caches", {})) for kernel in kernels)
    return {kernel.__name__ for kernel, cache in caches if any(entry and entry[0] for entry in cache.values())}


def _cut(trace: Path) -> None:
    """Keep the first events of a trace, which has them in the order of the launches, on one line."""
    with trace.open("r+b") as stream:
        end = stream.read(LARGEST_REGIONS).rfind(EVENT_START)
        if end > 0:
            stream.truncate(end)
            stream.seek(end)
            stream.write(b"}]}")

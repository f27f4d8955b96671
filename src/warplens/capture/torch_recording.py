"""One stretch of a run as PyTorch's profiler records it: it begins, ends and becomes a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from warplens.capture.scope_log import HEADER, ScopeLog
from warplens.errors import WarplensError

EXPERIMENTAL: Final = (
    # Without these overloads cannot be told apart; asked for first, because it alone is worth its cost.
    {"capture_overload_names": True},
    # Kernels are tied to ops by their launches; the profiler's second way costs a call into CUPTI for every op.
    {"disable_external_correlation": True},
    # Python objects for every event would be built only to be thrown away.
    {"trace_only": True},
)


class Recording:
    """A recording of PyTorch's profiler."""

    def __init__(
        self, torch: Any, *, shapes: bool, stacks: bool, memory: bool, execution_trace: Path | None = None
    ) -> None:
        self.torch = torch
        self.log = ScopeLog()
        self.is_running = False
        self._is_ready = False
        self._observer = _observer(torch, execution_trace)
        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        self._activities = activities
        self._profiler = torch.profiler._KinetoProfile(
            activities=activities,
            record_shapes=shapes,
            profile_memory=memory,
            with_stack=stacks,
            experimental_config=_experimental(torch),
            execution_trace_observer=self._observer,
        )

    def prepare(self) -> None:
        """Load what recording needs, so that its beginning does not disturb the first step."""
        if not self._is_ready:
            self._is_ready = True
            try:
                self._profiler.prepare_trace()
            except RuntimeError as error:
                raise WarplensError(f"PyTorch's profiler does not start: {error}") from None

    def start(self) -> None:
        self.prepare()
        self._profiler.start_trace()
        self.is_running = True

    def toggle(self, is_on: bool) -> bool:
        """Pause or go on; False where this PyTorch cannot."""
        toggle = getattr(self._profiler, "toggle_collection_dynamic", None)
        if toggle is None:
            return False
        toggle(is_on, self._activities)
        self.is_running = is_on
        return True

    def stop(self, trace: Path) -> None:
        """End it and write the trace."""
        self.is_running = False
        if self.log.entries:
            # Possible only while it is being recorded.
            self._profiler.add_metadata_json(HEADER, json.dumps(self.log.entries))
        self._profiler.stop_trace()
        if self._observer is not None:
            self._observer.unregister_callback()
        self._profiler.export_chrome_trace(str(trace))


def _observer(torch: Any, path: Path | None) -> Any:
    if path is None:
        return None
    observer = torch.profiler.ExecutionTraceObserver()
    observer.register_callback(str(path))
    return observer


def _experimental(torch: Any) -> Any:
    """The profiler's settings that this PyTorch knows of those wanted."""
    config = torch._C._profiler._ExperimentalConfig
    chosen: dict[str, Any] = {}
    for wanted in EXPERIMENTAL:
        try:
            config(**chosen, **wanted)
        except TypeError:
            continue
        chosen |= wanted
    return config(**chosen)

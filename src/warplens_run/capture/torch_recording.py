"""One stretch of a run as PyTorch's profiler records it: it begins, ends and becomes a file."""

from __future__ import annotations

import json
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from warplens_run.base.errors import WarplensError
from warplens_run.capture.odd_names import OddNames
from warplens_run.capture.scope_log import HEADER, ScopeEntry, ScopeLog

EXPERIMENTAL: Final = (
    # Without these, overloads cannot be distinguished; requested first, because it alone is worth its cost.
    {"capture_overload_names": True},
    # Kernels are tied to ops by their launches; the profiler's second way costs a call into CUPTI for every op.
    {"disable_external_correlation": True},
)
# Python objects for every event would be built only to be thrown away; stacks are made of them.
WITHOUT_STACKS: Final = ({"trace_only": True},)
EVERY_THREAD: Final = ({"profile_all_threads": True},)
# What a wait of the host or of a stream waits for.
SYNC_EVENTS: Final = ({"enable_cuda_sync_events": True},)


LONG_BYTES: Final = 1 << 20


def import_torch() -> Any:
    try:
        import torch
    except ImportError:
        raise WarplensError("PyTorch is not installed here", hint="pip install torch, or use the backend jax") from None
    return torch


class Recording:
    """A recording of PyTorch's profiler; with `gpu_only` of kernels and the calls that launch them, without ops."""

    def __init__(
        self,
        torch: Any,
        *,
        shapes: bool,
        stacks: bool,
        memory: bool,
        every_thread: bool = False,
        sync_events: bool = False,
        gpu_only: bool = False,
        execution_trace: Path | None = None,
    ) -> None:
        self.torch = torch
        self.log = ScopeLog()
        self.names = OddNames()
        self.is_running = False
        self._is_ready = False
        self._arguments = execution_trace
        self._observer = _observer(torch, execution_trace)
        self._gpu_only = gpu_only
        self._activities = activities = _activities(torch, gpu_only)
        candidates = (
            *EXPERIMENTAL,
            *(() if stacks else WITHOUT_STACKS),
            *(EVERY_THREAD if every_thread else ()),
            *(SYNC_EVENTS if sync_events else ()),
        )
        settings = _settings(torch, candidates)
        self.every_thread = "profile_all_threads" in settings
        """Whether it records every thread, and any may end it; else only the one that begins it."""
        self._profiler = torch.profiler._KinetoProfile(
            activities=activities,
            record_shapes=shapes,
            profile_memory=memory,
            with_stack=stacks,
            experimental_config=torch._C._profiler._ExperimentalConfig(**settings),
            execution_trace_observer=self._observer,
        )

    def prepare(self) -> None:
        """Load what recording needs, so that its beginning does not disturb the first step."""
        if not self._is_ready:
            self._is_ready = True
            try:
                with _compiler_unloaded(self.torch), warnings.catch_warnings():
                    # Said once in each process of PyTorch's profiler that is used in turns, as it is here.
                    warnings.filterwarnings("ignore", message=".*Profiler clears events", category=UserWarning)
                    self._profiler.prepare_trace()
            except RuntimeError as error:
                raise WarplensError(f"PyTorch's profiler does not start: {error}") from None

    def start(self) -> None:
        self.prepare()
        self._profiler.start_trace()
        self._thread = threading.get_ident()
        self.is_running = True

    @property
    def records_scopes(self) -> bool:
        """Whether it is running and records what the host does."""
        return self.is_running and not self._gpu_only

    @property
    def records_this_thread(self) -> bool:
        """The one that began it, those in which autograd works for that one, or all."""
        return self.every_thread or self._thread == threading.get_ident() or is_enabled_here(self.torch)

    def toggle(self, is_on: bool) -> bool:
        """Pause or go on; False where this PyTorch cannot."""
        toggle = getattr(self._profiler, "toggle_collection_dynamic", None)
        if toggle is None or self.every_thread or self._thread != threading.get_ident():
            return False
        toggle(is_on, self._activities)
        self.is_running = is_on
        return True

    def stop(self, trace: Path) -> bool:
        """End it and write the trace; False where it is lost, as another profiler took its place."""
        self.is_running = False
        if not self.every_thread and not (self.can_stop_here and is_enabled_here(self.torch)):
            # To end it all the same would crash the process.
            return False
        if self.log.entries:
            # Possible only while it is being recorded.
            self._profiler.add_metadata_json(HEADER, json.dumps(self._plain_entries()))
        self._profiler.stop_trace()
        if self._observer is not None:
            self._observer.unregister_callback()
        self._profiler.export_chrome_trace(str(trace))
        if not trace.exists():
            raise WarplensError(f"PyTorch's profiler could not write into {trace.parent}", hint="is the disk full?")
        for written in filter(None, (trace, self._arguments)):
            self.names.restore(written)
        return True

    @property
    def can_stop_here(self) -> bool:
        """Whether this thread may end it."""
        return self.every_thread or self._thread == threading.get_ident()

    def abort(self) -> None:
        """End it without waiting for the device, and keep nothing: also in the middle of a graph's capture."""
        self.is_running = False
        if self.can_stop_here and is_enabled_here(self.torch):
            self.torch._C._autograd._disable_profiler()
            self.torch.autograd.profiler._run_on_profiler_stop()

    def _plain_entries(self) -> list[ScopeEntry]:
        """The log as the profiler can write it."""
        plain = self.names.plain
        return [
            entry._replace(
                name=plain(entry.name), metrics={plain(metric): value for metric, value in entry.metrics.items()}
            )
            for entry in self.log.entries
        ]


def is_enabled_here(torch: Any) -> bool:
    """Whether a PyTorch profiler records this thread."""
    return bool(torch._C._autograd._profiler_enabled())


def is_enabled(torch: Any) -> bool:
    """Whether some profiler of PyTorch's is recording in this process."""
    return is_enabled_here(torch) or bool(getattr(torch.autograd.profiler, "_is_profiler_enabled", False))


class OtherProfiler:
    """Called when the program itself starts PyTorch's profiler, before that ends this recording uncleanly."""

    def __init__(self, torch: Any, called: Callable[[], None]) -> None:
        self._class = torch.autograd.profiler.profile
        self._before: Any = getattr(self._class, "_prepare_trace", None)
        if self._before is None:
            return
        before: Callable[[Any], Any] = self._before

        def prepare(profiler: Any) -> Any:
            called()
            return before(profiler)

        self._prepare = self._class._prepare_trace = prepare

    def forget(self) -> None:
        if self._before is not None and self._class._prepare_trace is self._prepare:
            self._class._prepare_trace = self._before


def _observer(torch: Any, path: Path | None) -> Any:
    if path is None:
        return None
    observer = torch.profiler.ExecutionTraceObserver()
    observer.register_callback(str(path))
    return observer


def records_gpu(torch: Any) -> bool:
    """Whether there is a GPU, and a profiler that records what it does."""
    kinds = torch.profiler.ProfilerActivity
    return bool(torch.cuda.is_available()) and kinds.CUDA in torch.profiler.supported_activities()


def _activities(torch: Any, gpu_only: bool) -> list[Any]:
    kinds = torch.profiler.ProfilerActivity
    if gpu_only:
        return [kinds.CUDA]
    return [kinds.CPU, kinds.CUDA] if torch.cuda.is_available() else [kinds.CPU]


def _settings(torch: Any, candidates: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """The profiler's settings that this PyTorch knows of those wanted."""
    config = torch._C._profiler._ExperimentalConfig
    chosen: dict[str, Any] = {}
    for setting in candidates:
        try:
            config(**chosen, **setting)
        except TypeError:
            continue
        chosen |= setting
    return chosen


def holds_ops(trace: Path) -> bool:
    """Whether a trace that was just written holds any; a long one does."""
    if trace.stat().st_size > LONG_BYTES:
        return True
    text = trace.read_bytes()
    return b'"cpu_op"' in text or b'"kernel"' in text


def record_ops(torch: Any, is_on: bool) -> None:
    """Let profilers record this thread's ops, or not."""
    switch = getattr(torch._C._autograd, "_enable_record_function", None)
    if switch is not None:
        switch(is_on)


@contextmanager
def _compiler_unloaded(torch: Any) -> Iterator[None]:
    """Hide `torch._inductor` from this thread where the program has not loaded it.

    PyTorch's profiler loads the whole compiler to read one setting (whether it uses CUDA graphs), which takes 2 s. A
    program that has not loaded the compiler has not changed that setting.
    """
    find_attribute = vars(torch).get("__getattr__")
    if find_attribute is None or "torch._inductor" in sys.modules or "TORCHINDUCTOR_CUDAGRAPHS" in os.environ:
        yield
        return
    thread = threading.get_ident()

    def find_other(name: str) -> Any:
        if name == "_inductor" and threading.get_ident() == thread:
            raise AttributeError(name)
        return find_attribute(name)

    torch.__getattr__ = find_other
    try:
        yield
    finally:
        torch.__getattr__ = find_attribute

"""Triton's launch and compile hooks: names and metrics of launches, and the sources of the kernels that ran.

A kernel's `launch_metadata(grid, metadata, args)` may return {"name": …, "flops16": …, "bytes": …}; around its launch
that becomes a scope with these metrics. Proton does this by itself; here it is done for PyTorch's profiler.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import sys
import threading
from collections.abc import Callable
from typing import Any

from warplens_run.capture.scopes import enter_scope, exit_scope

NOT_METRICS = ("name", "function", "stream", "op_name")


class TritonHook:
    """Installed while a session is active, where Triton is there; `is_heard` says whether scopes are recorded now."""

    def __init__(self, is_heard: Callable[[], bool]) -> None:
        self._is_heard = is_heard
        self._local = threading.local()
        self.sources: dict[str, str] = {}
        """File name → text, of every kernel compiled or loaded while installed."""
        self.compiled: dict[str, Any] = {}
        self._is_installed = False

    def install(self, *, launches: bool) -> None:
        knobs = _knobs()
        if knobs is None or self._is_installed:
            return
        self._is_installed = True
        self._knobs, self._launches = knobs, launches
        if launches:
            knobs.runtime.launch_enter_hook.add(self.on_launch)
            knobs.runtime.launch_exit_hook.add(self.on_return)
        self._before = knobs.runtime.jit_post_compile_hook
        knobs.runtime.jit_post_compile_hook = self.on_compile

    def remove(self) -> None:
        if not self._is_installed:
            return
        self._is_installed = False
        if self._launches:
            self._knobs.runtime.launch_enter_hook.remove(self.on_launch)
            self._knobs.runtime.launch_exit_hook.remove(self.on_return)
        self._knobs.runtime.jit_post_compile_hook = self._before

    def on_launch(self, metadata: Any) -> None:
        # Steps that are timed without the profiler are not to pay for this either.
        self._local.is_open = self._is_heard()
        if not self._local.is_open:
            return
        facts = metadata.get() if hasattr(metadata, "get") and not isinstance(metadata, dict) else metadata
        metrics = {
            name: value
            for name, value in facts.items()
            if name not in NOT_METRICS and isinstance(value, (int, float)) and not isinstance(value, bool)
        }
        enter_scope(str(facts.get("name", "triton kernel")), metrics)

    def on_return(self, metadata: Any) -> None:
        if getattr(self._local, "is_open", False):
            self._local.is_open = False
            exit_scope()

    def on_compile(self, *args: Any, **facts: Any) -> Any:
        """Called by Triton after each compilation; never in its way."""
        with contextlib.suppress(Exception):
            self._keep(facts)
        return self._before(*args, **facts) if callable(self._before) else None

    def _keep(self, facts: dict[str, Any]) -> None:
        info = facts["fn"]
        function = info.jit_function
        name = f"{info.module}.{info.name}"
        self.sources[f"triton/{name}.py"] = str(function.src)
        variant = {key: facts.get("compile", {}).get(key) for key in ("signature", "constants", "num_warps",
                                                                     "num_stages", "num_ctas", "attrs")}  # fmt: skip
        self.compiled.setdefault(name, []).append(json.loads(json.dumps(variant, default=str)))


def _knobs() -> Any:
    """Triton's settings, where a version that has such hooks is installed; importing it must not fail the run."""
    if "triton" not in sys.modules and importlib.util.find_spec("triton") is None:
        return None
    try:
        from triton import knobs

        runtime = knobs.runtime
    except Exception:  # noqa: BLE001 - a broken or older Triton is none
        return None
    needed = ("launch_enter_hook", "launch_exit_hook", "jit_post_compile_hook")
    return knobs if all(hasattr(runtime, name) for name in needed) else None

"""Calls of a program's outermost modules, which no other module makes, and the compilation of its functions."""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
from collections.abc import Callable
from typing import Any


class ForwardWatch:
    """Calls back with the module whenever the call of an outermost one begins, on any thread.

    `Module.__call__` is wrapped, and not hooked: hooks change what `torch.compile` makes of a module, while a class
    whose `__call__` is wrapped before the compiler is loaded compiles as it would without.
    """

    def __init__(self, called: Callable[[Any], None]) -> None:
        self._class = importlib.import_module("torch.nn").Module
        self._before: Callable[..., Any] = self._class.__call__
        self._wrapper = self._class.__call__ = self._wrapped(self._before, called)

    def _wrapped(self, before: Callable[..., Any], called: Callable[[Any], None]) -> Callable[..., Any]:
        is_compiling = importlib.import_module("torch").compiler.is_compiling
        inside = threading.local()

        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - the profiler's name for it
            # Asked first, because the compiler omits a branch on what is constant to it.
            if is_compiling() or getattr(inside, "is_module", False):
                return before(self, *args, **kwargs)
            inside.is_module = True
            try:
                called(self)
                return before(self, *args, **kwargs)
            finally:
                inside.is_module = False

        return __call__

    def retire(self) -> None:
        """Remove the wrapper, unless something has been compiled with it, which would be compiled again."""
        if not any(getattr(sys.modules.get("torch._dynamo.utils"), "counters", {}).values()):
            self.remove()

    def remove(self) -> None:
        if self._class.__call__ is self._wrapper:
            self._class.__call__ = self._before


def watch_compiler(called: Callable[[], None]) -> Callable[[], None] | None:
    """Call back when `torch.compile` begins to compile; returns what ends this, None where it is not loaded."""
    compiler = sys.modules.get("torch._dynamo.callback")
    handler = getattr(compiler, "callback_handler", None)
    if handler is None:
        return None

    def on_start(*_: Any) -> None:
        called()

    handler.register_start_callback(on_start)

    def end() -> None:
        # The program may have cleared them all.
        with contextlib.suppress(ValueError):
            handler.remove_start_callback(on_start)

    return end

"""Scopes: named regions of a program, with what they did (flops, bytes, tokens …).

Almost free while nothing records: entering looks at one global. Each thread has a stack of its own, so scopes nest and
one scope object may be entered again inside itself or by several threads. Generators and tasks of asyncio take turns
on one thread: their scopes may close in any order.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

from warplens_run.base.errors import UsageError

Metrics = Mapping[str, float]
UNNAMED: Final = "(unnamed)"
Function = TypeVar("Function", bound=Callable[..., Any])


class ScopeRecorder(Protocol):
    """What a session's backend does with scopes; `enter` returns what `exit` needs."""

    def enter(self, name: str, metrics: Metrics) -> Any: ...

    def exit(self, handle: Any, depth: int) -> None: ...


class _Open:
    """A scope that some recorder knows of, or that `enter_scope` opened inside one."""

    __slots__ = ("handles", "name", "owner")

    def __init__(self, name: str, owner: object, handles: list[tuple[ScopeRecorder, Any]]) -> None:
        self.name, self.owner, self.handles = name, owner, handles


class _Thread(threading.local):
    def __init__(self) -> None:
        self.stack: list[_Open] = []


_recorders: tuple[ScopeRecorder, ...] = ()
_thread = _Thread()
_left_out = 0


def set_recorders(recorders: tuple[ScopeRecorder, ...]) -> None:
    """The recorders of scopes from now on; without any, scopes cost nothing."""
    global _recorders
    _recorders = recorders


def forget() -> None:
    """No recorder and nothing open: what a forked child begins with."""
    set_recorders(())
    _thread.stack.clear()


def take_omitted_count() -> int:
    """How many values of metrics were no finite numbers since this was last asked."""
    global _left_out
    count, _left_out = _left_out, 0
    return count


class scope:  # noqa: N801 - reads as a statement: `with scope("attention"):`
    """A named region; use it with `with` or as a decorator.

    `metrics` are numbers that add up along the tree: {"flops": 2e9, "bytes": 4e6, "tokens": 128}.

    >>> with scope("matmul_1024", {"flops": 2 * 1024**3}):
    ...     pass
    """

    __slots__ = ("metrics", "name")

    def __init__(self, name: str, metrics: Metrics | None = None) -> None:
        self.name = name
        self.metrics = metrics

    def __enter__(self) -> scope:
        if _recorders:
            _enter(self.name, self.metrics, self)
        return self

    def __exit__(self, *_: object) -> None:
        # A scope entered before recording began was never pushed.
        if _thread.stack:
            _exit_innermost(self)

    def __call__(self, function: Function) -> Function:
        from warplens_run.capture.wrapping import inside

        return inside(function, lambda: scope(self.name, self.metrics))


def enter_scope(name: str, metrics: Metrics | None = None) -> None:
    """Open a scope that `exit_scope` closes, for regions that no block encloses."""
    if _recorders:
        _enter(name, metrics, None)
    elif _thread.stack:
        # Paused inside a scope: pushed all the same, so that its end is not taken for the end of the one around it.
        _thread.stack.append(_Open(str(name), None, []))


def exit_scope(name: str | None = None) -> None:
    """Close the innermost scope of this thread that `enter_scope` opened; `name`, where given, must be its name."""
    stack = _thread.stack
    innermost = next((opened for opened in reversed(stack) if opened.owner is None), None)
    if innermost is None:
        return
    if name is not None and innermost.name != (str(name) or UNNAMED):
        raise UsageError(f"exit_scope({name!r}), but the innermost scope is {innermost.name!r}")
    _exit_innermost(None)


def _enter(name: str, metrics: Metrics | None, owner: object) -> None:
    name = (name if isinstance(name, str) else str(name)) or UNNAMED
    numbers = checked(name, metrics) if metrics else {}
    handles = [(recorder, recorder.enter(name, numbers)) for recorder in _recorders]
    _thread.stack.append(_Open(name, owner, handles))


def _exit_innermost(owner: object) -> None:
    stack = _thread.stack
    for index in range(len(stack) - 1, -1, -1):
        if stack[index].owner is owner:
            for recorder, handle in reversed(stack.pop(index).handles):
                recorder.exit(handle, len(stack))
            return


def checked(name: str, metrics: Metrics) -> dict[str, float]:
    """The metrics as plain numbers; numpy's and torch's scalars become such, and what is not finite is counted."""
    global _left_out
    try:
        numbers = {str(metric): float(value) for metric, value in metrics.items()}
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:  # the last is a tensor of several numbers
        raise UsageError(f"scope {name!r}: a metric is not a number ({error})") from None
    finite = {metric: value for metric, value in numbers.items() if math.isfinite(value)}
    _left_out += len(numbers) - len(finite)
    return finite

"""Scopes: named regions of a program, with what they did (flops, bytes, tokens …).

Almost free while nothing records: entering looks at one global. Each thread has a stack of its own, so scopes nest and
one scope object may be entered again inside itself or by several threads.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from warplens.errors import UsageError

Metrics = Mapping[str, float]
Function = TypeVar("Function", bound=Callable[..., Any])


class ScopeRecorder(Protocol):
    """What a session's backend does with scopes; `enter` returns what `exit` needs."""

    def enter(self, name: str, metrics: Metrics) -> Any: ...

    def exit(self, handle: Any, depth: int) -> None: ...


class _Open:
    """A scope that some recorder knows of."""

    __slots__ = ("handles", "name", "owner")

    def __init__(self, name: str, owner: object, handles: list[tuple[ScopeRecorder, Any]]) -> None:
        self.name, self.owner, self.handles = name, owner, handles


class _Thread(threading.local):
    def __init__(self) -> None:
        self.stack: list[_Open] = []


_recorders: tuple[ScopeRecorder, ...] = ()
_thread = _Thread()


def set_recorders(recorders: tuple[ScopeRecorder, ...]) -> None:
    """Who hears of scopes from now on; nobody makes them free."""
    global _recorders
    _recorders = recorders


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
        stack = _thread.stack
        # A scope entered before recording began was never pushed.
        if stack and stack[-1].owner is self:
            _exit(stack.pop())

    def __call__(self, function: Function) -> Function:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with scope(self.name, self.metrics):
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]


def enter_scope(name: str, metrics: Metrics | None = None) -> None:
    """Open a scope that `exit_scope` closes, for regions that no block encloses."""
    if _recorders:
        _enter(name, metrics, None)


def exit_scope(name: str | None = None) -> None:
    """Close the innermost scope of this thread that `enter_scope` opened; `name`, where given, must be its name."""
    stack = _thread.stack
    if not stack or stack[-1].owner is not None:
        return
    if name is not None and stack[-1].name != name:
        raise UsageError(f"exit_scope({name!r}), but the innermost scope is {stack[-1].name!r}")
    _exit(stack.pop())


def _enter(name: str, metrics: Metrics | None, owner: object) -> None:
    known = checked(name, metrics) if metrics else {}
    handles = [(recorder, recorder.enter(name, known)) for recorder in _recorders]
    _thread.stack.append(_Open(name, owner, handles))


def _exit(opened: _Open) -> None:
    depth = len(_thread.stack)
    for recorder, handle in reversed(opened.handles):
        recorder.exit(handle, depth)


def checked(name: str, metrics: Metrics) -> dict[str, float]:
    """The metrics as plain numbers; numpy's and torch's scalars become such."""
    try:
        return {str(metric): float(value) for metric, value in metrics.items()}
    except (TypeError, ValueError) as error:
        raise UsageError(f"scope {name!r}: a metric is not a number ({error})") from None

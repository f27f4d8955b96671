"""Sessions: start, pause, resume and finalize a recording; the same verbs as Proton's."""

from __future__ import annotations

import atexit
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from warplens_run.base.errors import UsageError, WarplensError
from warplens_run.base.printable import clean
from warplens_run.capture import scopes
from warplens_run.capture.launch import rank
from warplens_run.capture.plan import CaptureOptions, PlanOptions, RecordingPlan
from warplens_run.capture.recording_session import COMPLETE, Ending, Session
from warplens_run.capture.steps import StepMarks, Stepper
from warplens_run.capture.wrapping import inside
from warplens_run.formats import bundle

if TYPE_CHECKING:
    from typing_extensions import Unpack

Function = TypeVar("Function", bound=Callable[..., Any])
SUFFIX = ".warplens"


_sessions: dict[int, Session] = {}
_numbers = itertools.count(1)
_listeners: list[Stepper] = []
"""Listeners to step marks besides recording sessions."""
_steps = StepMarks(
    lambda: [*(session.backend for session in _sessions.values() if session.is_active), *_listeners],
    lambda: [session.search for session in _sessions.values() if session.search is not None and session.is_active],
)


def start(
    name: str = "profile",
    *,
    context: str = "shadow",
    data: str = "tree",
    backend: str = "auto",
    mode: str = "",
    hook: str = "triton",
    force: bool = False,
    **options: Unpack[CaptureOptions],
) -> int:
    """Begin recording; returns the session's number. `finalize` writes the bundle `<name>.warplens` (or `<name>.zip`).

    `options`: shapes, stacks, memory, threads, execution_trace, and steps with wait, early, warmup and light_steps, as
    `warplens profile` has them. `mode` is one of Proton's: "pcsampling" for what warps wait for by source line, where
    this is called before the first launch; "instrumentation" for the regions that kernels mark with
    `triton.profiler.language`. Under `warplens profile`, which records already, this returns its session, and what is
    recorded begins here where steps would be searched for.
    """
    plan = _plan({"context": context, "data": data, "backend": backend, "mode": mode, "hook": hook, **options})
    commanded = next((session for session in _sessions.values() if session.is_commanded), None)
    if commanded is not None:
        commanded.begin_own()
        return commanded.number
    return begin(_target(name), plan, force=force).number


def begin(
    target: Path, plan: RecordingPlan, *, force: bool = False, source: str = "", command: Sequence[str] | None = None
) -> Session:
    """As `start`, for a plan and a path; with a command it is `end` that ends it, and not the program."""
    if any(session.backend.name != "proton" for session in _sessions.values()):
        raise UsageError("a session is recording already, and PyTorch and JAX allow one at a time",
                         hint="call warplens.finalize() first")  # fmt: skip
    number = next(_numbers)
    session = _sessions[number] = Session(
        number, target, plan, force=force, source=source, command=command, changed=_update_recorders
    )
    _update_recorders()
    _steps.watch_optimizers()
    if session.is_commanded and plan.steps:
        # Of a program that runs already, what it has compiled would be compiled again.
        _steps.watch_forwards()
    return session


def deactivate(session: int | None = None) -> None:
    """Pause one session, or all; scopes cost nothing until it is activated again."""
    for chosen in _chosen(session):
        chosen.deactivate()


def activate(session: int | None = None) -> None:
    """Go on with one session, or all."""
    for chosen in _chosen(session):
        chosen.activate()


def finalize(session: int | None = None) -> Path | None:
    """End one session, or all, and write what was recorded; returns the bundle's path (the last one's of several).

    What `warplens profile` records goes on until the program has ended, or pauses where the program began it itself.
    """
    path, failure = None, None
    for chosen in _chosen(session):
        try:
            if chosen.is_own:
                chosen.deactivate()
            path = chosen.staging.target if chosen.is_commanded else end(chosen)
        except WarplensError as error:  # the others are ended all the same
            failure = error
    if failure is not None:
        raise failure
    return path


def end(session: Session, ending: Ending = COMPLETE) -> Path:
    """Write what a session has recorded."""
    _remove(session)
    return session.finalize(ending)


def abandon(session: Session) -> None:
    """End a session and keep nothing of it."""
    _remove(session)
    session.abandon()


def _remove(session: Session) -> None:
    _sessions.pop(session.number, None)
    if not _sessions and not _listeners:
        _steps.forget()


def step() -> None:
    """Mark the end of an iteration: what the option `steps` counts, and what the tables per step are made of."""
    if _sessions or _listeners:
        _steps.mark()


@contextmanager
def annotated(name: str) -> Iterator[None]:
    """Mark a region in traces of PyTorch's profiler only: sums of a tree have no use for a name that occurs once."""
    torch = sys.modules.get("torch")
    if torch is None or any(session.plan.data == "tree" for session in _sessions.values()):
        yield
        return
    with torch.profiler.record_function(name):
        yield


@contextmanager
def listen_to_steps(listener: Stepper) -> Iterator[None]:
    """Tell a listener of the end of every iteration, as the program or its first optimizer marks it."""
    _listeners.append(listener)
    _steps.watch_optimizers()
    try:
        yield
    finally:
        _listeners.remove(listener)
        if not _sessions and not _listeners:
            _steps.forget()


def marks_own_steps() -> None:
    """Say that `step` will be called, so that optimizers' steps are not taken for marks until then."""
    _steps.expect_marks()


@overload
def profile(
    function: Function, *, name: str | None = None, force: bool = False, **options: Unpack[PlanOptions]
) -> Function: ...


@overload
def profile(
    function: None = None, *, name: str | None = None, force: bool = False, **options: Unpack[PlanOptions]
) -> Callable[[Function], Function]: ...


def profile(
    function: Function | None = None, *, name: str | None = None, force: bool = False, **options: Unpack[PlanOptions]
) -> Function | Callable[[Function], Function]:
    """Record each call of a function as a bundle of its own: `<name>.warplens`, `<name>-2.warplens` …

    `options` are those of `start`. A call while something is recorded already (by the function's caller, say) is a part
    of that.
    """
    plan = _plan({"data": "tree", **options})

    def recorded(function: Function) -> Function:
        bundle_name = name or function.__name__
        return inside(function, lambda: _RecordedCall(bundle_name, plan, force))

    return recorded if function is None else recorded(function)


class _RecordedCall:
    """One recorded call of a function."""

    def __init__(self, name: str, plan: RecordingPlan, force: bool) -> None:
        self._name, self._plan, self._force = name, plan, force
        self._session: Session | None = None

    def __enter__(self) -> None:
        if not _sessions:
            target = _target(self._name)
            target = target if self._force else bundle.free_name(target)
            self._session = begin(target, self._plan, force=self._force)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        if self._session is None or self._session.number not in _sessions:
            return
        if error is None:
            end(self._session)
            return
        try:
            end(self._session, Ending("crashed", 1, f"{type(error).__name__}: {error}"[:500]))
        except WarplensError as failure:  # what the function raised matters more
            _say(failure)


def _plan(options: PlanOptions) -> RecordingPlan:
    # Python itself does not check the keys of a TypedDict.
    names = [field.name for field in fields(RecordingPlan)]
    unknown = next((name for name in options if name not in names), None)
    if unknown is not None:
        raise UsageError(f"no option {unknown!r}", hint=f"one of: {', '.join(names)}")
    chosen: PlanOptions = {**options, "hook": options.get("hook", "triton") or ""}
    return RecordingPlan(**chosen)


def _target(name: str) -> Path:
    return bundle.of_rank(Path(name if name.endswith((".zip", SUFFIX)) else name + SUFFIX), *rank())


def _chosen(number: int | None) -> list[Session]:
    if number is None:
        return list(_sessions.values())
    if number not in _sessions:
        listed = ", ".join(map(str, _sessions)) or "none"
        raise UsageError(f"no session {number}", hint=f"sessions: {listed}")
    return [_sessions[number]]


def _update_recorders() -> None:
    scopes.set_recorders(tuple(session.backend for session in _sessions.values() if session.is_active))


def _say(error: WarplensError) -> None:
    print(f"warplens: {clean(str(error))}", file=sys.stderr)  # noqa: T201 - at exit, where no caller can catch it


@atexit.register
def _at_exit() -> None:
    """A program that ends without `finalize` still leaves its profile."""
    for session in list(_sessions.values()):
        try:
            if session.is_commanded:
                abandon(session)
            else:
                end(session)
        except WarplensError as error:
            _say(error)


def _in_child() -> None:
    """A forked child records nothing of its parent's, and leaves the bundle to it."""
    for session in list(_sessions.values()):
        session.forget()
    _sessions.clear()
    scopes.forget()
    _steps.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)

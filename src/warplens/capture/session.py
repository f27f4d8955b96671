"""Sessions: start, pause, resume and finalize a recording; the same verbs as Proton's."""

from __future__ import annotations

import atexit
import functools
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from warplens import __version__
from warplens.capture import bundle, environment, scopes
from warplens.capture.backends import Backend, make_backend
from warplens.capture.bundle import Staging
from warplens.capture.kernel_sources import copy_inductor_sources
from warplens.capture.plan import Plan
from warplens.capture.steps import StepMarks
from warplens.capture.triton_hook import TritonHook
from warplens.errors import UsageError

Function = TypeVar("Function", bound=Callable[..., Any])
SUFFIX = ".warplens"


class Session:
    """One recording, from `start` to `finalize`."""

    def __init__(self, number: int, target: Path, plan: Plan, *, force: bool = False, source: str = "") -> None:
        self.number = number
        self.staging = Staging(target, force=force)
        self.is_active = False
        self._hook = TritonHook()
        self._began = time.time()
        try:
            self.backend: Backend = make_backend(plan, self.staging, source)
            self._clocks = environment.clocks()
            self.backend.start()
        except BaseException:
            self.staging.discard()
            raise
        self.plan = plan
        self.activate(first=True)

    def activate(self, *, first: bool = False) -> None:
        if self.is_active:
            return
        if not first:
            self.backend.resume()
        self.is_active = True
        # Proton hears of launches by itself.
        self._hook.install(launches=self.plan.hook == "triton" and self.backend.name == "torch")
        _tell_scopes()

    def deactivate(self) -> None:
        if self.is_active:
            self.is_active = False
            self._hook.remove()
            _tell_scopes()
            self.backend.pause()

    def finalize(self, facts: Mapping[str, Any]) -> Path:
        self.is_active = False
        self._hook.remove()
        _tell_scopes()
        try:
            recorded = self.backend.stop()
            self._write_sources()
            clocks = {"start": self._clocks, "end": environment.clocks()}
            self.staging.write_json(bundle.ENVIRONMENT, {**environment.facts(), "clocks": clocks})
            return self.staging.finish({**self._facts(), **recorded, **facts, "notes": self.backend.notes})
        except BaseException:
            self.staging.discard()
            raise

    def _facts(self) -> dict[str, Any]:
        return {
            "warplens": __version__,
            "command": sys.argv,
            "backend": self.backend.name,
            "data": self.plan.data,
            "context": self.plan.context,
            "rank": int(os.environ.get("RANK", 0)),
            "world_size": int(os.environ.get("WORLD_SIZE", 1)),
            "seconds": round(time.time() - self._began, 3),
        }

    def _write_sources(self) -> None:
        copy_inductor_sources(self.staging)
        for name, text in self._hook.sources.items():
            self.staging.path(f"{bundle.KERNELS}/{name}").write_text(text, encoding="utf-8")
        if self._hook.compiled:
            self.staging.write_json(f"{bundle.KERNELS}/triton/compiled.json", self._hook.compiled)


_process = os.getpid()
_sessions: dict[int, Session] = {}
_steps = StepMarks(lambda: [session.backend for session in _sessions.values() if session.is_active])


def start(
    name: str = "profile",
    *,
    context: str = "shadow",
    data: str = "tree",
    backend: str = "auto",
    hook: str = "triton",
    force: bool = False,
    **options: Any,
) -> int:
    """Begin recording; returns the session's number. `finalize` writes the bundle `<name>.warplens` (or `<name>.zip`).

    `options`: shapes, stacks, memory, execution_trace, and steps with wait and warmup, as `warplens profile` has them.
    """
    try:
        plan = Plan(context=context, data=data, backend=backend, hook=hook or "", **options)
    except TypeError as error:
        raise UsageError(f"start: {error}") from None
    target = Path(name if name.endswith((".zip", SUFFIX)) else name + SUFFIX)
    return begin(target, plan, force=force).number


def begin(target: Path, plan: Plan, *, force: bool = False, source: str = "") -> Session:
    """As `start`, for a plan and a path."""
    if any(session.backend.name != "proton" for session in _sessions.values()):
        raise UsageError("a session is recording already, and PyTorch and JAX allow one at a time",
                         hint="warplens.finalize() it first")  # fmt: skip
    number = max(_sessions, default=0) + 1
    session = _sessions[number] = Session(number, target, plan, force=force, source=source)
    _tell_scopes()
    _steps.watch_optimizers()
    return session


def deactivate(session: int | None = None) -> None:
    """Pause one session, or all; scopes cost nothing until it is activated again."""
    for each in _chosen(session):
        each.deactivate()


def activate(session: int | None = None) -> None:
    """Go on with one session, or all."""
    for each in _chosen(session):
        each.activate()


def finalize(session: int | None = None, **facts: Any) -> Path | None:
    """End one session, or all, and write what was recorded; returns the bundle's path (the last one's of several)."""
    path = None
    for each in _chosen(session):
        del _sessions[each.number]
        path = each.finalize(facts or {"status": "complete"})
    if not _sessions:
        _steps.forget()
    return path


def notes_of(session: int) -> list[str]:
    """What a session's backend has to say; the list grows until the session has ended."""
    return _chosen(session)[0].backend.notes


def step() -> None:
    """Mark the end of an iteration: what `--steps` counts, and what the tables per step are made of."""
    if _sessions:
        _steps.mark()


def marks_own_steps() -> None:
    """Say that `step` will be called, so that optimizers' steps are not taken for marks until then."""
    _steps.expect_marks()


def profile(function: Function | None = None, *, name: str | None = None, **options: Any) -> Any:
    """Record each call of a function, as `start` and `finalize` around it would."""
    if function is None:
        return functools.partial(profile, name=name, **options)
    called = name or function.__name__

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        session = start(called, **options)
        try:
            return function(*args, **kwargs)
        finally:
            finalize(session)

    return wrapped


def _chosen(number: int | None) -> list[Session]:
    if number is None:
        return list(_sessions.values())
    if number not in _sessions:
        listed = ", ".join(map(str, _sessions)) or "none"
        raise UsageError(f"no session {number}", hint=f"sessions: {listed}")
    return [_sessions[number]]


def _tell_scopes() -> None:
    scopes.set_recorders(tuple(session.backend for session in _sessions.values() if session.is_active))


@atexit.register
def _at_exit() -> None:
    """A program that ends without `finalize` still leaves its profile; a forked child leaves that to its parent."""
    if _sessions and os.getpid() == _process:
        finalize()

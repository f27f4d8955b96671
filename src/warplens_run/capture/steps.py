"""Marks of iterations, by the best source that a program has: its own `warplens.step()`, the ends of the first
optimizer's steps, or the rhythm of the outermost module's forward: its calls, where it is called again and again.
"""

from __future__ import annotations

import enum
import functools
import importlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol

from warplens_run.capture.forward_watch import ForwardWatch
from warplens_run.capture.ticker import running_files

AUTOGRAD: Final = os.path.join("torch", "autograd", "")  # noqa: PTH118 - a part of a path
PATIENCE_SECONDS: Final = 10.0
"""How long the forwards of a program that has made an optimizer are not taken for steps: an iteration may have several
of them (accumulated gradients)."""


class StepSource(enum.IntEnum):
    """What marks steps; a greater one takes the place of another."""

    NONE = 0
    FORWARD = 1
    OPTIMIZER = 2
    PROGRAM = 3


class Stepper(Protocol):
    def step(self) -> None: ...


class StepSearcher(Stepper, Protocol):
    """A recorder that accepts steps of every source."""

    def work_begins(self) -> None:
        """The first call of a module begins."""

    def found(self, source: StepSource, *, is_anew: bool, at_begin: bool) -> None:
        """A step is about to be marked by this source; `is_anew` where those marked before were parts of steps.

        `at_begin`: marks come where the next step begins, so that the last step has none.
        """


class StepMarks:
    """Passes marks on to the recorders; those of forwards, which are guesses, only to the ones that search."""

    def __init__(
        self, recorders: Callable[[], Sequence[Stepper]], searchers: Callable[[], Sequence[StepSearcher]] = tuple
    ) -> None:
        self._recorders, self._searchers = recorders, searchers
        self._source = StepSource.NONE
        self._watch: _OptimizerWatch | None = None
        self._forwards: ForwardWatch | None = None
        self._optimizer: weakref.ref[Any] | None = None
        self._is_explicit = self._has_optimizer = self._is_due = False
        self._began: float | None = None
        """When the first module was called."""
        self._called: dict[int, weakref.ref[Any]] = {}
        """The modules that have been called once."""
        self._outermost: weakref.ref[Any] | None = None
        """The one whose calls are steps."""

    def mark(self) -> None:
        """The program says that an iteration has ended."""
        # The optimizer's step of this very iteration has been counted before the program first spoke for itself.
        was_counted = not self._is_explicit and self._source is StepSource.OPTIMIZER
        self._is_explicit = True
        self._choose(StepSource.PROGRAM)
        if not was_counted:
            self._pass_on()

    def expect_marks(self) -> None:
        self._is_explicit = True

    def watch_optimizers(self) -> None:
        """Watch every optimizer step, if PyTorch is in use."""
        if "torch" in sys.modules and self._watch is None:
            self._watch = _OptimizerWatch(self._on_optimizer, self._on_new_optimizer)

    def watch_forwards(self) -> None:
        """Watch every call of a module, if PyTorch is in use."""
        if "torch" in sys.modules and self._forwards is None:
            self._forwards = ForwardWatch(self._on_forward)

    def forget(self) -> None:
        for watch in (self._watch, self._forwards):
            if watch is not None:
                watch.remove()
        self.__init__(self._recorders, self._searchers)  # type: ignore[misc]

    def _on_optimizer(self, optimizer: Any) -> None:
        first = None if self._optimizer is None else self._optimizer()
        if first is None:  # none yet, or the program is done with it
            first, self._optimizer = optimizer, weakref.ref(optimizer)
        # Of several optimizers (a GAN's two, say) the first one's step ends an iteration.
        if self._is_explicit or optimizer is not first:
            return
        # Then the next forward marks it: a profiler that ends inside an op crashes.
        self._is_due = _is_inside_backward()
        if not self._is_due:
            self._choose(StepSource.OPTIMIZER)
            self._pass_on()

    def _on_new_optimizer(self) -> None:
        self._has_optimizer = True

    def _on_forward(self, module: Any) -> None:
        if self._is_due:
            self._is_due = False
            self._choose(StepSource.OPTIMIZER, at_begin=True)
            self._pass_on()
        if self._source > StepSource.FORWARD:
            return
        if self._began is None:
            self._began = time.monotonic()
            for searcher in self._searchers():
                searcher.work_begins()
        if self._is_explicit or (self._has_optimizer and time.monotonic() - self._began < PATIENCE_SECONDS):
            return
        outermost = None if self._outermost is None else self._outermost()
        if outermost is None:
            self._note_call(module)
        elif module is outermost:
            self._pass_on()

    def _note_call(self, module: Any) -> None:
        """Choose the first of the outermost modules that is called again."""
        before = self._called.get(id(module))
        if before is None or before() is not module:
            self._called[id(module)] = weakref.ref(module)
            return
        self._outermost = before
        self._called.clear()
        self._choose(StepSource.FORWARD, at_begin=True)
        self._pass_on()

    def _choose(self, source: StepSource, *, at_begin: bool = False) -> None:
        if source <= self._source:
            return
        is_anew = self._source is StepSource.FORWARD
        self._source = source
        for searcher in self._searchers():
            searcher.found(source, is_anew=is_anew, at_begin=at_begin)
        if self._forwards is not None and not at_begin:
            self._forwards.retire()

    def _pass_on(self) -> None:
        for recorder in self._searchers() if self._source is StepSource.FORWARD else self._recorders():
            recorder.step()


def _is_inside_backward() -> bool:
    """Whether autograd calls this, on the thread of the program or on one of its own, which Python did not start."""
    is_foreign = isinstance(threading.current_thread(), threading._DummyThread)
    return is_foreign or any(AUTOGRAD in file for file in running_files())


class _OptimizerWatch:
    """Calls back after every step of every optimizer of PyTorch's, and when the first of a class is made.

    PyTorch's own hook is called inside the annotation that it puts around a step, where a new iteration cannot begin
    without crossing it. So `step` of every class is wrapped once more; the hook finds the steps that go round that.
    """

    def __init__(self, called: Callable[[Any], None], made: Callable[[], None]) -> None:
        self._called, self._made = called, made
        self._local = threading.local()
        self._module = importlib.import_module("torch.optim.optimizer")
        self._handle = self._module.register_optimizer_step_post_hook(self._on_hook)
        self._base = self._module.Optimizer
        self._wrapped = {cls: cls.step for cls in _subclasses(self._base) if hasattr(vars(cls).get("step"), "hooked")}
        for cls, step in self._wrapped.items():
            cls.step = self._around(step)
        self._first_wrapping: Any = getattr(self._base, "profile_hook_step", None)
        if self._first_wrapping is not None:
            self._base.profile_hook_step = staticmethod(self._around_first)

    def remove(self) -> None:
        self._handle.remove()
        if self._first_wrapping is not None:
            self._base.profile_hook_step = staticmethod(self._first_wrapping)
        for cls, step in self._wrapped.items():
            if getattr(cls.step, "__wrapped__", None) is step:
                cls.step = step
        self._called = lambda optimizer: None

    def _around_first(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """In the place of PyTorch's own wrapping, which a class gets with its first instance."""
        self._made()
        return self._around(self._first_wrapping(step))

    def _around(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(inner)
        def step(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if getattr(self._local, "finished", None) is not None:  # called by the step of a subclass, or of a wrapper
                return inner(optimizer, *args, **kwargs)
            finished: dict[int, Any] = {}
            self._local.finished = finished
            try:
                result = inner(optimizer, *args, **kwargs)
            finally:
                self._local.finished = None
            for optimizer_done in finished.values():
                self._called(optimizer_done)
            return result

        return step

    def _on_hook(self, optimizer: Any, *_: Any) -> None:
        finished = getattr(self._local, "finished", None)
        if finished is None:
            self._called(optimizer)
        else:
            finished.setdefault(id(optimizer), optimizer)


def _subclasses(cls: Any) -> Iterator[Any]:
    for subclass in cls.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)

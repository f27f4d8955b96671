"""Marks of iterations: `warplens.step()`, or else the ends of the first optimizer's steps."""

from __future__ import annotations

import functools
import importlib
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol


class Stepper(Protocol):
    def step(self) -> None: ...


class StepMarks:
    """Passes marks on to the recorders; marks of the program itself replace the optimizer's."""

    def __init__(self, recorders: Callable[[], Sequence[Stepper]]) -> None:
        self._recorders = recorders
        self._watch: _OptimizerWatch | None = None
        self._optimizer: weakref.ref[Any] | None = None
        self._is_explicit = False
        self._optimizer_marks = 0

    def mark(self) -> None:
        """The program says that an iteration has ended."""
        # The optimizer's step of this very iteration has been counted before the program first spoke for itself.
        was_counted = not self._is_explicit and self._optimizer_marks > 0
        self._is_explicit = True
        if not was_counted:
            self._pass_on()

    def expect_marks(self) -> None:
        self._is_explicit = True

    def watch_optimizers(self) -> None:
        """Watch every optimizer step, if PyTorch is in use."""
        if "torch" in sys.modules and self._watch is None:
            self._watch = _OptimizerWatch(self._on_optimizer)

    def forget(self) -> None:
        if self._watch is not None:
            self._watch.remove()
        self.__init__(self._recorders)  # type: ignore[misc]

    def _on_optimizer(self, optimizer: Any) -> None:
        first = None if self._optimizer is None else self._optimizer()
        if first is None:  # none yet, or the program is done with it
            first, self._optimizer = optimizer, weakref.ref(optimizer)
        # Of several optimizers (a GAN's two, say) the first one's step ends an iteration.
        if not self._is_explicit and optimizer is first:
            self._optimizer_marks += 1
            self._pass_on()

    def _pass_on(self) -> None:
        for recorder in self._recorders():
            recorder.step()


class _OptimizerWatch:
    """Calls back after every step of every optimizer of PyTorch's.

    PyTorch's own hook is called inside the annotation that it puts around a step, where a new iteration cannot begin
    without crossing it. So `step` of every class is wrapped once more; the hook finds the steps that go round that.
    """

    def __init__(self, called: Callable[[Any], None]) -> None:
        self._called = called
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
        return self._around(self._first_wrapping(step))

    def _around(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(inner)
        def step(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            outer, self._local.finished = getattr(self._local, "finished", None), []
            try:
                result = inner(optimizer, *args, **kwargs)
                finished = self._local.finished
            finally:
                self._local.finished = outer
            for optimizer_done in finished:
                self._called(optimizer_done)
            return result

        return step

    def _on_hook(self, optimizer: Any, *_: Any) -> None:
        finished = getattr(self._local, "finished", None)
        if finished is None:
            self._called(optimizer)
        else:
            finished.append(optimizer)


def _subclasses(cls: Any) -> Iterator[Any]:
    for subclass in cls.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)

"""Marks of iterations: `warplens.step()`, or else the ends of the first optimizer's steps."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Stepper(Protocol):
    def step(self) -> None: ...


class StepMarks:
    """Passes marks on to whoever records; marks of the program itself take the place of the optimizer's."""

    def __init__(self, recorders: Callable[[], Sequence[Stepper]]) -> None:
        self._recorders = recorders
        self._handle: Any = None
        self._optimizer: int | None = None
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
        """Hear of every optimizer step, where PyTorch is in use."""
        if "torch" not in sys.modules or self._handle is not None:
            return
        optimizers = importlib.import_module("torch.optim.optimizer")
        self._handle = optimizers.register_optimizer_step_post_hook(self._on_optimizer)

    def forget(self) -> None:
        if self._handle is not None:
            self._handle.remove()
        self.__init__(self._recorders)  # type: ignore[misc]

    def _on_optimizer(self, optimizer: Any, *_: Any) -> None:
        if self._optimizer is None:
            self._optimizer = id(optimizer)
        # Of several optimizers (a GAN's two, say) the first one's step ends an iteration.
        if not self._is_explicit and id(optimizer) == self._optimizer:
            self._optimizer_marks += 1
            self._pass_on()

    def _pass_on(self) -> None:
        for recorder in self._recorders():
            recorder.step()

"""What a fix is, and what several of them need."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable
from typing import Any, Protocol


class Fix(Protocol):
    """A change that can be made and taken back between two steps."""

    @property
    def name(self) -> str: ...

    @property
    def needs_op(self) -> str:
        """An op that a program has to call for the fix to change anything; empty for none."""

    def switch(self, on: bool) -> None:
        """Raises a `WarplensError` with the reason where the program has nothing to change."""


def live(kind: Any) -> list[Any]:
    """The instances of a class that the program holds. Odd ones warn or fail when asked for their class."""
    is_frozen = gc.get_freeze_count() > 0
    if is_frozen:  # what is frozen is not listed
        gc.unfreeze()
    objects = [one for one in gc.get_objects() if issubclass(type(one), kind)]
    if is_frozen:
        gc.freeze()
    return objects


def optimizer_module() -> Any:
    """Not an attribute of its package."""
    return importlib.import_module("torch.optim.optimizer")


def replaced(place: Any, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Callable[[], None]:
    """Wrap a function where it is looked up; returns what undoes it."""
    own = vars(place).get(name)
    setattr(place, name, wrap(getattr(place, name)))

    def undo() -> None:
        if own is None:
            delattr(place, name)
        else:
            setattr(place, name, own)

    return undo

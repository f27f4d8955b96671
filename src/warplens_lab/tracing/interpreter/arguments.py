"""Arguments by name: the interpreter's methods have theirs in another order in Triton 3.6 than in 3.9."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any

Method = Callable[..., Any]


class Arguments:
    """Reads and replaces arguments of a call by the first of several names that the signature has."""

    def __init__(self, function: Method) -> None:
        self.positions = _positions(getattr(function, "__func__", function))

    def get(self, args: tuple[Any, ...], kwargs: dict[str, Any], *names: str) -> Any:
        for name in names:
            position = self.positions.get(name)
            if position is not None:
                return args[position] if position < len(args) else kwargs.get(name)
        return None

    def replaced(self, args: tuple[Any, ...], kwargs: dict[str, Any], name: str, value: Any) -> Any:
        position = self.positions[name]
        if position >= len(args):
            return args, {**kwargs, name: value}
        return (*args[:position], value, *args[position + 1 :]), kwargs


@lru_cache(maxsize=64)
def _positions(function: Method) -> dict[str, int]:
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    return {name: position for position, name in enumerate(names)}

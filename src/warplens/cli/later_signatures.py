"""Signatures of Polars' functions, found out when they are asked for.

Importing Polars gives six hundred functions a signature, for editors alone: a twentieth of the time that it takes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

PLAIN_SIGNATURE: Final = inspect.signature


def signatures_later() -> None:
    """For a process of our own, before Polars is imported."""
    vars(inspect)["signature"] = _signature


def _signature(function: Any, **options: Any) -> inspect.Signature:
    is_of_polars = str(getattr(function, "__module__", "")).startswith("polars.") and not options
    return _LaterSignature(function) if is_of_polars else PLAIN_SIGNATURE(function, **options)


class _LaterSignature(inspect.Signature):
    """Without what a signature has, until something of it is used."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __getattr__(self, name: str) -> Any:
        found = PLAIN_SIGNATURE(self._function)
        for each in inspect.Signature.__slots__:
            setattr(self, each, getattr(found, each))
        return getattr(self, name)

    def replace(self, **changes: Any) -> Any:
        return PLAIN_SIGNATURE(self._function).replace(**changes)

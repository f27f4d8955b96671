"""JSON whose values become records: their types are checked by msgspec, which lets whole numbers of any length pass."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from warplens_run.base import bounded

T = TypeVar("T")
LONG_NUMBER: Final = re.compile(rb"[0-9]{19}")


def decode_typed(content: bytes, kind: type[T], dec_hook: Callable[[type, Any], Any] | None = None) -> T:
    """Raises `msgspec.DecodeError` where a value has another type, or is a whole number beyond 64 bits."""
    if LONG_NUMBER.search(content):
        _check(msgspec.json.decode(content))
    return msgspec.json.decode(content, type=kind, dec_hook=dec_hook)


def _check(value: object) -> None:
    if isinstance(value, int) and not -bounded.INT64 <= value < bounded.INT64:
        raise msgspec.ValidationError("a number beyond 64 bits")
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check(part)

"""Lists that are kept as the text that a profiler wrote: shapes, types, strides and values of a call."""

from __future__ import annotations

from typing import Any

from warplens_run.base import bounded


def decoded_list(text: str | None) -> list[Any]:
    """Empty where the text is not a list; it may contain values that are not numbers.

    >>> decoded_list("[[2, 3], -Infinity]"), decoded_list("[2,"), decoded_list(None)
    ([[2, 3], -inf], [], [])
    """
    try:
        value = bounded.decoded(text) if text else []
    except (ValueError, RecursionError):
        return []
    return value if isinstance(value, list) else []

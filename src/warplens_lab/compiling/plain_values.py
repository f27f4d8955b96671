"""Values of a user's kernel, Triton's constexprs and types among them, as values that a record can hold."""

from __future__ import annotations

from typing import Any, Final

from warplens_lab.compiling.values import Dtype, Value

LEAST: Final = -(2**63)
MOST: Final = 2**64 - 1
"""What a file of MessagePack can hold."""


def is_plain(value: Any) -> bool:
    """Whether the value is a number, a text, None, a type, or a constexpr of one of them.

    >>> is_plain(1.5), is_plain([1]), is_plain(2**70)
    (True, False, False)
    """
    inner = _inner(value)
    if isinstance(inner, int) and not LEAST <= inner <= MOST:
        return False
    return inner is None or isinstance(inner, (bool, int, float, str)) or _is_dtype(inner)


def plain_value(value: Any) -> Value:
    """None where it is not plain."""
    inner = _inner(value)
    if not is_plain(value):
        return None
    return Dtype(str(inner.name)) if _is_dtype(inner) else inner


def _inner(value: Any) -> Any:
    """A type of Triton has no `value`; a constexpr has."""
    return getattr(value, "value", value)


def _is_dtype(value: Any) -> bool:
    return hasattr(value, "primitive_bitwidth") and hasattr(value, "name")

"""Why a unit does not run, said in one line."""

from __future__ import annotations

from typing import Final

MAX_CHARS: Final = 240
PLAIN: Final = ("RuntimeError", "NotImplementedError", "BadUnit", "AcceleratorError", "OutOfMemoryError")
"""Errors whose message suffices; for others the type is added."""


class BadUnit(Exception):  # noqa: N818 - named for what it is, as `FormatError` names a file
    """The unit cannot run as the plan says it: an unknown op, arguments that do not fit."""


class UnitRefused(Exception):  # noqa: N818
    """The unit could run, but not here or not under these options."""


def one_line(error: BaseException) -> str:
    """
    >>> one_line(RuntimeError("shapes differ\\nsome stack"))
    'shapes differ'
    >>> one_line(KeyError("x"))
    "KeyError: 'x'"
    """
    first = next((text.strip() for text in str(error).splitlines() if text.strip()), "")
    kind = type(error).__name__
    words = first if first and kind in PLAIN else f"{kind}: {first}".rstrip(": ")
    if len(words) > MAX_CHARS:  # advice follows what happened
        words = words.partition(". ")[0]
    return words if len(words) <= MAX_CHARS else words[: MAX_CHARS - 1] + "…"

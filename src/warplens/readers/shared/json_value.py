"""One JSON value out of a longer text that may be damaged."""

from __future__ import annotations

import json
import re
from typing import Final

FIRST_REACH: Final = 1 << 12
"""Characters that a value is looked for in at first: most events take hundreds."""
FURTHER: Final = 8
PART_OF_TOKEN: Final = re.compile(r"[\w.+-]*\Z")


def _integer(digits: str) -> float:
    """Python refuses to convert thousands of digits, for which it would take the square of their number."""
    try:
        return int(digits)  # bounded: by their types, as what becomes of an event
    except ValueError:
        return float(digits)  # bounded: likewise


DECODER: Final = json.JSONDecoder(strict=False, parse_int=_integer)  # bounded: likewise
"""Not strict: a bare newline or escape character inside a name does not make the event unreadable. It takes NaN."""


def value_at(text: str, start: int) -> tuple[object, int]:
    """The value that begins at a place in a text, and where it ends; raises what the standard library does.

    That counts all lines before an error: in a long text with many of them, the square of its length. So it is given
    only the part that it needs.
    """
    reach = FIRST_REACH
    while True:
        part, is_all = text[start : start + reach], start + reach >= len(text)
        try:
            value, end = DECODER.raw_decode(part)
        except ValueError as error:
            if is_all or not is_cut(error):
                raise
        else:
            if is_all or PART_OF_TOKEN.match(part, end) is None:  # the digits of a number may go on
                return value, start + end
        reach *= FURTHER


def is_cut(error: Exception) -> bool:
    """Whether all was well up to the end of the text: then the entry goes on beyond it."""
    if not isinstance(error, json.JSONDecodeError) or error.msg.startswith("Extra data"):
        return False
    return error.msg.startswith("Unterminated string") or PART_OF_TOKEN.match(error.doc, error.pos) is not None

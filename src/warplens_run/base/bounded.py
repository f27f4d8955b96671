r"""The door for values from files: whole numbers of 64 bits, finite numbers, texts that can be written anywhere.

A file may have 5,000 digits where a device's number belongs, 1e999, NaN, a list, half of a character or a megabyte of
text. Converting thousands of digits raises or takes the square of their number, and most of what a value passes later
(columns, JSON, terminals) takes none of the others. So what a file says of one thing goes through here before anything
else looks at it; `tests/unit/test_door.py` finds conversions that go round it.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final
from zlib import crc32

from warplens_run.base.printable import encodable

INT64: Final = 1 << 63
MOST_DIGITS: Final = 19
"""Of a whole number in 64 bits."""
MOST_NUMBER_CHARACTERS: Final = 64
"""A float takes 24."""
MOST_CHARACTERS: Final = 1 << 16
"""Of a name; the longest of real programs, templates in C++, have less than 10,000."""
ODD: Final = re.compile(r"[0-9]{20}|\\u[dD][89a-fA-F]|[\ud800-\udfff]")
"""What sound JSON rarely has: many digits, halves of characters as JSON names them, bytes that are not UTF-8."""


def whole(value: object, absent: int = 0, least: int = -INT64, most: int = INT64 - 1) -> int:
    """A whole number between two others, as a number or as its decimal digits; `absent` for everything else.

    >>> whole(7), whole("-7"), whole(7.0), whole(7.5), whole("7" * 5000), whole(1e999), whole(True), whole("x", -1)
    (7, -7, 7, 0, 0, 0, 0, -1)
    >>> whole(9, absent=-1, least=0, most=8)
    -1
    """
    number = value if type(value) is int else _whole(value)
    return number if number is not None and least <= number <= most else absent


def _whole(value: object) -> int | None:
    if isinstance(value, str):
        digits = value.strip().removeprefix("-")
        return int(value) if digits.isascii() and digits.isdecimal() and len(digits) <= MOST_DIGITS else None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return None


def is_whole(value: object, least: int = -INT64, most: int = INT64 - 1) -> bool:
    """Whether a value is such a number."""
    return least <= whole(value, least - 1, least, most)


def number(value: object) -> float | None:
    """A finite number, as a number or as text; None for everything else.

    >>> number(7), number("1e3"), number("nan"), number("1e999"), number(10**400), number(True), number([1])
    (7.0, 1000.0, None, None, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str) and len(value) > MOST_NUMBER_CHARACTERS:
        return None
    try:
        converted = float(value)
    except (ValueError, OverflowError):
        return None
    return converted if math.isfinite(converted) else None


def text(value: object, most: int = MOST_CHARACTERS) -> str:
    r"""A text that can be encoded, of bounded length; numbers as they are written, "" for everything else.

    >>> text("a\ud800"), text(12), text(12.5), text(True), text(10**5000), text(None), text(["a"])
    ('a?', '12', '12.5', '', '', '', '')
    """
    if not isinstance(value, str):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return ""
        return str(value) if isinstance(value, float) or -INT64 <= value < INT64 else ""
    return encodable(value) if len(value) <= most else shortened(value, most)


def shortened(value: str, most: int = MOST_CHARACTERS) -> str:
    """The begin of a long text and what distinguishes it from others that begin alike.

    >>> shortened("ab" * 50, 10)
    'ababababab… (100 characters, 5df42f2c)'
    """
    content = value.encode("utf-8", "replace")
    return f"{encodable(value[:most])}… ({len(value):,} characters, {crc32(content):08x})"


def texts(values: list[str], most: int = MOST_CHARACTERS) -> tuple[list[str], int]:
    r"""The same of many texts, of which nearly always all are as they should be, and how many were cut.

    >>> texts(["gemm", "\ud800"])
    (['gemm', '?'], 0)
    """
    cut = sum(len(value) > most for value in values) if max(map(len, values), default=0) > most else 0
    if not cut:
        try:
            "".join(values).encode()
        except UnicodeEncodeError:
            pass
        else:
            return values, 0
    return [text(value, most) for value in values], cut


def _integer(digits: str) -> float:
    return int(digits) if len(digits) <= MOST_DIGITS + 2 else float(digits)


DECODER: Final = json.JSONDecoder(strict=False, parse_int=_integer)
"""Not strict: a bare newline or escape character inside a name does not make a file unreadable. It takes NaN."""
_QUICK: Final = json.JSONDecoder(strict=False)


def decoded(content: str | bytes) -> Any:
    r"""A JSON value without half characters and without whole numbers of many digits; raises what `json.loads` does.

    >>> decoded('["a\\ud800", 12]'), decoded("7" * 5000)
    (['a?', 12], inf)
    """
    text = content if isinstance(content, str) else content.decode(json.detect_encoding(content), "surrogatepass")
    text = text.removeprefix("\ufeff")
    return _without_halves(DECODER.decode(text)) if ODD.search(text) else _QUICK.decode(text)


def _without_halves(value: Any) -> Any:
    """JSON can name half of a character, which no file, table or terminal takes."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, list):
        return [_without_halves(part) for part in value]
    if isinstance(value, dict):
        return {_without_halves(name): _without_halves(part) for name, part in value.items()}
    return value

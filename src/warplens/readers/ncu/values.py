"""Numbers as Nsight Compute prints them, brought to base units without loss: ns, bytes, bytes per second, Hz.

Prefixes are decimal (1 Kbyte is 1000 bytes). Thousands separators and the decimal sign follow the locale of the machine
that wrote the file, so they are inferred from the file's own numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

NS: Final = "ns"
BYTES: Final = "byte"
BYTES_PER_S: Final = "byte/s"
HERTZ: Final = "hz"
PLAIN: Final = ""
"""A percentage, a count or a ratio: its unit says nothing about its size."""

MISSING: Final = frozenset({"", "n/a", "na", "nan", "-nan", "inf", "-inf", "no data", "none", "null", "-"})
"""Texts that stand for a value that was not measured, or that a division by zero left."""
MAX_VALUE: Final = Decimal(2**53)
"""Beyond this nothing on a GPU is counted, and sums of it would no longer be exact."""

_EXPONENTS: Final = {
    "": 0, "n": -9, "u": -6, "\u00b5": -6, "\u03bc": -6, "m": -3, "k": 3, "K": 3, "M": 6, "G": 9, "T": 12, "P": 15,
}  # fmt: skip
_BASES: Final = {
    "s": "s", "sec": "s", "second": "s", "seconds": "s", "byte": "byte", "bytes": "byte", "hz": "hz", "Hz": "hz",
}  # fmt: skip
_PREFIXED: Final = re.compile(rf"([{''.join(_EXPONENTS)}]?)({'|'.join(sorted(_BASES, key=len, reverse=True))})")
_SAME: Final = {"s": ("ns", 9), "cycle/s": ("hz", 0)}
"""Times are kept in ns; older versions write a frequency as cycles per time."""

_DOUBTFUL: Final = "(!)"  # set before values that could not be measured well, or at all
_INSTANCES: Final = " ("  # some metrics list their instances after their sum
_GROUPING: Final = str.maketrans("", "", "'\u2019 \u00a0\u2009\u202f_")
_NUMBER: Final = re.compile(r"[-+]?\d{1,20}(?:\.\d{1,20})?(?:[eE][-+]?\d{1,2})?")
_MAX_CHARS: Final = 28  # as many digits as a Decimal of the default precision scales without rounding
_POINT: Final = re.compile(r"[\d,]*\.(?:\d{1,2}|\d{4,})|\d{1,3}(?:,\d{3})+\.\d+|0\.\d+")
_COMMA: Final = re.compile(r"[\d.]*,(?:\d{1,2}|\d{4,})|\d{1,3}(?:\.\d{3})+,\d+|0,\d+")
_CELLS_LOOKED_AT: Final = 20_000


class Cell(NamedTuple):
    """A value as the file has it."""

    text: str
    unit: str


class BadValueError(ValueError):
    """A text that is not a number, or a unit that does not fit what is measured."""


def value_of(cell: Cell, unit: str, *, decimal_comma: bool = False) -> Decimal | None:
    """The value in a base unit, None where it was not measured.

    >>> [int(value_of(*case)) for case in ((Cell("1,175.584", "us"), NS), (Cell("0.192", "Tbyte/s"), BYTES_PER_S))]
    [1175584, 192000000000]
    >>> value_of(Cell("(!) n/a", ""), PLAIN) is None
    True
    """
    number = parse_number(cell.text, decimal_comma=decimal_comma)
    if number is None or unit == PLAIN:
        return number
    base, exponent = base_unit(cell.unit)
    if base != unit:
        raise BadValueError(f"{cell.unit or 'no unit'} instead of {unit}")
    scaled = number.scaleb(exponent)
    if abs(scaled) >= MAX_VALUE:
        raise BadValueError(f"{cell.text[:40]} {cell.unit} is too large")
    return scaled


def parse_number(text: str, *, decimal_comma: bool = False) -> Decimal | None:
    """A printed number, None for what stands for a missing one."""
    bare = text.strip().removeprefix(_DOUBTFUL).partition(_INSTANCES)[0].strip()
    if bare.lower() in MISSING:
        return None
    bare = bare.translate(_GROUPING)
    bare = bare.replace(".", "").replace(",", ".") if decimal_comma else bare.replace(",", "")
    if not _NUMBER.fullmatch(bare) or len(bare) > _MAX_CHARS:
        raise BadValueError(f"{text[:40]!r} is not a number")
    number = Decimal(bare)
    if abs(number) >= MAX_VALUE:
        raise BadValueError(f"{text[:40]} is too large")
    return number


@lru_cache(maxsize=512)
def base_unit(unit: str) -> tuple[str, int]:
    """A unit without prefixes, and the power of ten that brings a value to it.

    >>> base_unit("Mbyte"), base_unit("ms"), base_unit("usecond"), base_unit("sector/ns"), base_unit("Kbyte/block")
    (('byte', 6), ('ns', 6), ('ns', 3), ('sector/s', 9), ('byte/block', 3))
    """
    above, _, below = unit.strip().partition("/")
    name, exponent = _unprefixed(above)
    if below:
        per, below_exponent = _unprefixed(below)
        name, exponent = f"{name}/{per}", exponent - below_exponent
    same, more = _SAME.get(name, (name, 0))
    return same, exponent + more


def _unprefixed(word: str) -> tuple[str, int]:
    match = _PREFIXED.fullmatch(word)
    return (_BASES[match[2]], _EXPONENTS[match[1]]) if match else (word, 0)


def has_decimal_comma(texts: Iterable[str]) -> bool:
    """Whether the numbers of a file are written with a decimal comma.

    Only texts that can be read in one way count: 1,234 can be both.

    >>> has_decimal_comma(["1,234", "0,192078"]), has_decimal_comma(["1,234", "42.688000"])
    (True, False)
    """
    point = comma = 0
    for text in islice(texts, _CELLS_LOOKED_AT):
        bare = text.strip().lstrip("-").translate(_GROUPING)
        point += _POINT.fullmatch(bare) is not None
        comma += _COMMA.fullmatch(bare) is not None
    return comma > point

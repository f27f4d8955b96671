"""The options of every kind of verb, and the types of their values."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

TERMINAL_ROWS = 30
"""Rows of a table on a terminal where `--top` is not given; elsewhere all are printed."""
SEVERAL = "may be given several times"


def add_json(parser: argparse._ActionsContainer, of: str = "") -> None:
    """`of` says which rows, where a verb has several kinds."""
    parser.add_argument("--json", action="store_true", help="print one JSON array of row objects" + about(of))


def add_top(parser: argparse._ActionsContainer, of: str = "") -> None:
    parser.add_argument("--top", type=positive, default=None, metavar="N",
                        help=f"first N rows{about(of)} (default: {TERMINAL_ROWS} on a terminal, else all)")  # fmt: skip


def add_output(parser: argparse.ArgumentParser, what: str, *, metavar: str = "PATH", default: str = "",
               required: bool = False) -> None:  # fmt: skip
    """`-o` of verbs that write one thing, and `--force`."""
    shown = f" (default {default})" if default else ""
    parser.add_argument("-o", "--output", default=default, metavar=metavar, required=required,
                        help=f"write {what}{shown}")  # fmt: skip
    add_force(parser)


def add_force(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--force", action="store_true", help="overwrite what exists already")


def positive(text: str) -> int:
    """A count of rows or levels."""
    number = _whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def not_negative(text: str) -> int:
    number = _whole(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return number


def percentage(text: str) -> float:
    return between(0, 100, "a percentage")(text)


def above_zero(text: str) -> float:
    if not _is_number(text) or float(text) <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not a number above zero")
    return float(text)


def not_negative_number(text: str) -> float:
    if not _is_number(text) or float(text) < 0:
        raise argparse.ArgumentTypeError(f"{text} is not a number of at least zero")
    return float(text)


def between(least: float, most: float, noun: str = "a number") -> Callable[[str], float]:
    """The type of an option that takes a number of this range."""

    def parse(text: str) -> float:
        number = float(text) if _is_number(text) else math.nan
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"{text} is not {noun} from {least:g} to {most:g}")
        return number

    return parse


def whole_between(least: int, most: int, noun: str = "a number") -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = _whole(text)
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"{text} is not {noun} from {least:,} to {most:,}")
        return number

    return parse


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def about(of: str) -> str:
    return f" of {of}" if of else ""

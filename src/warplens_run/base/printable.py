"""Text of a file is untrusted: what happens to it before a terminal shows it, or a frame or file holds it."""

from __future__ import annotations

import re

# CSI sequences, then strings ended by BEL or ST (window titles, links), then every other escape pair.
_ANSI = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]?")
LINE_FORMAT = "\n\t"


def clean(text: str) -> str:
    r"""One printable line: escape sequences, control and direction-changing characters go, tabs are spaces.

    >>> clean("a\x1b[31mred\x1b[0m\tb\r\n\u202ec\x00")
    'ared b  c'
    """
    if text.isprintable():
        return text
    bare = _ANSI.sub("", text)
    return "".join(char if char.isprintable() else " " if char.isspace() else "" for char in bare)


def encodable(text: str) -> str:
    r"""Text that UTF-8 can hold, with a mark for halves of characters.

    JSON can name these, and a file name with undecodable bytes reaches Python as such; no file or frame takes them.

    >>> encodable("run\udcff.json")
    'run?.json'
    """
    return text.encode("utf-8", "replace").decode()


def clean_lines(text: str) -> str:
    r"""Several printable lines, each as `clean` makes it.

    >>> clean_lines("a\x1b[31m\nb\x9dc")
    'a\nbc'
    """
    return "\n".join(map(clean, text.split("\n")))


def escape(text: str) -> str:
    r"""Data with all that is not printable written as JSON does, so that nothing is lost: for CSV, JSON and code.

    >>> print(escape('"a\x1b[31m\u202e\U000e0001"'))
    "a\u001b[31m\u202e\udb40\udc01"
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in LINE_FORMAT else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))

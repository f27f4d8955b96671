"""Text of a trace in a terminal, a page or a file system: cut, measured, made distinct."""

from __future__ import annotations

import re
from collections.abc import Iterable
from unicodedata import combining, east_asian_width


def elide(text: str, width: int, *, middle: bool = False) -> str:
    """At most `width` characters, with … for what was cut.

    Names are cut in the middle: template arguments and overload suffixes at the end distinguish kernels.

    >>> elide("elementwise_kernel", 9), elide("elementwise_kernel", 9, middle=True), elide("gemm", 9)
    ('elementw…', 'eleme…nel', 'gemm')
    """
    if len(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    tail = (width - 1) * 2 // 5 if middle else 0
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def cell_width(text: str) -> int:
    r"""How many terminal cells a clean text takes: wide characters take two, combining marks none.

    >>> cell_width("gemm"), cell_width("核"), cell_width("e\u0301")
    (4, 2, 1)
    """
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def unique_names(names: Iterable[str], *, forbidden: str, limit: int) -> list[str]:
    """Each name with the characters matching `forbidden` replaced, cut to `limit`, and distinct in any case.

    >>> unique_names(["a/b", "A_b", "kernels"], forbidden="[/]", limit=5)
    ['a_b', 'A_b~2', 'kerne']
    """
    taken: set[str] = set()
    result = []
    for name in names:
        plain = re.sub(forbidden, "_", name) or "_"
        candidate, number = plain[:limit], 1
        while candidate.casefold() in taken:
            number += 1
            ending = f"~{number}"
            candidate = plain[: limit - len(ending)] + ending
        taken.add(candidate.casefold())
        result.append(candidate)
    return result

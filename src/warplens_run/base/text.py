"""Text of a trace in a terminal, a page or a file system: cut, measured, made distinct."""

from __future__ import annotations

import re
from collections.abc import Iterable
from unicodedata import combining, east_asian_width

PARTING = "/_.,:;<>()[]=-"
"""Characters after which a name may go on in the next line."""
_WORD = re.compile(r"(\s*)(\S+)")


def elide(text: str, width: int, *, middle: bool = False) -> str:
    """At most `width` characters, with … for what was cut.

    Names are cut in the middle: template arguments and overload suffixes at the end distinguish kernels.

    >>> elide("elementwise_kernel", 9), elide("elementwise_kernel", 9, middle=True), elide("gemm", 9)
    ('elementw…', 'eleme…nel', 'gemm')
    >>> elide("fused elementwise kernel", 19)
    'fused elementwise…'
    """
    if len(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    tail = (width - 1) * 2 // 5 if middle else 0
    if not middle and (space := text.rfind(" ", width * 2 // 3, width)) > 0:
        return f"{text[:space].rstrip(' …')}…"  # no word is cut where another ends nearby
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def elide_folders(text: str, width: int) -> str:
    """A place in a file, at most `width` characters: the folders go first, then the end of what is in the file.

    >>> elide_folders("/home/me/project/model.py:12 forward", 25), elide_folders("src/model.py:434 dot_product", 18)
    ('…/model.py:12 forward', 'model.py:434…')
    """
    if len(text) <= width:
        return text
    starts = [at for at, char in enumerate(text) if char == "/" and len(text) - at < width]
    return f"…{text[starts[0] :]}" if starts else elide(text.rpartition("/")[2], width)


def fold(text: str, width: int, indent: str = "") -> list[str]:
    """A text in lines of at most `width` cells, all but the first behind the indent; words stay whole.

    A word that is longer than a line goes on below, after one of the characters that part names.

    >>> fold("pad 50257 to 50304", 10, "  "), fold("torch/nn/functional.py", 12)
    (['pad 50257', '  to 50304'], ['torch/nn/', 'functional.', 'py'])
    """
    lines: list[str] = []
    for space, word in _WORD.findall(text):
        first, *rest = _pieces(word, max(width - (cell_width(indent) if lines else 0), 8))
        if lines and cell_width(joined := lines[-1] + space + first) <= width:
            lines[-1] = joined
        else:
            lines.append(indent + first if lines else space + first)
        lines += [indent + piece for piece in rest]
    return lines


def _pieces(word: str, width: int) -> list[str]:
    pieces = []
    while cell_width(word) > width:
        most = width if word.isascii() else _fitting(word, width)
        parted = max(word.rfind(mark, 0, most) for mark in PARTING)
        at = parted + 1 if parted + 1 > most // 2 else most
        pieces.append(word[:at])
        word = word[at:]
    return [*pieces, word] if word else pieces


def _fitting(word: str, width: int) -> int:
    """How many characters take at most so many cells; one at least."""
    cells = 0
    for count, char in enumerate(word):
        cells += cell_width(char)
        if cells > width:
            return max(count, 1)
    return len(word)


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

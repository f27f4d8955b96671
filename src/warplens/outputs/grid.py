"""A grid of numbers as terminal text: numbered rows and columns, a colour per number, cut to a width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from warplens_run.base.printable import clean

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.segment import Segment

Ints = npt.NDArray[np.int64]
Segments = tuple[tuple[str, str], ...]
SHADES: Final = (153, 222, 157, 217, 183, 159, 229, 252, 117, 215, 120, 210, 177, 123, 186, 246)
"""Pale colours of a terminal with 256 of them, neighbours far apart."""
NOTHING: Final = "."


@dataclass(frozen=True)
class GridText:
    """Finished lines, each of parts with the name of their style; `str()` gives them plain."""

    lines: tuple[Segments, ...]

    def __str__(self) -> str:
        return "\n".join("".join(text for text, _ in line).rstrip() for line in self.lines)

    def cleaned(self) -> GridText:
        """Fit for a terminal, whatever the text of a file holds."""
        return replace(self, lines=tuple(tuple((clean(text), style) for text, style in line) for line in self.lines))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        from rich.segment import Segment

        for line in self.lines:
            yield from (Segment(text, console.get_style(style)) for text, style in line)
            yield Segment.line()


def plain_line(text: str, style: str = "none") -> Segments:
    return ((text, style),)


def render_grid(values: Ints, *, width: int, most_rows: int, fold_rows: bool = True) -> list[Segments]:
    """Equal neighbours are one cell; -1 is an empty one. What does not fit is counted below."""
    down, across = _equal(values) if fold_rows else 1, _equal(values.T)
    cells = values[::down, ::across]
    digits = max(len(str(int(cells.max(initial=0)))), len(str(values.shape[1] - across)))
    label = len(str(values.shape[0] - down)) + 1
    columns = min(cells.shape[1], max((width - label) // (digits + 1), 1))
    rows = min(cells.shape[0], most_rows)
    head = " " * label + "".join(f" {column * across:>{digits}}" for column in range(columns))
    lines = [plain_line(head, "dim")]
    for row in range(rows):
        shown = [_cell(int(value), digits) for value in cells[row, :columns]]
        lines.append(((f"{row * down:>{label}}", "dim"), *(part for cell in shown for part in cell)))
    if note := _left_out(cells.shape, (rows, columns), (down, across)):
        lines.append(plain_line(note, "dim"))
    return lines


def _cell(value: int, digits: int) -> Segments:
    if value < 0:
        return ((f" {NOTHING:>{digits}}", "dim"),)
    return ((" ", "none"), (f"{value:>{digits}}", f"black on color({SHADES[value % len(SHADES)]})"))


def _equal(values: Ints) -> int:
    """How many neighbouring rows are always equal: the largest power of two."""
    count = 1
    while values.shape[0] % (2 * count) == 0 and (values[:: 2 * count] == values[count :: 2 * count]).all():
        count *= 2
    return count


def _left_out(cells: Sequence[int], shown: Sequence[int], together: Sequence[int]) -> str:
    parts = []
    if together[0] * together[1] > 1:
        parts.append(f"a cell is {together[0]} × {together[1]} elements")
    for name, there, here, each in zip(("row", "column"), cells, shown, together, strict=True):
        if there > here:
            missing = (there - here) * each
            parts.append(f"{missing} more {name}{'s' * (missing > 1)}")
    return f"  ({', '.join(parts)})" if parts else ""

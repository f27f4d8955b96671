"""What `kernel layout` says on a screen: a grid per tile, and a sentence per access."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING

from warplens.outputs.grid import GridText, Segments, plain_line, render_grid
from warplens_lab.layouts.grid import grid_values
from warplens_run.base.units import format_bytes, format_count, plural

if TYPE_CHECKING:
    from warplens_lab.layouts.exploring import AccessResult, Exploration, Panel

ALONE_ROWS = 32
BESIDE_ROWS = 8
"""Rows of each grid where several tiles are compared."""
MEANINGS = {
    "bank": "bank of each element",
    "offset": "place of each element in memory, in elements",
    "thread": "thread of each element",
    "lane": "lane of each element",
    "warp": "warp of each element",
    "register": "register of each element",
}


def layout_text(exploration: Exploration, show: str | None, width: int) -> GridText:
    lines: list[Segments] = []
    most_rows = ALONE_ROWS if len(exploration.panels) == 1 else BESIDE_ROWS
    for panel in exploration.panels:
        lines += _panel(panel, exploration.banks, show, width, most_rows)
        lines.append(plain_line(""))
    for sentence in sentences(exploration):
        lines += [plain_line(line) for line in wrap(sentence, min(width, 120), subsequent_indent="  ")]
    return GridText(tuple(lines))


def _panel(panel: Panel, banks: int, show: str | None, width: int, most_rows: int) -> Iterator[Segments]:
    tile = panel.tile
    size = " × ".join(map(str, tile.shape))
    where = f"{format_bytes(tile.bytes)} of shared memory" if tile.is_memory else _threads(panel)
    name = f"{panel.variant}: " if panel.variant != "given" else ""
    head = f"{name}{tile.text}: {size} of {tile.element}, {where}"
    yield from (plain_line(line, "bold") for line in wrap(head, width, subsequent_indent="  "))
    if panel.how:
        yield from (plain_line(line, "dim") for line in wrap(panel.how, width - 2, initial_indent="  "))
    bases = f"bases: {tile.linear_form().text}"
    yield from (
        plain_line(line, "dim") for line in wrap(bases, width - 2, initial_indent="  ", subsequent_indent="    ")
    )
    shown, values = grid_values(panel, show, banks)
    by = (
        f" in the access {panel.accesses[0].access.name}"
        if tile.is_memory and shown in ("thread", "lane", "warp")
        else ""
    )
    yield plain_line(f"  {MEANINGS[shown]}{by}", "dim")
    # Rows in the same banks are what conflicts come from: they are shown.
    yield from render_grid(values, width=width, most_rows=most_rows, fold_rows=not tile.is_memory)


def _threads(panel: Panel) -> str:
    holders = panel.tile.holders
    assert holders is not None
    registers, lanes, warps = holders.shape[:3]
    copies = registers * lanes * warps // panel.tile.elements
    held = f", each element in {copies} of them" if copies > 1 else ""
    return f"{plural(registers, 'register')} in each of {lanes * warps} threads ({plural(warps, 'warp')}){held}"


def sentences(exploration: Exploration) -> Iterator[str]:
    """Each access of the first tile, with what the others make of it."""
    if len(exploration.panels) == 0:
        return
    first, *others = exploration.panels
    for at, result in enumerate(first.accesses):
        yield f"{result.access.name}: {_cost(result)}{_compared(result, others, at)}"


def _cost(result: AccessResult) -> str:
    found = result.found
    if found is None:
        return "not possible, a row of 16 bytes is not in one piece"
    if not found.conflicts:
        narrow = f" of {found.lane_bytes * 8} bits a lane" if found.passes > result.best_passes else ""
        return f"no bank conflicts, {_passes(found.passes)}{narrow}"
    best = f"where {format_count(result.best_passes)} would do"
    return f"{found.conflicts + 1}-way bank conflicts, {_passes(found.passes)} {best}"


def _compared(result: AccessResult, others: list[Panel], at: int) -> str:
    """Variants that take fewer passes; after an access without conflicts those that have some."""
    own = result.found.passes if result.found else None
    parts = []
    for panel in others:
        other = panel.accesses[at].found if at < len(panel.accesses) else None
        if other is not None and (own is None or other.passes != own):
            parts.append(f"{panel.tile.text} takes {format_count(other.passes)}")
    return f"; {', '.join(parts)}" if parts else ""


def _passes(count: int) -> str:
    return f"{format_count(count)} pass{'es' * (count != 1)}"

"""The number that each element of a tile shows in a grid: its bank, its place, or the thread that has it."""

from __future__ import annotations

import numpy as np

from warplens_lab.layouts.bases import Ints
from warplens_lab.layouts.exploring import Panel
from warplens_lab.layouts.scene import grid_shape
from warplens_lab.layouts.tables import element_columns, rows_and_columns
from warplens_run.base.errors import UsageError

OF_MEMORY = ("bank", "offset")
NOBODY = -1


def grid_values(panel: Panel, show: str | None, banks: int) -> tuple[str, Ints]:
    """What is shown, and rows × columns of it; -1 where nothing is."""
    tile = panel.tile
    rows, columns = grid_shape(tile)
    show = show or ("bank" if tile.is_memory else "thread")
    values = np.full(rows * columns, NOBODY, np.int64)
    numbers = element_columns(tile, banks)
    if tile.is_memory and show not in OF_MEMORY:
        place, number = _touched(panel, show)
    elif show in numbers:
        place, number = numbers["row"] * tile.shape[-1] + numbers["column"], numbers[show]
    else:
        raise UsageError(f"{tile.text} is a layout over threads: it has no {show}", hint="thread, lane, warp, register")
    # The first of several threads that hold an element is shown.
    values[place[::-1]] = number[::-1]
    return show, values.reshape(rows, columns)


def _touched(panel: Panel, show: str) -> tuple[Ints, Ints]:
    """The elements that the first access touches, and by whom."""
    found = panel.accesses[0].found if panel.accesses else None
    if found is None or show == "register":
        raise UsageError(f"{panel.tile.text} is a layout in memory: it has no {show}", hint="bank, offset, lane")
    instruction, lane = np.nonzero(found.starts >= 0)
    row, column = rows_and_columns(found.elements[instruction, lane], panel.tile.shape)
    warp = found.warps[instruction]
    number = {"lane": lane, "warp": warp, "thread": warp * found.starts.shape[1] + lane}[show]
    inside = column < panel.tile.shape[-1]
    repeated = np.broadcast_to(number[:, None], row.shape)
    return (row * panel.tile.shape[-1] + column)[inside], repeated[inside]

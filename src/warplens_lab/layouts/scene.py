"""An exploration as its page shows it."""

from __future__ import annotations

import numpy as np

from warplens_lab.layouts.accesses import WORDS
from warplens_lab.layouts.exploring import AccessResult, Exploration, Panel
from warplens_lab.layouts.reading import Tile
from warplens_lab.layouts.tables import bank_columns, rows_and_columns
from warplens_lab.scenes.layout_scene import Ints, LayoutAccess, LayoutPanel, LayoutScene

_SHOWN = ("instruction", "wavefront", "warp", "lane", "byte")
FOLDED = 32
"""Elements of a row that a tile of one dimension is folded into."""


def layout_scene(exploration: Exploration) -> LayoutScene:
    panels = tuple(_panel(panel, exploration.banks) for panel in exploration.panels)
    return LayoutScene(exploration.title, exploration.banks, panels, exploration.notes)


def grid_shape(tile: Tile) -> tuple[int, int]:
    """Rows and columns of a picture of the tile."""
    columns = tile.shape[-1]
    if len(tile.shape) == 1:
        columns = min(columns, FOLDED)
    return -(-tile.elements // columns), columns


def _panel(panel: Panel, banks: int) -> LayoutPanel:
    tile = panel.tile
    rows, columns = grid_shape(tile)
    holders = tile.holders
    offsets = tile.offsets(tile.coordinates()) if tile.offsets is not None else None
    form = tile.linear_form()
    return LayoutPanel(
        variant=panel.variant,
        text=tile.text,
        how=panel.how,
        shape=tile.shape,
        rows=rows,
        columns=columns,
        element=tile.element,
        element_bits=tile.element_bits,
        size_bytes=tile.bytes,
        threads=holders.shape[1] * holders.shape[2] if holders is not None else 0,
        warp_lanes=holders.shape[1] if holders is not None else 0,
        bases=form.bases,
        why_not_linear=form.why_not,
        offsets=offsets,
        held=_cells(holders.transpose(2, 1, 0, 3).reshape(-1, len(tile.shape)), tile) if holders is not None else None,
        accesses=tuple(_access(result, tile, banks) for result in panel.accesses),
    )


def _access(result: AccessResult, tile: Tile, banks: int) -> LayoutAccess:
    found = result.found
    none = np.zeros(0, np.int64)
    lanes, cells = dict.fromkeys(_SHOWN, none), none
    if found is not None:
        columns = bank_columns(found, tile, banks)
        lanes = {name: columns[name] for name in _SHOWN}
        cells = _cells(found.elements[found.starts >= 0], tile)
    return LayoutAccess(
        name=result.access.name,
        meaning=WORDS.get(result.access.name, ""),
        is_possible=found is not None,
        ways=found.conflicts + 1 if found else 0,
        conflicts=found.conflicts if found else 0,
        passes=found.passes if found else 0,
        best_passes=result.best_passes,
        vector=found.elements.shape[2] if found else 0,
        vector_bits=found.lane_bytes * 8 if found else 0,
        instructions=len(found.starts) if found else 0,
        lanes=lanes,
        cells=cells,
    )


def _cells(coordinates: Ints, tile: Tile) -> Ints:
    """The number of each element along the rows; -1 for one in the padding of an array."""
    row, column = rows_and_columns(coordinates, tile.shape)
    return np.where(column < tile.shape[-1], row * tile.shape[-1] + column, -1)

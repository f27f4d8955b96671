"""`layout_conflicts`, `layout_banks` and `layout_elements`: what an exploration says, as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from warplens.model.table import Column, Table
from warplens.model.table_entry import TableEntry
from warplens_lab.layouts.banks import WORD_BYTES, Wavefronts
from warplens_lab.layouts.bases import Ints
from warplens_lab.layouts.exploring import Exploration, Panel
from warplens_lab.layouts.reading import Tile

_TILE: Final = (
    Column("variant", "given, or what it is compared with: plain, padded, swizzled", "", pl.String),
    Column("layout", "the layout", "", pl.String),
)
_ELEMENT: Final = (
    Column("row", "index of the element in all dimensions but the last", "", pl.Int64),
    Column("column", "its index in the last dimension", "", pl.Int64),
)
CONFLICTS: Final = (
    *_TILE,
    Column(
        "access",
        "row, column, matrix (ldmatrix), an index or a register layout; null for a layout over threads",
        "",
        pl.String,
    ),
    Column("ways", "most different words of one bank that lanes need at once; 1: no conflict", "", pl.Int64),
    Column(
        "conflicts", "most extra passes of a wavefront; null where the layout does not allow the access", "", pl.Int64
    ),
    Column("passes", "passes over the banks that the whole access takes", "", pl.Int64),
    Column("best_passes", "passes if each moved all the bytes that the banks can", "", pl.Int64),
    Column("vector_bits", "bits that a lane moves at once", "bits", pl.Int64),
    Column("instructions", "instructions of a warp", "", pl.Int64),
    Column("size_bytes", "what the tile takes of shared memory, gaps included", "bytes", pl.Int64),
    Column("how", "what the variant changes", "", pl.String),
    Column(
        "bases",
        "the layout as a linear one: what each bit of an offset, or of a register, lane, warp and block, adds to the "
        "element's coordinates; else why it is not linear",
        "",
        pl.String,
    ),
)
BANKS: Final = (
    *_TILE,
    Column("access", "row, column, matrix (ldmatrix), an index or a register layout", "", pl.String),
    Column("instruction", "number of the instruction", "", pl.Int64),
    Column("warp", "warp that executes it", "", pl.Int64),
    Column("wavefront", "group of lanes that the banks serve together, by number", "", pl.Int64),
    Column("lane", "lane of the warp", "", pl.Int64),
    *_ELEMENT,
    Column("byte", "where it begins in the tile's memory", "bytes", pl.Int64),
    Column("bank", "bank of the first word", "", pl.Int64),
    Column("words_in_bank", "different words of this bank that the wavefront needs", "", pl.Int64),
)
ELEMENTS: Final = (
    *_TILE,
    *_ELEMENT,
    Column("offset", "place in memory, in elements; null for a layout over threads", "", pl.Int64),
    Column("byte", "the same in bytes", "bytes", pl.Int64),
    Column("bank", "bank of shared memory", "", pl.Int64),
    Column("thread", "thread that holds it; null for a layout in memory", "", pl.Int64),
    Column("warp", "warp of the thread", "", pl.Int64),
    Column("lane", "lane of the warp", "", pl.Int64),
    Column("register", "register of the thread, by number", "", pl.Int64),
)
Frame = Callable[[Exploration, Panel], Iterator[dict[str, Any]]]


def rows_and_columns(coordinates: Ints, shape: Sequence[int]) -> tuple[Ints, Ints]:
    """Coordinates (… × dimensions) on two axes: all dimensions but the last are the rows."""
    row = np.zeros(coordinates.shape[:-1], np.int64)
    for dim, extent in enumerate(shape[:-1]):
        row = row * extent + coordinates[..., dim]
    return row, coordinates[..., -1]


def _table(name: str, meaning: str, columns: tuple[Column, ...], parts: Frame) -> TableEntry[Exploration]:
    schema = {column.name: column.dtype for column in columns}

    def make(exploration: Exploration) -> Table:
        frames = [pl.DataFrame(schema=schema)]
        for panel in exploration.panels:
            for values in parts(exploration, panel):
                known = {column: values.get(column) for column in schema}
                frames.append(pl.DataFrame(_columns(known), schema=schema))
        return Table.from_frame(name, meaning, columns, pl.concat(frames), *exploration.notes)

    return TableEntry(name, make)


def _columns(values: dict[str, Any]) -> dict[str, Any]:
    """Single values repeated to the length of the arrays beside them."""
    rows = max((len(value) for value in values.values() if isinstance(value, np.ndarray)), default=1)
    return {name: value if isinstance(value, np.ndarray) else [value] * rows for name, value in values.items()}


def _conflicts(exploration: Exploration, panel: Panel) -> Iterator[dict[str, Any]]:
    whole = {**_tile(panel), "how": panel.how, "bases": panel.tile.linear_form().text}
    if not panel.tile.is_memory:
        yield whole
    for result in panel.accesses:
        found = result.found
        known = {"access": result.access.name, "best_passes": result.best_passes, "size_bytes": panel.tile.bytes}
        if found is not None:
            known |= {
                "ways": found.conflicts + 1,
                "conflicts": found.conflicts,
                "passes": found.passes,
                "vector_bits": found.lane_bytes * 8,
                "instructions": len(found.starts),
            }
        yield {**whole, **known}


def _banks(exploration: Exploration, panel: Panel) -> Iterator[dict[str, Any]]:
    for result in panel.accesses:
        if result.found is not None:
            yield {
                **_tile(panel),
                "access": result.access.name,
                **bank_columns(result.found, panel.tile, exploration.banks),
            }


def bank_columns(found: Wavefronts, tile: Tile, banks: int) -> dict[str, Ints]:
    """One entry for every lane of every instruction that does something."""
    instruction, lane = np.nonzero(found.starts >= 0)
    starts = found.starts[instruction, lane]
    row, column = rows_and_columns(found.elements[instruction, lane, 0], tile.shape)
    group = lane // found.lanes_together
    bank = starts // WORD_BYTES % banks
    return {
        "instruction": instruction,
        "warp": found.warps[instruction],
        "wavefront": instruction * found.words.shape[1] + group,
        "lane": lane,
        "row": row,
        "column": column,
        "byte": starts,
        "bank": bank,
        "words_in_bank": found.words[instruction, group, bank],
    }


def _elements(exploration: Exploration, panel: Panel) -> Iterator[dict[str, Any]]:
    yield {**_tile(panel), **element_columns(panel.tile, exploration.banks)}


def element_columns(tile: Tile, banks: int) -> dict[str, Ints]:
    """One entry for every element in memory, or for every register of every thread."""
    if tile.offsets is not None:
        coordinates = tile.coordinates()
        row, column = rows_and_columns(coordinates, tile.shape)
        offset = tile.offsets(coordinates)
        byte = offset * tile.element_bits // 8
        return {"row": row, "column": column, "offset": offset, "byte": byte, "bank": byte // WORD_BYTES % banks}
    if tile.holders is None:
        return {}
    registers, lanes, warps = tile.holders.shape[:3]
    warp, lane, register = (
        axis.ravel() for axis in np.meshgrid(np.arange(warps), np.arange(lanes), np.arange(registers), indexing="ij")
    )
    row, column = rows_and_columns(tile.holders[register, lane, warp], tile.shape)
    thread = warp * lanes + lane
    return {"row": row, "column": column, "thread": thread, "warp": warp, "lane": lane, "register": register}


def _tile(panel: Panel) -> dict[str, Any]:
    return {"variant": panel.variant, "layout": panel.tile.text}


LAYOUT_TABLES: Final = {
    entry.name: entry
    for entry in (
        _table(
            "layout_conflicts", "one row per layout and access; one for a layout over threads", CONFLICTS, _conflicts
        ),
        _table("layout_banks", "one row per lane of every instruction of an access", BANKS, _banks),
        _table("layout_elements", "one row per element in memory, or per register of a thread", ELEMENTS, _elements),
    )
}

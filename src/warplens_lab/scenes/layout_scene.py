"""What a page shows of tiles in shared memory and over threads, side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class LayoutAccessFacts:
    """What one access of a tile costs; without figures where the layout does not allow it."""

    name: str
    meaning: str
    is_possible: bool
    ways: int
    conflicts: int
    passes: int
    best_passes: int
    vector: int
    """Elements that a lane moves at once."""
    vector_bits: int
    instructions: int


@dataclass(frozen=True, kw_only=True)
class LayoutAccess(LayoutAccessFacts):
    """With an entry for every lane of every instruction: instruction, wavefront, warp, lane, byte."""

    lanes: dict[str, Ints]
    cells: Ints
    """Elements of each of these lanes, counted along the rows: entries × vector."""


@dataclass(frozen=True, kw_only=True)
class LayoutPanelFacts:
    """One tile."""

    variant: str
    text: str
    how: str
    shape: tuple[int, ...]
    rows: int
    columns: int
    element: str
    element_bits: int
    size_bytes: int
    threads: int
    """Of a layout over threads; 0 for one in memory."""
    warp_lanes: int
    bases: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...]
    """The tile as a linear layout: by input, what each bit of it adds."""
    why_not_linear: str
    """Where there are no bases."""


@dataclass(frozen=True, kw_only=True)
class LayoutPanel(LayoutPanelFacts):
    """With the place of each element in memory, or the elements of each thread, register by register."""

    offsets: Ints | None
    held: Ints | None
    accesses: tuple[LayoutAccess, ...]


@dataclass(frozen=True)
class LayoutScene:
    """Tiles to show side by side."""

    title: str
    banks: int
    panels: tuple[LayoutPanel, ...]
    notes: tuple[str, ...] = ()

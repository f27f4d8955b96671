"""A tile beside its plain, padded and swizzled forms, each with what accesses to it cost."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from warplens_lab.layouts.accesses import AccessOptions, access_named, usual_accesses
from warplens_lab.layouts.banks import BANKS, WIDEST_BITS, WORD_BYTES, WarpAccess, Wavefronts, wavefronts
from warplens_lab.layouts.bases import is_power_of_two, log2
from warplens_lab.layouts.indexing import is_index
from warplens_lab.layouts.memory import UNSWIZZLED, Offsets, Swizzle, strided, strides_of
from warplens_lab.layouts.reading import Tile
from warplens_lab.layouts.searching import Cost, best_padding, best_swizzle
from warplens_run.base.errors import UsageError

GIVEN: Final = "given"
IMPOSSIBLE: Final = 1 << 20
"""Cost of an access that a layout does not allow."""


@dataclass(frozen=True)
class AccessResult:
    """An access to one tile; `found` is None where the tile's layout does not allow it."""

    access: WarpAccess
    found: Wavefronts | None
    widest_pieces: int
    """Instructions for all that a lane takes, of 128 bits each."""
    best_passes: int
    """Passes if every one moved as many bytes as the banks can."""

    @property
    def cost(self) -> int:
        """Passes and instructions beyond those of an access without conflicts, in the widest pieces."""
        if self.found is None:
            return IMPOSSIBLE
        instructions = len(self.access.elements) * self.widest_pieces
        return max(self.found.passes - self.best_passes, 0) + max(len(self.found.starts) - instructions, 0)


@dataclass(frozen=True)
class Panel:
    """One tile and its accesses."""

    tile: Tile
    variant: str
    """given, plain, padded or swizzled."""
    how: str = ""
    """What the variant changes, in words."""
    accesses: tuple[AccessResult, ...] = ()


@dataclass(frozen=True)
class Exploration:
    """Tiles side by side."""

    title: str
    panels: tuple[Panel, ...]
    banks: int = BANKS
    notes: tuple[str, ...] = ()


def explore(
    tiles: Sequence[Tile],
    access_texts: Sequence[str] = (),
    options: AccessOptions | None = None,
    *,
    banks: int = BANKS,
    with_variants: bool = True,
) -> Exploration:
    """One tile with its variants, or several as they are given."""
    options = options or AccessOptions()
    if access_texts and not any(tile.is_memory for tile in tiles):
        raise UsageError("an access needs a layout in memory", hint=f"{tiles[0].text} is one over threads")
    panels = [_panel(tile, GIVEN, "", access_texts, options, banks) for tile in tiles]
    if with_variants and len(tiles) == 1 and tiles[0].is_memory:
        panels += _variants(panels[0], access_texts, options, banks)
    notes = dict.fromkeys(note for tile in tiles for note in tile.notes)
    return Exploration(" | ".join(tile.text for tile in tiles), tuple(panels), banks, tuple(notes))


def _panel(tile: Tile, variant: str, how: str, texts: Sequence[str], options: AccessOptions, banks: int) -> Panel:
    if tile.offsets is None:
        return Panel(tile, variant, how)
    results = [_result(access, tile.offsets, tile.element_bits, banks) for access in _accesses(tile, texts, options)]
    return Panel(tile, variant, how, tuple(results))


def _accesses(tile: Tile, texts: Sequence[str], options: AccessOptions) -> tuple[WarpAccess, ...]:
    if not texts:
        return usual_accesses(tile.shape, tile.element_bits, tile.order, options)
    # An index may reach the padding of an array.
    shapes = [tile.declared if tile.declared and is_index(text) else tile.shape for text in texts]
    named = zip(texts, shapes, strict=True)
    return tuple(access_named(text, shape, tile.element_bits, tile.order, options) for text, shape in named)


def _result(access: WarpAccess, offsets: Offsets, element_bits: int, banks: int) -> AccessResult:
    active = (access.elements[..., 0] >= 0).sum(axis=(1, 2))
    best = -(-active * element_bits // (8 * banks * WORD_BYTES))
    pieces = -(-access.elements.shape[2] * element_bits // WIDEST_BITS)
    found = wavefronts(access, offsets, element_bits, banks)
    return AccessResult(access, found, pieces, int(np.maximum(best, active > 0).sum()))


def _variants(given: Panel, texts: Sequence[str], options: AccessOptions, banks: int) -> list[Panel]:
    """Plain rows, the best padding and the best swizzle, where they differ from what is given."""
    tile = given.tile
    if len(tile.shape) < 2 or min(tile.shape[dim] for dim in tile.order[:2]) < 2:
        return []
    accesses = [result.access for result in given.accesses]

    def cost(offsets: Offsets) -> int:
        return sum(_result(access, offsets, tile.element_bits, banks).cost for access in accesses)

    if tile.offsets is None:
        return []
    places = tile.offsets(tile.coordinates())
    panels: list[Panel] = []
    for variant, how, other in _forms(tile, cost):
        if other.offsets is None or np.array_equal(other.offsets(tile.coordinates()), places):
            continue
        with suppress(UsageError):  # an index that reaches beyond the rows of a smaller array
            panels.append(_panel(other, variant, how, texts, options, banks))
    return panels


def _forms(tile: Tile, cost: Cost) -> list[tuple[str, str, Tile]]:
    search = (tile.shape, tile.order, tile.element_bits, cost)
    forms = [("plain", "rows without padding or swizzle", _rows(tile))]
    padding, _ = best_padding(*search)
    forms.append(("padded", f"{padding} more in every row", _rows(tile, padding)))
    if is_power_of_two(tile.shape[tile.order[0]]):
        swizzle, offsets = best_swizzle(*search)
        if swizzle != UNSWIZZLED:
            text = f"{_cute_swizzle(tile, swizzle)} o {_cute_rows(tile)}"
            how = f"Triton: {swizzle.text()}; C++: {_swizzled_index(swizzle)}"
            forms.append(("swizzled", how, replace(tile, text=text, offsets=offsets, notes=(), declared=())))
    return forms


def _rows(tile: Tile, padding: int = 0) -> Tile:
    strides = strides_of(tile.shape, tile.order, padding)
    declared = (*tile.shape[:-1], tile.shape[-1] + padding) if tile.declared else ()
    text = f"{tile.element}{''.join(f'[{extent}]' for extent in declared)}" if declared else _cute_rows(tile, padding)
    return replace(tile, text=text, offsets=strided(strides), notes=(), declared=declared)


def _cute_rows(tile: Tile, padding: int = 0) -> str:
    shape, strides = tile.shape, strides_of(tile.shape, tile.order, padding)
    return f"({','.join(map(str, shape))}):({','.join(map(str, strides))})"


def _cute_swizzle(tile: Tile, swizzle: Swizzle) -> str:
    """The same exclusive-or as CuTe writes it: phase bits of the row, added to the bits above a vector."""
    base = log2(swizzle.vector)
    return f"Swizzle<{log2(swizzle.max_phase)},{base},{log2(tile.shape[tile.order[0]] * swizzle.per_phase) - base}>"


def _swizzled_index(swizzle: Swizzle) -> str:
    row = f"r / {swizzle.per_phase}" if swizzle.per_phase > 1 else "r"
    phase = f"({row}) % {swizzle.max_phase}" if swizzle.per_phase > 1 else f"{row} % {swizzle.max_phase}"
    shifted = phase if swizzle.vector == 1 else f"{phase} * {swizzle.vector}"
    return f"[r][c ^ ({shifted})]"

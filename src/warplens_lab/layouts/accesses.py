"""The accesses of a tile that are always of interest, and those that a text asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Final

import numpy as np

from warplens_lab.layouts.attributes import parse_attribute
from warplens_lab.layouts.banks import MATRIX_ROWS, NOBODY, WarpAccess, by_matrices, by_registers
from warplens_lab.layouts.bases import Ints, Vector
from warplens_lab.layouts.indexing import WARP_LANES, index_access, is_index
from warplens_lab.layouts.linear import STARTS as LINEAR_STARTS
from warplens_lab.layouts.reading import read_tile
from warplens_run.base.errors import UsageError

WORDS: Final = {
    "row": "a warp goes along the rows, a lane per element",
    "column": "a warp goes down the columns, a lane per row",
    "matrix": "ldmatrix: eight lanes read eight rows of 16 bytes",
}


@dataclass(frozen=True)
class AccessOptions:
    """What an access needs besides its text."""

    block: Vector = (WARP_LANES,)
    values: Mapping[str, int] = field(default_factory=dict)
    vector: int = 1
    """Elements along a row that a lane takes."""
    known: Mapping[str, tuple[str, Vector]] = field(default_factory=dict)
    """By text: the name of an access, and the shape of the part of the tile that it covers."""


def usual_accesses(shape: Vector, element_bits: int, order: Vector, options: AccessOptions) -> tuple[WarpAccess, ...]:
    words = ["row"]
    if len(shape) == 2 and min(shape) > 1:
        words.append("column")
        if element_bits <= 16 and shape[order[1]] % MATRIX_ROWS == 0 and shape[order[0]] * element_bits >= 128:
            words.append("matrix")
    return tuple(access_named(word, shape, element_bits, order, options) for word in words)


def access_named(text: str, shape: Vector, element_bits: int, order: Vector, options: AccessOptions) -> WarpAccess:
    """`row`, `column`, `matrix`, an index such as `tile[lane][0]`, or a register layout."""
    if text in options.known:
        name, part = options.known[text]
        rest = replace(options, known={})
        return replace(access_named(text.partition("@")[0], part, element_bits, order, rest), name=name)
    plain = text.strip()
    if plain in ("row", "column"):
        return _whole_tile(plain, shape, options.vector)
    if plain == "matrix":
        if len(shape) != 2 or shape[order[1]] < MATRIX_ROWS or shape[order[0]] * element_bits < 128:
            raise UsageError(f"ldmatrix reads eight rows of 16 bytes: a tile of {_size(shape)} is too small")
        return by_matrices(shape, order, element_bits)
    if is_index(plain):
        return index_access(plain, shape, options.block, options.values, options.vector)
    if not plain.startswith("#") and not LINEAR_STARTS.match(plain) and not parse_attribute(plain).kind:
        hint = f"{', '.join(WORDS)}, an index such as tile[lane][0], or a register layout"
        raise UsageError(f"{text!r} is not a way to access a tile", hint=hint)
    tile = read_tile(plain, shape)
    kind = parse_attribute(tile.text).kind
    if tile.bases is None or tile.shape != shape:
        raise UsageError(f"{kind} is not a layout of {_size(shape)} elements over threads")
    if 1 << len(tile.bases.lane) != WARP_LANES:
        raise UsageError(f"{kind} has warps of {1 << len(tile.bases.lane)} lanes: banks are modelled for 32")
    return by_registers(tile.bases, kind)


def _whole_tile(word: str, shape: Vector, vector: int) -> WarpAccess:
    """Every element once, as many lanes as a warp has at a time."""
    if shape[-1] % vector:
        raise UsageError(f"rows of {shape[-1]} elements are not whole vectors of {vector}")
    groups = (*shape[:-1], shape[-1] // vector)
    index = np.arange(prod(groups), dtype=np.int64)
    dims = range(len(groups)) if word == "column" else reversed(range(len(groups)))
    coordinates = np.zeros((len(index), len(groups)), np.int64)
    for dim in dims:
        coordinates[:, dim] = index % groups[dim]
        index = index // groups[dim]
    coordinates[:, -1] *= vector
    elements = coordinates[:, None, :].repeat(vector, axis=1)
    elements[..., -1] += np.arange(vector)
    return WarpAccess(word, *_by_lanes(elements))


def _by_lanes(elements: Ints) -> tuple[Ints, Ints]:
    instructions = -(-len(elements) // WARP_LANES)
    whole = np.full((instructions * WARP_LANES, *elements.shape[1:]), NOBODY, np.int64)
    whole[: len(elements)] = elements
    return whole.reshape(instructions, WARP_LANES, *elements.shape[1:]), np.zeros(instructions, np.int64)


def _size(shape: Vector) -> str:
    return "×".join(map(str, shape))

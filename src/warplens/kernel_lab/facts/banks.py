"""Bank conflicts of shared memory: a model of the banks, for the layouts that Triton writes.

A wavefront moves up to 128 bytes, four to each bank. Lanes that need different words of the same bank wait for
each other: a conflict of N means N passes more than one. Lanes that need the same word share it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from warplens.kernel_lab.facts.layouts import Bases, Ints, parse_attribute

WORD_BYTES = 4
WIDEST_BITS = 128
MATRIX_ROWS, MATRIX_ROW_BYTES = 8, 16
"""`ldmatrix` reads eight rows of sixteen bytes at a time."""

Offsets = Callable[[Ints], Ints]
"""Coordinates (… × dimensions) → offsets in elements."""


@dataclass(frozen=True)
class Swizzle:
    """Rows whose groups of `vector` elements change places by an exclusive-or with the row's phase."""

    vector: int = 1
    per_phase: int = 1
    max_phase: int = 1

    def text(self) -> str:
        return f"vec = {self.vector}, perPhase = {self.per_phase}, maxPhase = {self.max_phase}"


UNSWIZZLED = Swizzle()


def shared_offsets(layout: str, shape: Sequence[int], element_bits: int) -> Offsets | None:
    """Offsets of elements in shared memory under a layout that is written out; None for one that is not modelled."""
    kind, values = parse_attribute(layout)
    try:
        if kind == "swizzled_shared":
            steps = (int(values[name]) for name in ("vec", "perPhase", "maxPhase"))
            return swizzled(Swizzle(*steps), shape, ast.literal_eval(values["order"]))
        if kind == "nvmma_shared":
            return _nvmma(values, shape, element_bits)
        if kind == "padded_shared":
            return _padded_attribute(layout, shape)
    except (KeyError, ValueError, SyntaxError, TypeError, IndexError):
        return None
    return None


def swizzled(swizzle: Swizzle, shape: Sequence[int], order: Sequence[int]) -> Offsets:
    """Plain rows along `order[0]`, swizzled by the row."""

    def offsets(coordinates: Ints) -> Ints:
        column, row, stride = _rows(coordinates, shape, order)
        phase = (row // swizzle.per_phase) % swizzle.max_phase
        group = (column // swizzle.vector) ^ phase
        return row * stride + group * swizzle.vector + column % swizzle.vector

    return offsets


def padded(interval: int, padding: int, shape: Sequence[int], order: Sequence[int]) -> Offsets:
    """Plain rows with `padding` elements left free after every `interval`."""

    def offsets(coordinates: Ints) -> Ints:
        column, row, stride = _rows(coordinates, shape, order)
        flat = row * stride + column
        return flat + flat // interval * padding

    return offsets


def _rows(coordinates: Ints, shape: Sequence[int], order: Sequence[int]) -> tuple[Ints, Ints, int]:
    fast = order[0]
    row = np.zeros(coordinates.shape[:-1], dtype=np.int64)
    stride = 1
    for dim in order[1:]:
        row = row + coordinates[..., dim] * stride
        stride *= shape[dim]
    return coordinates[..., fast], row, shape[fast]


def _nvmma(values: dict[str, str], shape: Sequence[int], element_bits: int) -> Offsets:
    """Hopper's operand layout: columns of tiles as wide as the swizzle, sixteen-byte groups moved by the row."""
    width = int(values["swizzlingByteWidth"])
    turned = values.get("transposed") == "true"
    order = (0, 1) if turned else (1, 0)
    if width == 0:
        return swizzled(UNSWIZZLED, shape, order)
    phases = width // MATRIX_ROW_BYTES
    per_phase = 8 // phases
    element_bytes = max(element_bits // 8, 1)

    def offsets(coordinates: Ints) -> Ints:
        column, row = coordinates[..., order[0]] * element_bytes, coordinates[..., order[1]]
        tile, inside = column // width, column % width
        group = (inside // MATRIX_ROW_BYTES) ^ ((row // per_phase) % phases)
        row_start = tile * shape[order[1]] * width + row * width
        return (row_start + group * MATRIX_ROW_BYTES + inside % MATRIX_ROW_BYTES) // element_bytes

    return offsets


_PAD = re.compile(r"\[((?:\d+:\+\d+(?:, )?)+)\]")
_ORDER = re.compile(r"order = (\[[\d, ]+\])")


def _padded_attribute(layout: str, shape: Sequence[int]) -> Offsets | None:
    pads, order = _PAD.search(layout), _ORDER.search(layout)
    if pads is None or order is None:
        return None
    pairs = [tuple(int(part) for part in pair.split(":+")) for pair in pads[1].split(", ")]
    if len(pairs) != 1:
        return None
    return padded(pairs[0][0], pairs[0][1], shape, ast.literal_eval(order[1]))


def vector_elements(offsets: Offsets, bases: Bases, element_bits: int) -> int:
    """How many elements of a thread are adjacent in shared memory for every lane, up to 128 bits."""
    registers = [_offset(offsets, vector) for vector in bases.register]
    others = [_offset(offsets, vector) for vector in (*bases.lane, *bases.warp)]
    count = 1
    while (
        count in registers
        and 2 * count * element_bits <= WIDEST_BITS
        and all(offset % (2 * count) == 0 for offset in [*others, *(p for p in registers if p > count)])
    ):
        count *= 2
    return count


def _offset(offsets: Offsets, vector: Sequence[int]) -> int:
    return int(offsets(np.array([vector], dtype=np.int64))[0])


def conflicts(offsets: Offsets, bases: Bases, element_bits: int, banks: int = 32) -> int:
    """The most extra passes that one wavefront of a load or store of shared memory takes."""
    element_bytes = max(element_bits // 8, 1)
    vector = vector_elements(offsets, bases, element_bits)
    # Registers that do not belong to the vector come one instruction after the other.
    rest = tuple(v for v in bases.register if not 0 < _offset(offsets, v) < vector)
    coordinates = Bases(rest, bases.lane, bases.warp[:0]).coordinates()[:, :, 0]
    starts = offsets(coordinates) * element_bytes
    lane_bytes = vector * element_bytes
    lanes = max(banks * WORD_BYTES // max(lane_bytes, WORD_BYTES), 1)
    worst = 1
    for instruction in starts:
        for begin in range(0, len(instruction), lanes):
            worst = max(worst, _passes(instruction[begin : begin + lanes], lane_bytes, banks))
    return worst - 1


def matrix_conflicts(offsets: Offsets, shape: Sequence[int], order: Sequence[int], element_bits: int) -> int:
    """The extra passes of `ldmatrix`: eight rows of sixteen bytes each, at every place where a tile may begin."""
    element_bytes = max(element_bits // 8, 1)
    across = MATRIX_ROW_BYTES // element_bytes
    fast, slow = order[0], order[1]
    worst = 1
    for row, column in _tiles(shape[slow], shape[fast], across):
        coordinates = np.zeros((MATRIX_ROWS, len(shape)), dtype=np.int64)
        coordinates[:, slow] = row + np.arange(MATRIX_ROWS)
        coordinates[:, fast] = column
        worst = max(worst, _passes(offsets(coordinates) * element_bytes, MATRIX_ROW_BYTES, 32))
    return worst - 1


def _tiles(rows: int, columns: int, across: int) -> Iterator[tuple[int, int]]:
    for row in range(0, min(rows, 64) - MATRIX_ROWS + 1, MATRIX_ROWS):
        for column in range(0, min(columns, 64), across):
            yield row, column


def _passes(starts: Ints, lane_bytes: int, banks: int) -> int:
    words = {int(start + at) // WORD_BYTES for start in starts for at in range(0, max(lane_bytes, 1), WORD_BYTES)}
    used_banks = [word % banks for word in words]
    return max((used_banks.count(bank) for bank in set(used_banks)), default=1)

"""Where a tile's elements lie in shared memory: the layouts that Triton writes, as functions of coordinates."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from warplens_lab.layouts.attributes import Attribute, parse_attribute
from warplens_lab.layouts.bases import Ints, Vector, is_power_of_two, spread
from warplens_run.base.errors import UsageError
from warplens_run.base.units import plural

MATRIX_ROW_BYTES = 16
KINDS = ("swizzled_shared", "padded_shared", "nvmma_shared", "shared_linear")
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
    try:
        return offsets_of(parse_attribute(layout), tuple(shape), element_bits)
    except UsageError:
        return None


def offsets_of(layout: Attribute, shape: Vector, element_bits: int) -> Offsets:
    """The same with an error that says what is wrong."""
    if layout.kind == "swizzled_shared":
        steps = [layout.number(name) for name in ("vec", "perPhase", "maxPhase")]
        if not all(map(is_power_of_two, steps)):
            raise UsageError(f"swizzled_shared: {Swizzle(*steps).text()}: not all are powers of two")
        return swizzled(Swizzle(*steps), shape, order_of(layout, len(shape)))
    if layout.kind == "nvmma_shared":
        return _nvmma(layout, shape, element_bits)
    if layout.kind == "padded_shared":
        return _padded(layout, shape)
    if layout.kind == "shared_linear":
        return inverted(layout.vectors("offset"), shape, layout.kind)
    raise UsageError(f"the layout {layout.kind!r} is not modelled", hint=f"known: {', '.join(KINDS)}")


def order_of(layout: Attribute, rank: int) -> Vector:
    """The dimensions of a tile in memory, the fastest first."""
    if "order" in layout.values:
        order = layout.numbers("order")
        if sorted(order) != list(range(rank)):
            raise UsageError(f"{layout.kind}: order = {list(order)} does not name each of {rank} dimensions once")
        return order
    rows_first = tuple(reversed(range(rank)))
    return tuple(reversed(rows_first)) if layout.is_true("transposed") else rows_first


def rank_of(layout: Attribute, shape_rank: int) -> int:
    """Dimensions of a layout in memory; those that a shape has before them are buffers."""
    if "order" in layout.values:
        return len(layout.numbers("order"))
    if "offset" in layout.values:
        return next((len(vector) for vector in layout.vectors("offset")), shape_rank)
    return layout.number("rank", 2) if layout.kind == "nvmma_shared" else shape_rank


def swizzled(swizzle: Swizzle, shape: Sequence[int], order: Sequence[int]) -> Offsets:
    """Plain rows along `order[0]`, swizzled by the row."""

    def offsets(coordinates: Ints) -> Ints:
        column, row, stride = _rows(coordinates, shape, order)
        # A row that is shorter than the phases reach has fewer of them.
        phase = (row // swizzle.per_phase) % swizzle.max_phase % max(stride // swizzle.vector, 1)
        group = (column // swizzle.vector) ^ phase
        return row * stride + group * swizzle.vector + column % swizzle.vector

    return offsets


def strided(strides: Sequence[int]) -> Offsets:
    steps = np.array(strides, dtype=np.int64)

    def offsets(coordinates: Ints) -> Ints:
        return coordinates @ steps

    return offsets


def strides_of(shape: Sequence[int], order: Sequence[int], padding: int = 0) -> Vector:
    """Steps of rows along `order[0]`, with some elements left free after each.

    >>> strides_of((4, 32, 32), (2, 1, 0), padding=1)
    (1056, 33, 1)
    """
    strides, step = [0] * len(shape), 1
    for dim in order:
        strides[dim] = step
        step *= shape[dim] + (padding if dim == order[0] else 0)
    return tuple(strides)


def padded(interval: int, padding: int, shape: Sequence[int], order: Sequence[int]) -> Offsets:
    """Plain rows with `padding` elements left free after every `interval`."""
    return _with_gaps(swizzled(UNSWIZZLED, shape, order), ((interval, padding),))


def _with_gaps(plain: Offsets, pairs: Sequence[tuple[int, int]]) -> Offsets:
    def offsets(coordinates: Ints) -> Ints:
        flat = plain(coordinates)
        return flat + sum(flat // interval * padding for interval, padding in pairs)

    return offsets


def _rows(coordinates: Ints, shape: Sequence[int], order: Sequence[int]) -> tuple[Ints, Ints, int]:
    fast = order[0]
    row = np.zeros(coordinates.shape[:-1], dtype=np.int64)
    stride = 1
    for dim in order[1:]:
        row = row + coordinates[..., dim] * stride
        stride *= shape[dim]
    return coordinates[..., fast], row, shape[fast]


def _nvmma(layout: Attribute, shape: Vector, element_bits: int) -> Offsets:
    """Hopper's operand layout: columns of tiles as wide as the swizzle, sixteen-byte groups moved by the row."""
    width = layout.number("swizzlingByteWidth")
    if len(shape) < 2 or (len(shape) > 2 and layout.is_true("transposed")):
        kind = "transposed tiles" if len(shape) > 2 else "tiles"
        raise UsageError(f"nvmma_shared: {kind} of {plural(len(shape), 'dimension')} are not modelled")
    if width not in (0, 32, 64, 128):
        raise UsageError(f"nvmma_shared: swizzlingByteWidth = {width} is not 0, 32, 64 or 128")
    if layout.is_true("fp4Padded"):
        raise UsageError("nvmma_shared: fp4Padded = true is not modelled")
    order = order_of(layout, len(shape))
    if width == 0:
        return swizzled(UNSWIZZLED, shape, order)
    phases = width // MATRIX_ROW_BYTES
    per_phase = 8 // phases
    element_bytes = max(element_bits // 8, 1)

    rows = prod(shape) // shape[order[0]]

    def offsets(coordinates: Ints) -> Ints:
        column, row, _ = _rows(coordinates, shape, order)
        tile, inside = column * element_bytes // width, column * element_bytes % width
        group = (inside // MATRIX_ROW_BYTES) ^ ((row // per_phase) % phases)
        row_start = tile * rows * width + row * width
        return (row_start + group * MATRIX_ROW_BYTES + inside % MATRIX_ROW_BYTES) // element_bytes

    return offsets


_PAIR = re.compile(r"(?<!\d)(\d+)\s*(?::\+|,)\s*(\d+)")


def _padded(layout: Attribute, shape: Vector) -> Offsets:
    """`[64:+8, 512:+16]`, or as Gluon prints it `[[64, 8], [512, 16]]`."""
    intervals = layout.text("intervals")
    pairs = [(int(interval), int(padding)) for interval, padding in _PAIR.findall(intervals)]
    if not pairs:
        raise UsageError(f"padded_shared: {intervals} is not a list of interval:+padding", hint="such as [64:+8]")
    if not all(interval for interval, _ in pairs):
        raise UsageError(f"padded_shared: {intervals} has an interval of 0")
    if "offset" in layout.values:
        plain = inverted(layout.vectors("offset"), shape, layout.kind)
    else:
        plain = swizzled(UNSWIZZLED, shape, order_of(layout, len(shape)))
    return _with_gaps(plain, pairs)


def inverted(bases: Sequence[Vector], shape: Vector, kind: str) -> Offsets:
    """A layout that says which element lies at each offset, turned around."""
    if any(len(vector) != len(shape) for vector in bases):
        raise UsageError(f"{kind}: its offset bases do not have {len(shape)} dimensions, as the shape has")
    elements = spread(bases, len(shape))
    inside = (elements < np.array(shape)).all(axis=-1)
    table = np.full(shape, -1, dtype=np.int64)
    offsets_in_order = np.arange(len(elements))[inside]
    # The first of several offsets that hold the same element is the one that is read.
    table[tuple(elements[inside][::-1].T)] = offsets_in_order[::-1]
    if (table < 0).any():
        missing = tuple(int(at) for at in np.argwhere(table < 0)[0])
        raise UsageError(f"{kind}: no offset holds the element {missing}")

    def offsets(coordinates: Ints) -> Ints:
        found: Ints = table[tuple(np.moveaxis(coordinates, -1, 0))]
        return found

    return offsets

"""From a text to a tile. The notation decides: a layout of Triton, an expression of CuTe, or an array of CUDA C++.

Triton's may be an attribute, with the definitions that it uses before it (`#mma = #ttg.nvidia_mma<{…}>`), or the lines
of `str(LinearLayout)`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from warplens_lab.layouts import memory, registers
from warplens_lab.layouts.attributes import CALLS, Attribute, end_of_attribute, parse_attribute
from warplens_lab.layouts.bases import Bases, Ints, Vector, reach, spread
from warplens_lab.layouts.cute import CuteExpression
from warplens_lab.layouts.cute_text import STARTS as CUTE_STARTS
from warplens_lab.layouts.cute_text import parse_cute
from warplens_lab.layouts.elements import bits_of, is_element
from warplens_lab.layouts.indexing import WARP_LANES
from warplens_lab.layouts.linear import (
    HOLDERS,
    OFFSET,
    LinearForm,
    LinearMap,
    form_of_holders,
    form_of_memory,
    parse_linear,
)
from warplens_lab.layouts.linear import STARTS as LINEAR_STARTS
from warplens_lab.layouts.memory import Offsets, inverted, offsets_of, order_of, rank_of, strided, strides_of
from warplens_lab.layouts.types import parse_type
from warplens_run.base import bounded
from warplens_run.base.errors import UsageError
from warplens_run.base.units import plural

LARGEST = 1 << 20
USUAL_ELEMENT = "f32"
MOST_PADDING = 0.25
"""Of a row: what an array's rows have beyond a power of two is taken for padding up to this share."""
FORMS = (
    "a layout of Triton (#ttg.blocked<{…}>, BlockedLayout(…)), of CuTe (Swizzle<3,4,3> o (8,64):(64,1)) or an array "
    "of CUDA C++ (float[32][33])"
)
_ARRAY = re.compile(
    r"(?:__shared__\s+)?(?:alignas\(\d+\)\s+)?(?P<type>[\w:]+(?:\s+(?:char|short|int|long))*)\s*(?:(?P<name>(?<![\w:])\w+)\s*)?"
    r"(?P<dims>(?:\[[^\[\]]*\]\s*)+);?"
)
_SHAPED = re.compile(r"(?P<shape>\d+(?:x\d+)*)(?:x(?P<element>[A-Za-z_]\w*))?\s+(?P<layout>\D.*)", re.DOTALL)
_DEFINITION = re.compile(r" ?#(?P<name>\w+) ?= ?(?=#)")
_ALIAS = re.compile(r"#(?P<name>\w+)(?![\w.]|\s*<)")


@dataclass(frozen=True)
class Tile:
    """A tile as a text lays it out: in memory (`offsets`) or over threads (`holders`)."""

    text: str
    shape: Vector
    element: str
    element_bits: int
    order: Vector
    """Dimensions, the fastest in memory first."""
    offsets: Offsets | None = None
    holders: Ints | None = None
    """Coordinates of what each thread holds: registers × lanes × warps × dimensions."""
    bases: Bases | None = None
    """Of a layout over threads that is written as a linear one."""
    notes: tuple[str, ...] = ()
    declared: Vector = ()
    """The extents of an array of C++; its rows may be longer than the tile's, by a padding."""

    @property
    def is_memory(self) -> bool:
        return self.offsets is not None

    @property
    def elements(self) -> int:
        return prod(self.shape)

    def coordinates(self) -> Ints:
        """Of every element, rows first."""
        return np.stack(np.unravel_index(np.arange(self.elements), self.shape), axis=-1).astype(np.int64)

    def linear_form(self) -> LinearForm:
        """The tile as a linear layout, or why it is none."""
        if self.bases is not None:
            return LinearForm(tuple(zip(HOLDERS, self.bases.parts, strict=True)))
        if self.holders is not None:
            return form_of_holders(self.holders)
        assert self.offsets is not None
        return form_of_memory(self.offsets(self.coordinates()).reshape(self.shape))

    @property
    def bytes(self) -> int:
        """From the first element to the last, gaps included; of an array all of it."""
        if self.declared or self.offsets is None:
            return prod(self.declared or self.shape) * self.element_bits // 8
        return (int(self.offsets(self.coordinates()).max()) + 1) * self.element_bits // 8


def read_tile(text: str, shape: Vector = (), element: str = "", over_threads: Vector = ()) -> Tile:
    """The tile of one text; `over_threads` is the shape of the tile that a CuTe layout of threads and values covers."""
    plain = _with_definitions(" ".join(text.split()))
    if not plain:
        raise UsageError("an empty layout", hint=FORMS)
    if LINEAR_STARTS.match(plain):
        return _linear(plain, parse_linear(plain), element)
    typed = parse_type(plain) if plain.startswith(("tensor<", "!ttg.memdesc<", "memdesc<")) else None
    if typed is not None:
        return replace(read_tile(typed.layout, shape or typed.shape, element or typed.element), text=plain)
    if (match := _ARRAY.fullmatch(plain)) and (is_element(match["type"]) or not plain.startswith("[")):
        return _array(plain, match, element)
    if match := _SHAPED.fullmatch(plain):
        own = tuple(int(extent) for extent in match["shape"].split("x"))
        tile = read_tile(match["layout"], shape or own, element or match["element"] or "", over_threads)
        return replace(tile, text=plain)
    if CUTE_STARTS.match(plain):
        return _cute(plain, element, over_threads)
    return _triton(plain, parse_attribute(plain), shape, element)


def _with_definitions(text: str) -> str:
    """The last layout of a text, with what the names in it stand for: `#mma = #ttg.… #a = #ttg.slice<…#mma…>`."""
    definitions: dict[str, str] = {}

    def resolved(part: str) -> str:
        return _ALIAS.sub(lambda match: definitions.get(match["name"], match[0]), part)

    last, at = "", 0
    while match := _DEFINITION.match(text, at):
        at = end_of_attribute(text, match.end())
        last = definitions[match["name"]] = resolved(text[match.end() : at])
    return resolved(text[at:].strip()) or last


def _linear(text: str, linear: LinearMap, element: str) -> Tile:
    own = element or USUAL_ELEMENT
    names = [name for name in linear.inputs if name != "block" or linear.part(name)]
    sizes = tuple(size for name, size in zip(linear.outputs, linear.sizes, strict=True) if name != "block" or size > 1)
    _check_size(text, sizes)
    rows_first = tuple(reversed(range(len(sizes))))
    if set(linear.inputs) <= set(HOLDERS):
        bases = Bases(*(_kept(linear.part(name), len(sizes)) for name in HOLDERS))
        tile = Tile(text, sizes, own, bits_of(own), rows_first, holders=bases.coordinates(), bases=bases)
        return replace(tile, text=tile.linear_form().text)
    notes = () if element else (f"the linear layout: elements of {USUAL_ELEMENT} are assumed",)
    if names == [OFFSET]:
        offsets = inverted(linear.part(OFFSET), sizes, "the linear layout")
        return Tile(text, sizes, own, bits_of(own), rows_first, offsets, notes=notes)
    if linear.outputs[0] == OFFSET and len(sizes) == 1:
        return _of_coordinates(text, linear, own, notes)
    raise UsageError(
        f"a linear layout from {', '.join(linear.inputs)} to {', '.join(linear.outputs)} is not shown",
        hint="from register, lane, warp and block; from offset; or from dim0, dim1, … to offset",
    )


def _kept(vectors: tuple[Vector, ...], rank: int) -> tuple[Vector, ...]:
    return tuple(vector[:rank] for vector in vectors)


def _of_coordinates(text: str, linear: LinearMap, element: str, notes: tuple[str, ...]) -> Tile:
    """A tile whose coordinates' bits each add to the offset."""
    tables = [spread(_kept(vectors, 1), 1)[:, 0] for name, vectors in linear.inputs.items() if name != "block"]
    shape = tuple(len(table) for table in tables)

    def offsets(coordinates: Ints) -> Ints:
        places = np.zeros(coordinates.shape[:-1], np.int64)
        for dim, table in enumerate(tables):
            places ^= table[coordinates[..., dim]]
        return places

    return Tile(text, shape, element, bits_of(element), tuple(reversed(range(len(shape)))), offsets, notes=notes)


def _array(text: str, match: re.Match[str], element: str) -> Tile:
    own = element or match["type"]
    bits = bits_of(own)
    extents = re.findall(r"\[([^\[\]]*)\]", match["dims"])
    for extent in extents:
        if not bounded.is_whole(extent, 1):
            raise UsageError(f"the extent [{extent}] of {text} is not a positive number")
    declared = tuple(map(int, extents))
    _check_size(text, declared)
    order = tuple(reversed(range(len(declared))))
    shape, notes = declared, []
    row = 1 << (declared[-1].bit_length() - 1)
    if len(declared) > 1 and 0 < declared[-1] - row <= row * MOST_PADDING:
        shape = (*declared[:-1], row)
        notes.append(f"{text}: the elements of a row from {row} on are taken for padding")
    offsets = strided(strides_of(declared, order))
    return Tile(text, shape, own, bits, order, offsets, notes=tuple(notes), declared=declared)


def _cute(text: str, element: str, over_threads: Vector) -> Tile:
    expression = parse_cute(text)
    if over_threads:
        return _threads_and_values(text, expression, over_threads, element or USUAL_ELEMENT)
    bits = expression.pointer_bits
    own = element or expression.element or (f"i{bits}" if bits else USUAL_ELEMENT)
    if bits and bits_of(own) != bits:
        raise UsageError(f"{own} has {bits_of(own)} bits, the pointer of {text} {bits}")
    shape = expression.shape
    steps = [int(expression.layout.modes[dim].at(np.ones(1, np.int64))[0]) for dim in range(len(shape))]
    order = tuple(sorted(range(len(shape)), key=lambda dim: (shape[dim] == 1, abs(steps[dim]), -dim)))
    notes = [] if element or bits else [f"{text}: elements of {USUAL_ELEMENT} are assumed"]
    tile = Tile(text, shape, own, bits_of(own), order, expression.offsets)
    places = expression.offsets(tile.coordinates())
    if places.min(initial=0) < 0:
        raise UsageError(f"{text} has an offset of {int(places.min())}", hint="offsets of a tile begin at 0")
    shared = len(places) - len(np.unique(places))
    if shared:
        notes.append(f"{text}: {shared} elements lie where another one does")
    return replace(tile, notes=tuple(notes))


def _threads_and_values(text: str, expression: CuteExpression, shape: Vector, element: str) -> Tile:
    """(thread, value) → index of an element, the first dimension of the tile running fastest."""
    if len(expression.shape) != 2:
        raise UsageError(f"{text} has {len(expression.shape)} modes; threads and values are two", options=("tv",))
    threads, values = expression.shape
    if threads > WARP_LANES and threads % WARP_LANES:
        raise UsageError(f"{text} has {threads} threads, which are not whole warps of {WARP_LANES}")
    _check_size(text, shape)
    lanes = min(threads, WARP_LANES)
    pairs = np.stack(np.meshgrid(np.arange(threads), np.arange(values), indexing="ij"), axis=-1).astype(np.int64)
    index = expression.offsets(pairs)
    if index.min() < 0 or index.max() >= prod(shape):
        raise UsageError(f"{text} reaches the element {int(index.max())}, a tile of {_size(shape)} has {prod(shape)}")
    coordinates = np.stack(np.unravel_index(index, shape, order="F"), axis=-1).astype(np.int64)
    holders = coordinates.reshape(threads // lanes, lanes, values, len(shape)).transpose(2, 1, 0, 3)
    return Tile(text, shape, element, bits_of(element), tuple(reversed(range(len(shape)))), holders=holders)


def _triton(text: str, layout: Attribute, shape: Vector, element: str) -> Tile:
    known = (*registers.KINDS, *memory.KINDS)
    if unknown := _ALIAS.search(text):
        hint = f"write its definition before it: #{unknown['name']} = #ttg.…"
        raise UsageError(f"{unknown[0]} is not defined, at character {unknown.start() + 1} of {text!r}", hint=hint)
    if layout.kind not in known:
        short = [name for name, (kind, _) in CALLS.items() if kind in known]
        hint = f"Triton's: {', '.join(known)}; Gluon's: {', '.join(short)}; or {FORMS.partition('), ')[2]}"
        raise UsageError(f"{text!r} is not a known layout", hint=hint)
    _check_size(text, shape)
    if layout.kind in registers.KINDS:
        bases = registers.bases_of(layout, shape or None)
        own = element or USUAL_ELEMENT
        whole = shape or bases.extent()
        rows_first = tuple(reversed(range(len(whole))))
        notes: tuple[str, ...] = ()
        if bases.block:
            warps = 1 << len(bases.warp)
            size = f"{1 << len(bases.block)} blocks of {plural(warps, 'warp')}"
            notes = (f"{size}: warp {warps} is the first of the second block",)
        return Tile(text, whole, own, bits_of(own), rows_first, holders=bases.coordinates(), bases=bases, notes=notes)
    return _in_memory(text, layout, shape, element)


def _in_memory(text: str, layout: Attribute, shape: Vector, element: str) -> Tile:
    if not shape and "shape" in layout.values:
        shape = layout.numbers("shape")
    if not shape and layout.kind == "shared_linear":
        shape = reach(layout.vectors("offset"), rank_of(layout, 1))
    if not shape:
        raise UsageError(f"{layout.kind} does not say how large the tile is", options=("shape",))
    bits = layout.number("elementBitWidth", 0)
    own = element or (f"i{bits}" if bits else USUAL_ELEMENT)
    if bits and bits_of(own) != bits:
        raise UsageError(f"{own} has {bits_of(own)} bits, elementBitWidth of {layout.kind} is {bits}")
    notes = [] if element or bits else [f"{layout.kind}: elements of {USUAL_ELEMENT} are assumed"]
    rank = rank_of(layout, len(shape))
    if len(shape) > rank:
        notes.append(f"{_size(shape[:-rank])} buffers of {_size(shape[-rank:])}: one of them is shown")
        shape = shape[-rank:]
    if blocks := layout.cluster():
        shape = tuple(extent // count for extent, count in zip(shape, reach(blocks, rank), strict=True))
        notes.append(f"one of {1 << len(blocks)} blocks' parts, {_size(shape)}, is shown")
    offsets = offsets_of(layout, shape, bits_of(own))
    return Tile(text, shape, own, bits_of(own), order_of(layout, len(shape)), offsets, notes=tuple(notes))


def _check_size(text: str, shape: Vector) -> None:
    if prod(shape) > LARGEST or not all(shape):
        raise UsageError(f"a tile of {_size(shape)} elements for {text}: at least 1, at most {LARGEST:,} are shown")


def _size(shape: Vector) -> str:
    return "×".join(map(str, shape))

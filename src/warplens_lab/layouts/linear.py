"""Linear layouts: maps over bits. Every layout as one, and the texts that Triton prints of its own.

A linear layout says for each bit of its inputs (a register's number, a lane's, a warp's; an offset in memory) what it
adds, by exclusive-or, to the coordinates of an element. `str(LinearLayout)` of Triton has a line for each:

     - register=1 -> (0, 1)
     - lane=1 -> (0, 2)
       lane=2 -> (1, 0)
     - warp is a size 1 dimension
    where out dims are: [dim0 (size 2), dim1 (size 4)]
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from warplens_lab.layouts.bases import Ints, Vector, is_power_of_two, reach, spread
from warplens_run.base.errors import UsageError

HOLDERS: Final = ("register", "lane", "warp", "block")
OFFSET: Final = "offset"
STARTS: Final = re.compile(r"(?:- )?\w+(?:=\d+ -> \(| is a size 1 dimension)")
_ENTRY: Final = re.compile(
    r"(?:- )?(?P<name>\w+)(?:=(?P<bit>\d{1,9}) -> \((?P<to>\d{1,9}(?:, ?\d{1,9})*)\)| is a size 1 dimension)(?: |$)"
)
_OUTPUTS: Final = re.compile(r"where out dims are: \[(?P<dims>.*)\]")
_OUTPUT: Final = re.compile(r"(?<!\w)(?P<name>\w+) \(size (?P<size>\d{1,9})\)(?:, |$)")


@dataclass(frozen=True)
class LinearMap:
    """Vectors by the name of an input, each for one bit of it, in the dimensions of `outputs`."""

    inputs: Mapping[str, tuple[Vector, ...]]
    outputs: tuple[str, ...]
    sizes: Vector

    def part(self, name: str) -> tuple[Vector, ...]:
        return self.inputs.get(name, ())


@dataclass(frozen=True)
class LinearForm:
    """A layout as a linear one: its bases by input, or the reason why it is none."""

    bases: tuple[tuple[str, tuple[Vector, ...]], ...] = ()
    why_not: str = ""

    @property
    def text(self) -> str:
        """As TTGIR prints it, where TTGIR can: threads and memory without gaps."""
        if self.why_not:
            return f"not linear: {self.why_not}"
        parts = ", ".join(f"{name} = {[list(vector) for vector in vectors]}" for name, vectors in self.bases)
        names = [name for name, _ in self.bases]
        if names[0] == HOLDERS[0]:
            return f"#ttg.linear<{{{parts}}}>"
        return f"#ttg.shared_linear<{{{parts}, block = []}}>" if names == [OFFSET] else f"{parts} -> {OFFSET}"


def parse_linear(text: str) -> LinearMap:
    """Reads `str(LinearLayout)`, whose lines may be joined.

    >>> parse_linear("- lane=1 -> (1, 2) where out dims are: [dim0 (size 2), dim1 (size 4)]")
    LinearMap(inputs={'lane': ((1, 2),)}, outputs=('dim0', 'dim1'), sizes=(2, 4))
    """
    plain = " ".join(text.split())
    inputs: dict[str, tuple[Vector, ...]] = {}
    at = 0
    while match := _ENTRY.match(plain, at):
        vectors = inputs.setdefault(match["name"], ())
        if match["bit"]:
            if int(match["bit"]) != 1 << len(vectors):
                raise _error(f"expected {match['name']}={1 << len(vectors)}", plain, match.start("bit"))
            inputs[match["name"]] = (*vectors, tuple(map(int, match["to"].split(","))))
        at = match.end()
    lengths = {len(vector) for vectors in inputs.values() for vector in vectors}
    if len(lengths) > 1:
        raise UsageError(f"a linear layout whose bases have {' and '.join(map(str, sorted(lengths)))} dimensions")
    rank = next(iter(lengths), 1)
    if at == len(plain):
        return LinearMap(inputs, tuple(f"dim{dim}" for dim in range(rank)), _reached(inputs, rank))
    tail = _OUTPUTS.fullmatch(plain, at)
    if tail is None:
        raise _error("expected a line such as lane=1 -> (0, 8)", plain, at)
    outputs = [(match["name"], int(match["size"])) for match in _OUTPUT.finditer(tail["dims"])]
    sizes = tuple(size for _, size in outputs)
    if not sizes or not all(sizes):
        raise _error("expected out dims such as dim0 (size 16)", plain, tail.start("dims"))
    if lengths and (len(sizes) != rank or any(map(int.__lt__, sizes, _reached(inputs, rank)))):
        raise _error("the bases do not fit the out dims", plain, tail.start("dims"))
    return LinearMap(inputs, tuple(name for name, _ in outputs), sizes)


def _reached(inputs: Mapping[str, tuple[Vector, ...]], rank: int) -> Vector:
    return reach((vector for vectors in inputs.values() for vector in vectors), rank)


def _error(problem: str, text: str, at: int) -> UsageError:
    return UsageError(f"{problem}, at character {at + 1} of {text!r}")


def form_of_memory(offsets: Ints) -> LinearForm:
    """The bases of a tile in memory, from the offset of each element.

    By offset where each offset has one element, as in Triton; else by dimension.
    """
    by_dimension, why_not = _bases_of_axes(offsets[..., None])
    if why_not:
        return LinearForm(why_not=why_not)
    places = offsets.ravel()
    elements = np.argsort(places, kind="stable")
    if np.array_equal(places[elements], np.arange(len(places))):
        bits = range(len(places).bit_length() - 1)
        coordinates = np.stack(np.unravel_index(elements[[1 << bit for bit in bits]], offsets.shape), axis=-1)
        return LinearForm(((OFFSET, tuple(tuple(map(int, row)) for row in coordinates)),))
    return LinearForm(tuple((f"dim{dim}", vectors) for dim, vectors in enumerate(by_dimension)))


def form_of_holders(holders: Ints) -> LinearForm:
    """The bases of a tile over threads, from the element of each register, lane and warp."""
    parts, why_not = _bases_of_axes(holders)
    return LinearForm(why_not=why_not) if why_not else LinearForm(tuple(zip(HOLDERS, (*parts, ()), strict=True)))


def _bases_of_axes(values: Ints) -> tuple[list[tuple[Vector, ...]], str]:
    """The vectors of each bit of each axis of an array of vectors; else why they do not give the array."""
    *extents, rank = values.shape
    for extent in extents:
        if not is_power_of_two(extent):
            return [], f"{extent} is not a power of two"
    origin = tuple(0 for _ in extents)
    if values[origin].any():
        return [], f"it begins at {_named(values[origin])}, not at 0"
    axes: list[tuple[Vector, ...]] = []
    expected = np.zeros((1, rank), np.int64)
    for axis, extent in enumerate(extents):
        along = np.moveaxis(values, axis, 0).reshape(extent, -1, rank)[:, 0]
        axes.append(tuple(tuple(map(int, along[1 << bit])) for bit in range(extent.bit_length() - 1)))
        expected = (expected[:, None] ^ spread(axes[-1], rank)[None]).reshape(-1, rank)
    wrong = np.flatnonzero((expected != values.reshape(-1, rank)).any(axis=-1))
    if not len(wrong):
        return axes, ""
    place = tuple(int(at) for at in np.unravel_index(wrong[0], extents))
    return [], f"{_named(place)} is at {_named(values[place])}, its bits add up to {_named(expected[wrong[0]])}"


def _named(vector: Sequence[int] | Ints) -> str:
    """
    >>> _named([4]), _named([1, 2])
    ('4', '(1, 2)')
    """
    numbers = ", ".join(str(int(number)) for number in vector)
    return numbers if len(vector) == 1 else f"({numbers})"

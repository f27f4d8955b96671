"""Which thread holds which element: Triton's register layouts as linear maps over bits.

Every layout of a power-of-two tile is a set of basis vectors: where the first, second, fourth … register, lane and warp
of a tile lie. An element's coordinates are the exclusive-or of the bases of the bits that are set.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from warplens.kernel_lab.facts.types import split_outer

Vector = tuple[int, ...]
Ints = NDArray[np.int64]
_HEAD = re.compile(r"#?(?:ttg|ttng|amdg|gluon)?\.?(?P<kind>\w+)<(?P<body>.*)>", re.DOTALL)


@dataclass(frozen=True)
class Bases:
    """Basis vectors of the registers of a thread, the lanes of a warp and the warps of a block."""

    register: tuple[Vector, ...]
    lane: tuple[Vector, ...]
    warp: tuple[Vector, ...]

    def coordinates(self) -> Ints:
        """Coordinates of each element: registers × lanes × warps × dimensions."""
        registers, lanes, warps = (_spread(part, self._rank()) for part in (self.register, self.lane, self.warp))
        return registers[:, None, None] ^ lanes[None, :, None] ^ warps[None, None]

    def _rank(self) -> int:
        return next((len(vector) for part in (self.register, self.lane, self.warp) for vector in part), 1)


def parse_attribute(text: str) -> tuple[str, dict[str, str]]:
    """
    >>> parse_attribute("#ttg.slice<{dim = 1, parent = #ttg.blocked<{order = [0]}>}>")
    ('slice', {'dim': '1', 'parent': '#ttg.blocked<{order = [0]}>'})
    """
    match = _HEAD.fullmatch(text.strip())
    if match is None:
        return "", {}
    body = match["body"].strip()
    if body.startswith("{") and body.endswith("}"):
        body = body[1:-1]
    pairs = (part.partition(" = ") for part in split_outer(body))
    return match["kind"], {name.strip(): value.strip() for name, _, value in pairs}


def register_bases(layout: str, shape: Sequence[int]) -> Bases | None:
    """The bases of a layout that is written out, fitted to a shape; None for one that is not modelled."""
    try:
        return _bases(layout, tuple(shape))
    except (KeyError, ValueError, SyntaxError, TypeError, IndexError):
        return None


def _bases(layout: str, shape: Vector) -> Bases | None:
    kind, values = parse_attribute(layout)
    if kind == "slice":
        return _slice(values, shape)
    tile: Bases | None = None
    order: Vector = tuple(reversed(range(len(shape))))
    if kind == "blocked":
        order = _numbers(values["order"])
        tile = _blocked(values, order)
    elif kind == "linear":
        return _fitted(Bases(*(_vectors(values[part]) for part in ("register", "lane", "warp"))), shape, order)
    elif kind == "nvidia_mma":
        tile = _nvidia_result(values)
    elif kind == "amd_mfma":
        tile = _amd_result(values)
    elif kind == "dot_op":
        tile, order = _operand(values)
    return _fitted(tile, shape, order) if tile else None


def _slice(values: dict[str, str], shape: Vector) -> Bases | None:
    dropped = int(values["dim"])
    parent = _bases(values["parent"], (*shape[:dropped], 1, *shape[dropped:]))
    if parent is None:
        return None
    parts = (parent.register, parent.lane, parent.warp)
    sliced = [tuple(v[:dropped] + v[dropped + 1 :] for v in part) for part in parts]
    return Bases(tuple(vector for vector in sliced[0] if any(vector)), sliced[1], sliced[2])


def _blocked(values: dict[str, str], order: Vector) -> Bases:
    rank = len(order)
    at = [0] * rank
    parts: list[tuple[Vector, ...]] = []
    for name in ("sizePerThread", "threadsPerWarp", "warpsPerCTA"):
        extents = _numbers(values[name])
        vectors: list[Vector] = []
        for dim in order:
            for _ in range(_log2(extents[dim])):
                vectors.append(_unit(rank, dim, 1 << at[dim]))
                at[dim] += 1
        parts.append(tuple(vectors))
    return Bases(*parts)


def _warps(values: dict[str, str], rows_first: bool, tile: Vector, skipped: int | None = None) -> tuple[Vector, ...]:
    """Warps side by side; along a dimension that the tile does not have they hold the same."""
    extents = _numbers(values["warpsPerCTA"])
    vectors = []
    for dim in (0, 1) if rows_first else (1, 0):
        for bit in range(_log2(extents[dim])):
            vectors.append((0, 0) if dim == skipped else _unit(2, dim, tile[dim] << bit))
    return tuple(vectors)


def _nvidia_result(values: dict[str, str]) -> Bases | None:
    version, shape = int(values["versionMajor"]), _numbers(values["instrShape"])
    if version not in (2, 3):
        return None
    columns = shape[1] if version == 3 else 8
    wider = tuple((0, 8 << bit) for bit in range(_log2(columns // 8)))
    lanes = ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))
    return Bases(((0, 1), (8, 0), *wider), lanes, _warps(values, version == 3, (16, columns)))


def _amd_result(values: dict[str, str]) -> Bases:
    rows, columns = _numbers(values["instrShape"])[:2]
    lanes = [(0, 1 << bit) for bit in range(_log2(columns))]
    lanes += [(4 << bit, 0) for bit in range(6 - len(lanes))]
    lane_rows = {vector[0] for vector in lanes}
    registers = [(1 << bit, 0) for bit in range(_log2(rows)) if 1 << bit not in lane_rows]
    turned = values.get("isTransposed") == "true"
    parts = (
        [tuple(reversed(v)) if turned else v for v in registers],
        [tuple(reversed(v)) if turned else v for v in lanes],
    )
    return Bases(tuple(parts[0]), tuple(parts[1]), _warps(values, False, (rows, columns)))


def _operand(values: dict[str, str]) -> tuple[Bases | None, Vector]:
    """An operand of a matrix product: K runs along columns for the first, along rows for the second."""
    kind, parent = parse_attribute(values["parent"])
    is_first = values["opIdx"] == "0"
    width = int(values.get("kWidth", "1"))
    along_k = 1 if is_first else 0
    order = (1, 0) if is_first else (0, 1)
    within = tuple(_unit(2, along_k, 1 << bit) for bit in range(_log2(width)))

    def other(step: int) -> Vector:
        return _unit(2, 1 - along_k, step)

    # wgmma may take its first operand from registers, laid out as mma.sync's.
    if kind == "nvidia_mma" and (parent["versionMajor"] == "2" or (parent["versionMajor"] == "3" and is_first)):
        deeper = _unit(2, along_k, 4 * width)
        registers = (*within, other(8), deeper) if is_first else (*within, deeper)
        lanes = (_unit(2, along_k, width), _unit(2, along_k, 2 * width), other(1), other(2), other(4))
        tile = (16, 8 * width) if is_first else (8 * width, 8)
        return Bases(registers, lanes, _warps(parent, parent["versionMajor"] == "3", tile, along_k)), order
    if kind == "amd_mfma":
        rows = _numbers(parent["instrShape"])[0]
        across = [other(1 << bit) for bit in range(_log2(rows))]
        deep = [_unit(2, along_k, width << bit) for bit in range(6 - len(across))]
        depth = width << len(deep)
        tile = (rows, depth) if is_first else (depth, rows)
        return Bases(within, (*across, *deep), _warps(parent, False, tile, along_k)), order
    return None, order


def _fitted(bases: Bases, shape: Vector, order: Vector) -> Bases:
    """Repeats the tile over a larger tensor, in further registers, and folds it where the tensor is smaller."""
    parts = [tuple(_inside(vector, shape) for vector in part) for part in (bases.register, bases.lane, bases.warp)]
    reached = [1] * len(shape)
    for part in parts:
        for vector in part:
            for dim, step in enumerate(vector):
                reached[dim] = max(reached[dim], 2 * step)
    more: list[Vector] = []
    for dim in order:
        while reached[dim] < shape[dim]:
            more.append(_unit(len(shape), dim, reached[dim]))
            reached[dim] *= 2
    registers = (*(vector for vector in parts[0] if any(vector)), *more)
    return replace(bases, register=registers, lane=parts[1], warp=parts[2])


def _inside(vector: Vector, shape: Vector) -> Vector:
    return tuple(step if step < extent else 0 for step, extent in zip(vector, shape, strict=True))


def _spread(vectors: Sequence[Vector], rank: int) -> Ints:
    spread = np.zeros((1, rank), dtype=np.int64)
    for vector in vectors:
        spread = np.concatenate([spread, spread ^ np.array(vector, dtype=np.int64)])
    return spread


def _unit(rank: int, dim: int, step: int) -> Vector:
    return tuple(step if at == dim else 0 for at in range(rank))


def _numbers(text: str) -> Vector:
    return tuple(int(number) for number in ast.literal_eval(text))


def _vectors(text: str) -> tuple[Vector, ...]:
    return tuple(tuple(int(step) for step in vector) for vector in ast.literal_eval(text))


def _log2(value: int) -> int:
    if value < 1 or value & (value - 1):
        raise ValueError(f"{value} is not a power of two")
    return value.bit_length() - 1


def moves_between(source: str, destination: str, shape: Sequence[int]) -> str:
    """What a change of layout moves elements between: registers of a thread, lanes of a warp, or warps."""
    first, second = register_bases(source, shape), register_bases(destination, shape)
    if first is None or second is None or len(first.lane) != len(second.lane) or len(first.warp) != len(second.warp):
        return "unknown"
    if _same_span(first, second, by_lane=True):
        return "registers"
    return "lanes" if _same_span(first, second, by_lane=False) else "warps"


def _same_span(first: Bases, second: Bases, by_lane: bool) -> bool:
    """Whether each thread (or each warp) holds the same elements in both, whatever their order."""
    if first.warp != second.warp or (by_lane and first.lane != second.lane):
        return False
    spans = [_span(b.register if by_lane else (*b.register, *b.lane)) for b in (first, second)]
    return spans[0] == spans[1]


def _span(vectors: Sequence[Vector]) -> frozenset[Vector]:
    rank = len(vectors[0]) if vectors else 1
    return frozenset(tuple(int(step) for step in row) for row in _spread(vectors, rank))

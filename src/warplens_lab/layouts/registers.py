"""Which thread holds which element: Triton's register layouts, fitted to the shape of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warplens_lab.layouts.attributes import Attribute, parse_attribute
from warplens_lab.layouts.bases import Bases, Vector, fitted, log2, reach, spread, unit
from warplens_run.base.errors import UsageError

KINDS = ("blocked", "linear", "nvidia_mma", "amd_mfma", "dot_op", "slice")
MATRIX_KINDS = ("nvidia_mma", "amd_mfma", "dot_op")
AMD_LANES = 6
"""A warp of AMD's has 2⁶ lanes."""


def register_bases(layout: str, shape: Sequence[int]) -> Bases | None:
    """The bases of a layout that is written out, fitted to a shape; None for one that is not modelled."""
    try:
        return bases_of(parse_attribute(layout), tuple(shape))
    except UsageError:
        return None


def bases_of(layout: Attribute, shape: Vector | None = None) -> Bases:
    """The same with an error that says what is wrong; without a shape, one tile of the layout."""
    if layout.kind == "slice":
        return _slice(layout, shape)
    tile, order = _tile(layout, shape)
    cluster = layout.cluster()
    blocks = reach(cluster, len(order))
    shape = shape or tuple(extent * count for extent, count in zip(tile.extent(), blocks, strict=True))
    if len(shape) != len(order):
        size = "×".join(map(str, shape))
        raise UsageError(f"{layout.kind} has {len(order)} dimensions, the shape {size} has {len(shape)}")
    for extent in shape:
        log2(extent)
    own = tuple(max(extent // count, 1) for extent, count in zip(shape, blocks, strict=True))
    bases = fitted(tile, own, order, keeps_folded=layout.kind in MATRIX_KINDS)
    if not cluster:
        return bases
    steps = [tuple(step * extent for step, extent in zip(vector, own, strict=True)) for vector in cluster]
    return replace(bases, block=tuple(steps))


def _tile(layout: Attribute, shape: Vector | None) -> tuple[Bases, Vector]:
    """One tile, and the order in which more of them fill a tensor."""
    if layout.kind == "blocked":
        order = layout.numbers("order")
        return _blocked(layout, order), order
    if layout.kind == "linear":
        bases = _linear(layout)
        return bases, tuple(reversed(range(len(bases.extent()))))
    if layout.kind == "nvidia_mma":
        return _nvidia_result(layout), (1, 0)
    if layout.kind == "amd_mfma":
        return _amd_result(layout), (1, 0)
    if layout.kind == "dot_op":
        return _operand(layout, shape)
    raise UsageError(f"the layout {layout.kind!r} is not modelled", hint=f"known: {', '.join(KINDS)}")


def _slice(layout: Attribute, shape: Vector | None) -> Bases:
    dropped = layout.number("dim")
    parent_shape = (*shape[:dropped], 1, *shape[dropped:]) if shape else None
    parent = bases_of(parse_attribute(layout.text("parent")), parent_shape)
    register, *others = [tuple(v[:dropped] + v[dropped + 1 :] for v in part) for part in parent.parts]
    return Bases(tuple(vector for vector in register if any(vector)), *others)


def _linear(layout: Attribute) -> Bases:
    parts = [layout.vectors(name) for name in ("register", "lane", "warp")]
    parts.append(layout.vectors("block") if "block" in layout.values else ())
    lengths = {len(vector) for part in parts for vector in part}
    if len(lengths) > 1:
        raise UsageError(f"linear: its bases have {' and '.join(map(str, sorted(lengths)))} dimensions")
    return Bases(*parts)


def _blocked(layout: Attribute, order: Vector, summed: int = -1, depth: int = 1) -> Bases:
    """Along a dimension that a product sums over (`summed`), each thread holds all, `depth` elements."""
    rank = len(order)
    if sorted(order) != list(range(rank)):
        raise UsageError(f"blocked: order = {list(order)} does not name each dimension once")
    at = [0] * rank
    parts: list[tuple[Vector, ...]] = []
    for name in ("sizePerThread", "threadsPerWarp", "warpsPerCTA"):
        extents = layout.powers(name)
        if len(extents) != rank:
            raise UsageError(f"blocked: {name} has {len(extents)} dimensions, order has {rank}")
        vectors: list[Vector] = []
        for dim in order:
            is_own = dim != summed or name == "sizePerThread"
            for _ in range(log2(depth if dim == summed and is_own else extents[dim])):
                vectors.append(unit(rank, dim, 1 << at[dim] if is_own else 0))
                at[dim] += is_own
        parts.append(tuple(vectors))
    return Bases(*parts)


def _warps(layout: Attribute, rows_first: bool, tile: Vector, skipped: int | None = None) -> tuple[Vector, ...]:
    """Warps side by side; along a dimension that the tile does not have they hold the same."""
    extents = layout.powers("warpsPerCTA")
    if len(extents) != 2:
        raise UsageError(f"{layout.kind}: warpsPerCTA has {len(extents)} dimensions, only tiles of two are modelled")
    vectors = []
    for dim in (0, 1) if rows_first else (1, 0):
        for bit in range(log2(extents[dim])):
            vectors.append((0, 0) if dim == skipped else unit(2, dim, tile[dim] << bit))
    return tuple(vectors)


def _nvidia_result(layout: Attribute) -> Bases:
    version, shape = layout.number("versionMajor"), layout.powers("instrShape")
    if version not in (2, 3):
        raise UsageError(f"nvidia_mma: version {version} is not modelled", hint="2 (mma.sync) and 3 (wgmma) are")
    columns = shape[1] if version == 3 else 8
    wider = tuple((0, 8 << bit) for bit in range(log2(columns // 8)))
    lanes = ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))
    return Bases(((0, 1), (8, 0), *wider), lanes, _warps(layout, version == 3, (16, columns)))


def _amd_result(layout: Attribute) -> Bases:
    rows, columns = layout.powers("instrShape")[:2]
    if "tilesPerWarp" in layout.values and set(layout.numbers("tilesPerWarp")) != {1}:
        raise UsageError(f"amd_mfma: tilesPerWarp = {layout.text('tilesPerWarp')} is not modelled")
    lanes = [(0, 1 << bit) for bit in range(log2(columns))]
    lanes += [(4 << bit, 0) for bit in range(AMD_LANES - len(lanes))]
    lane_rows = {vector[0] for vector in lanes}
    registers = [(1 << bit, 0) for bit in range(log2(rows)) if 1 << bit not in lane_rows]
    turned = layout.is_true("isTransposed")
    parts = (
        [tuple(reversed(v)) if turned else v for v in registers],
        [tuple(reversed(v)) if turned else v for v in lanes],
    )
    return Bases(tuple(parts[0]), tuple(parts[1]), _warps(layout, False, (rows, columns)))


def _operand(layout: Attribute, shape: Vector | None) -> tuple[Bases, Vector]:
    """An operand of a matrix product: K runs along columns for the first, along rows for the second."""
    parent = parse_attribute(layout.text("parent"))
    is_first = layout.number("opIdx") == 0
    along_k = 1 if is_first else 0
    if parent.cluster():
        raise UsageError("dot_op: operands that are spread over several blocks are not modelled")
    if parent.kind == "blocked":
        if shape is None or len(shape) != 2:
            raise UsageError("dot_op of blocked: how much a thread holds depends on the shape", options=("shape",))
        order = parent.numbers("order")
        return _blocked(parent, order, along_k, shape[along_k]), order
    width = layout.number("kWidth", 1)
    order = (1, 0) if is_first else (0, 1)
    within = tuple(unit(2, along_k, 1 << bit) for bit in range(log2(width)))

    def other(step: int) -> Vector:
        return unit(2, 1 - along_k, step)

    version = parent.number("versionMajor") if parent.kind == "nvidia_mma" else 0
    # wgmma may take its first operand from registers, laid out as mma.sync's.
    if version == 2 or (version == 3 and is_first):
        deeper = unit(2, along_k, 4 * width)
        registers = (*within, other(8), deeper) if is_first else (*within, deeper)
        lanes = (unit(2, along_k, width), unit(2, along_k, 2 * width), other(1), other(2), other(4))
        tile = (16, 8 * width) if is_first else (8 * width, 8)
        return Bases(registers, lanes, _warps(parent, version == 3, tile, along_k)), order
    if parent.kind == "amd_mfma":
        rows = parent.powers("instrShape")[0]
        across = [other(1 << bit) for bit in range(log2(rows))]
        deep = [unit(2, along_k, width << bit) for bit in range(AMD_LANES - len(across))]
        depth = width << len(deep)
        tile = (rows, depth) if is_first else (depth, rows)
        return Bases(within, (*across, *deep), _warps(parent, False, tile, along_k)), order
    raise UsageError(f"dot_op: operand {0 if is_first else 1} of {parent.kind or 'its parent'} is not modelled")


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
    return frozenset(tuple(int(step) for step in row) for row in spread(vectors, rank))

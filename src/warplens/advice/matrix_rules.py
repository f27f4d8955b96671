"""Rules on matrix work: products, convolutions and attention that run below what the GPU's matrix units do."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from warplens.advice.facts import Facts, reachable_share, touches
from warplens.advice.thresholds import ALIGNMENT, GOOD_MULTIPLE, THRESHOLDS
from warplens.costs.tensors import ITEM_BYTES
from warplens.model.finding import Evidence, Finding

MOST_PADDING: Final = 1.125
"""Padding to a multiple of 64 is not advised where it makes a size larger than this."""
MATRIX_FAMILIES: Final = ("gemm", "grouped gemm", "convolution", "attention", "moe")
Row = dict[str, Any]


def slow_matrix_rows(facts: Facts) -> list[Row]:
    """Matrix work that is long enough to matter and below half of its limit; products on scores are WL204's."""
    return [
        row
        for row in facts.roofline
        if row["family"] in MATRIX_FAMILIES
        and row["percent_of_roofline"] is not None
        and row["percent_of_roofline"] < THRESHOLDS["slow_matrix_percent"]
        and row["roofline_us"] >= THRESHOLDS["least_matrix_us"]
        and not (row["family"] == "gemm" and any(touches(row, size) for size in facts.score_sizes))
    ]


def row_place(row: Row) -> str:
    """A line of the user's, else the module, else the op."""
    return str(row["line"] or row["module"] or row["op"])


def to_evidence(facts: Facts, row: Row, gain_us: float, detail: str = "") -> Evidence:
    rate = f"{row['tflops']:.0f} TFLOP/s" if row["flop"] and row["bound"] != "memory" else f"{row['tbps']:.2f} TB/s"
    share = f", {row['percent_of_roofline']:.0f} % of the limit" if row["percent_of_roofline"] is not None else ""
    return Evidence(
        what=f"{row['op']} {row['params']}",
        detail=detail or f"{row['dtype']} {rate}{share}: {row['kernel_short']}".lstrip(),
        count=row["count"],
        time_ms=facts.per_step_ms(row["total_us"], row),
        gain_ms=facts.per_step_ms(gain_us, row),
        place=row_place(row),
    )


def summed(rows: Iterable[Evidence]) -> float:
    return sum(row.gain_ms for row in rows)


def reachable_us(row: Row) -> float:
    """The time one call would take close to its limit."""
    return float(row["roofline_us"]) / reachable_share(row["ceiling"] == "measured")


def contiguous_sizes(row: Row) -> dict[str, int]:
    """The sizes along which memory is contiguous: those a kernel loads in vectors."""
    if row["family"] == "convolution":
        return {name: int(row[name]) for name in ("Cin", "Cout") if int(row[name]) > 8}
    layout = str(row["layout"])
    names = {"K" if layout[:1] == "n" else "M", "N" if layout[1:] == "n" else "K", "N"}
    return {name: int(row[name]) for name in sorted(names)}


def odd_sizes(row: Row) -> dict[str, int]:
    """The contiguous sizes that the dtype's vectors do not divide."""
    need = ALIGNMENT.get(row["dtype"], 1)
    if row["family"] not in ("gemm", "convolution") or (row["dtype"] == "fp32" and row["unit"] != "matrix tf32"):
        return {}
    return {name: size for name, size in contiguous_sizes(row).items() if size % need and size > 1}


def misaligned(facts: Facts) -> Iterator[Finding]:
    """One finding per odd size, or sizes that meet in one product: those are mended together."""
    groups: list[tuple[set[int], list[Row]]] = []
    for row in slow_matrix_rows(facts):
        sizes = set(odd_sizes(row).values())
        if not sizes:
            continue
        touching = [group for group in groups if group[0] & sizes and group[1][0]["dtype"] == row["dtype"]]
        groups = [group for group in groups if group not in touching]
        rows = [member for group in touching for member in group[1]]
        groups.append((sizes.union(*(group[0] for group in touching)), [*rows, row]))
    for sizes, rows in groups:
        yield _misaligned(facts, sorted(sizes, reverse=True), rows)


def _misaligned(facts: Facts, sizes: list[int], rows: list[Row]) -> Finding:
    dtype, need = rows[0]["dtype"], ALIGNMENT[rows[0]["dtype"]]
    evidence = [to_evidence(facts, row, row["total_us"] - row["count"] * _padded_us(row)) for row in rows]
    gain = summed(evidence)
    listed = ", ".join(map(str, sizes))
    kind = "GEMM" if rows[0]["family"] == "gemm" else "convolution"
    return Finding(
        "WL201",
        f"{len(rows)} {kind}{'s' * (len(rows) > 1)} with the odd size{'s' * (len(sizes) > 1)} {listed} "
        f"run{'s' * (len(rows) == 1)} on slow kernels",
        gain,
        facts.share_of_time(gain),
        False,
        row_place(rows[0]),
        f"{facts.total_ms(rows):.2f} ms at {_rates(rows)} can be reached: {rows[0]['kernel_short']}",
        facts.advice("WL201", paddings=_paddings(sizes, need), dtype=dtype),
        rows=tuple(evidence),
    )


def _padded_us(row: Row) -> float:
    """The time one call would take with its odd sizes padded."""
    need = ALIGNMENT[row["dtype"]]
    grown = 1.0
    for size in odd_sizes(row).values():
        grown *= _padded(size, need)[-1] / size
    return reachable_us(row) * grown


def _padded(size: int, need: int) -> list[int]:
    """The next multiple of `need`, and that of 64 where it is near enough."""
    padded, good = (math.ceil(size / multiple) * multiple for multiple in (need, GOOD_MULTIPLE))
    return [padded, good] if padded < good <= MOST_PADDING * size else [padded]


def _paddings(sizes: list[int], need: int) -> str:
    if len(sizes) == 1:
        texts = zip(_padded(sizes[0], need), (need, GOOD_MULTIPLE), strict=False)
        return f"{sizes[0]} to " + ", or ".join(f"{size}, a multiple of {multiple}" for size, multiple in texts)
    each = [f"{size} to {' or '.join(map(str, _padded(size, need)))}" for size in sizes]
    return f"{', '.join(each[:-1])} and {each[-1]} (multiples of {need} or {GOOD_MULTIPLE})"


def _rates(rows: list[Row]) -> str:
    """What the rows reach and what they could, as FLOPs or, where memory is the limit of all, as bytes."""
    name, amount, unit = ("tflops", "flop", "TFLOP/s")
    if all(row["bound"] == "memory" for row in rows):
        name, amount, unit = ("tbps", "bytes", "TB/s")
    digits = 0 if unit == "TFLOP/s" else 2
    slowest, fastest = (f"{limit(row[name] for row in rows):.{digits}f}" for limit in (min, max))
    expected = sum(row[amount] for row in rows) / sum(reachable_us(row) for row in rows) / 1e6
    seen = slowest if slowest == fastest else f"{slowest}–{fastest}"
    return f"{seen} {unit} where {expected:.{digits}f}"


def plain_fp32(facts: Facts) -> Iterator[Finding]:
    """fp32 products on the vector units of a GPU whose matrix units do TF32."""
    rate = facts.reachable_tflops("tf32")
    evidence = []
    for row in facts.roofline:
        if row["family"] not in MATRIX_FAMILIES or row["unit"] not in ("vector fp32", "matrix fp32"):
            continue
        least = max(row["flop"] / rate / 1e6, row["bytes"] / facts.reachable_tbps / 1e6) if rate else math.inf
        gain = row["total_us"] - row["count"] * least
        if gain > 0:
            evidence.append(to_evidence(facts, row, gain))
    gain = summed(evidence)
    if not evidence:
        return
    time = sum(row.time_ms for row in evidence)
    yield Finding(
        "WL202",
        f"fp32 matrix products without TF32 take {facts.share_of_time(time):.0f} % of the time",
        gain,
        facts.share_of_time(gain),
        False,
        evidence[0].place,
        f"{time:.2f} ms; TF32 would reach about {rate:.0f} TFLOP/s here",
        facts.advice("WL202"),
        rows=tuple(evidence[:8]),
    )


def legacy_kernels(facts: Facts) -> Iterator[Finding]:
    """Kernels built for an older architecture, on matrix work, without another reason to be slow."""
    own = _sm(facts.architecture)
    rows = []
    for row in slow_matrix_rows(facts):
        built_for = _sm(row["arch"])
        explained = row["unit"].endswith("fp32") or odd_sizes(row)
        if own and built_for and built_for // 10 < own // 10 and not explained:
            rows.append(row)
    if not rows:
        return
    evidence = [to_evidence(facts, row, row["total_us"] - row["count"] * reachable_us(row)) for row in rows]
    gain = summed(evidence)
    built = ", ".join(sorted({row["arch"] for row in rows}))
    yield Finding(
        "WL203",
        f"kernels built for {built} run on {facts.architecture}",
        gain,
        facts.share_of_time(gain),
        True,
        row_place(rows[0]),
        f"{len(rows)} products or convolutions, {facts.total_ms(rows):.2f} ms, e.g. {rows[0]['kernel_short']}",
        facts.advice("WL203"),
        rows=tuple(evidence[:8]),
    )


def _sm(arch: str) -> int:
    match = re.fullmatch(r"sm_?(\d{2,3})", arch)
    return int(match[1]) if match else 0


ON_SCORES: Final = ("softmax", "pointwise", "cast", "copy")
"""Families of the ops that work on a stored score matrix."""


class Attention(NamedTuple):
    """The ops on the score matrices of one size, and the share of their time that a fused kernel saves."""

    elements: int
    products: list[Row]
    others: list[Row]
    saved: float

    @property
    def rows(self) -> list[Row]:
        return [*self.products, *self.others]

    @property
    def place(self) -> str:
        return row_place(max(self.rows, key=lambda row: float(row["total_us"])))


def unfused_attention(facts: Facts) -> Iterator[Finding]:
    """Products, scaling, mask, softmax, dropout on one and the same score matrix: a fused kernel never stores it.

    Attention over a growing cache has scores of another size in each step: one place, one finding.
    """
    found: dict[str, list[Attention]] = {}
    for elements in sorted(facts.score_sizes, reverse=True):
        attention = _attention(facts, elements)
        found.setdefault(attention.place, []).append(attention)
    yield from (_unfused(facts, place, parts) for place, parts in found.items())


def _attention(facts: Facts, elements: int) -> Attention:
    products = [row for row in facts.roofline if row["family"] == "gemm" and touches(row, elements)]
    others = [row for row in facts.roofline if row["family"] in ON_SCORES and row.get("elements") == str(elements)]
    rate = facts.ceilings.get(("matrix", products[0]["dtype"]), (0.0, False))[0] * THRESHOLDS["reachable_attention"]
    total = sum(row["total_us"] for row in products + others)
    flop = sum(row["flop"] * row["count"] for row in products)
    # Without a known GPU: the products stay, everything on the score matrix goes.
    fused = flop / rate / 1e6 if rate else sum(row["total_us"] for row in products)
    if facts.reachable_tbps:  # with few queries it is not the arithmetic that takes time, but to read keys and values
        fused = max(fused, sum(_bytes_beside(row, elements) for row in products) / facts.reachable_tbps / 1e6)
    return Attention(elements, products, others, max(0.0, 1 - fused / total) if total else 0.0)


def _bytes_beside(product: Row, scores: int) -> float:
    """What all calls of a product move besides the scores."""
    batch, m, n, k = (int(product[name]) for name in ("B", "M", "N", "K"))
    elements = batch * (m * n + m * k + k * n) - scores
    return float(product["count"] * elements * ITEM_BYTES.get(product["dtype"], 0.0))


def _unfused(facts: Facts, place: str, parts: list[Attention]) -> Finding:
    gain = sum(part.saved * facts.total_ms(part.rows) for part in parts)
    time = sum(facts.total_ms(part.rows) for part in parts)
    products, others = (sum(len(rows) for rows in each) for each in zip(*(part[1:3] for part in parts), strict=True))
    sizes = f"{parts[0].elements:,} scores" if len(parts) == 1 else f"score matrices of {len(parts)} sizes"
    largest = sorted(((row, part.saved) for part in parts for row in part.rows), key=lambda pair: -pair[0]["total_us"])
    return Finding(
        "WL204",
        "attention is computed in parts: products and softmax on stored scores",
        gain,
        facts.share_of_time(gain),
        False,
        place,
        f"{time:.2f} ms over {products} products and {others} ops on {sizes}",
        facts.advice("WL204"),
        rows=tuple(to_evidence(facts, row, saved * row["total_us"]) for row, saved in largest[:8]),
    )


def mask_tensor(facts: Facts) -> Iterator[Finding]:
    """Attention that reads a square mask, which a flag could say if it is causal."""
    rows = [row for row in facts.roofline if row["family"] == "attention" and row["mask"] == "tensor"]
    square = [row for row in rows if row["Nq"] == row["Nkv"] and int(row["Nq"]) > 1]
    if not square:
        return
    evidence = [to_evidence(facts, row, row["total_us"] / 2) for row in square]
    gain = summed(evidence)
    yield Finding(
        "WL213",
        "attention is given its mask as a tensor",
        gain,
        facts.share_of_time(gain),
        True,
        row_place(square[0]),
        f"{facts.total_ms(square):.2f} ms in attention on {square[0]['Nq']} × {square[0]['Nkv']} scores with a mask",
        facts.advice("WL213"),
        rows=tuple(evidence[:8]),
    )

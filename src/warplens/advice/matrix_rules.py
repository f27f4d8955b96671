"""Rules on matrix work: products, convolutions and attention that run below what the GPU's matrix units do."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import msgspec

from warplens.advice.evidence import op_evidence, summed
from warplens.advice.figures import TraceFigures, reachable_share
from warplens.advice.rows import OpRow
from warplens.advice.thresholds import ALIGNMENT, GOOD_MULTIPLE, THRESHOLDS
from warplens.analyses.work.attention import MATRIX_FAMILIES
from warplens.costs.tensors import ITEM_BYTES
from warplens.model.edits import FuseWork, ScaleWork, WorkOfRows
from warplens.model.finding import Evidence, Finding
from warplens_run.base.units import listed, plural

TRIANGLES: Final = ("aten::triu", "aten::tril", "aten::triu_", "aten::tril_")
FUSED_CALLS: Final = 2
"""A call of fused attention takes the host about 40 µs, as long as two products (PyTorch 2.11, three programs)."""
MOST_PADDING: Final = 1.125
"""Padding to a multiple of 64 is not advised where it makes a size larger than this."""


def slow_matrix_ops(figures: TraceFigures) -> list[OpRow]:
    """Matrix work that is long enough to matter and below half of its limit; products on scores are WL204's."""
    return [
        op
        for op in figures.ops
        if op.family in MATRIX_FAMILIES
        and op.is_below(THRESHOLDS.slow_matrix_percent)
        and op.limit_us >= THRESHOLDS.least_matrix_us
        and not op.is_on_scores
    ]


def reachable_us(op: OpRow) -> float:
    """The time one call would take close to its limit."""
    return op.limit_us / reachable_share(op.ceiling == "measured")


def contiguous_sizes(op: OpRow) -> dict[str, int]:
    """The sizes along which memory is contiguous: those a kernel loads in vectors."""
    if op.family == "convolution":
        return {name: op.size(name) for name in ("Cin", "Cout") if op.size(name) > 8}
    layout = op.param("layout")
    names = {"K" if layout[:1] == "n" else "M", "N" if layout[1:] == "n" else "K", "N"}
    return {name: op.size(name) for name in sorted(names)}


def unaligned_sizes(op: OpRow) -> dict[str, int]:
    """The contiguous sizes that the dtype's vectors do not divide."""
    need = ALIGNMENT.get(op.dtype, 1)
    if op.family not in ("gemm", "convolution") or (op.dtype == "fp32" and op.unit != "matrix tf32"):
        return {}
    return {name: size for name, size in contiguous_sizes(op).items() if size % need and size > 1}


class UnalignedSizes(msgspec.Struct, frozen=True):
    """Unaligned sizes that meet in one product, and the ops that have any of them."""

    sizes: set[int]
    ops: list[OpRow]


def misaligned(figures: TraceFigures) -> Iterator[Finding]:
    """One finding per unaligned size, or sizes that meet in one product: those are fixed together."""
    groups: list[UnalignedSizes] = []
    for op in slow_matrix_ops(figures):
        sizes = set(unaligned_sizes(op).values())
        if not sizes:
            continue
        touching = [group for group in groups if group.sizes & sizes and group.ops[0].dtype == op.dtype]
        groups = [group for group in groups if group not in touching]
        ops = [member for group in touching for member in group.ops]
        groups.append(UnalignedSizes(sizes.union(*(group.sizes for group in touching)), [*ops, op]))
    for group in groups:
        yield _misaligned(figures, sorted(group.sizes, reverse=True), group.ops)


def _misaligned(figures: TraceFigures, sizes: list[int], ops: list[OpRow]) -> Finding:
    first = ops[0]
    gains_us = [op.total_us - op.count * _padded_us(op) for op in ops]
    rows = [op_evidence(figures, op, gain_us) for op, gain_us in zip(ops, gains_us, strict=True)]
    counted = plural(len(ops), "GEMM" if first.family == "gemm" else "convolution")
    unaligned = f"unaligned {'size' if len(sizes) == 1 else 'sizes'} {', '.join(map(str, sizes))}"
    return figures.finding(
        "WL201",
        title=f"{counted} with the {unaligned} {'runs' if len(ops) == 1 else 'run'} on slow kernels",
        gain_ms=summed(rows),
        place=first.place,
        evidence=f"{figures.total_ms(ops):.2f} ms at {_rates(ops)} can be reached: {first.kernel_short}",
        advice=figures.advice("WL201", paddings=_paddings(sizes, ALIGNMENT[first.dtype]), dtype=first.dtype),
        rows=rows,
        edits=(op.saving(gain_us) for op, gain_us in zip(ops, gains_us, strict=True)),
    )


def _padded_us(op: OpRow) -> float:
    """The time one call would take with its unaligned sizes padded."""
    need = ALIGNMENT[op.dtype]
    grown = 1.0
    for size in unaligned_sizes(op).values():
        grown *= _padded(size, need)[-1] / size
    return reachable_us(op) * grown


def _padded(size: int, need: int) -> list[int]:
    """The next multiple of `need`, and that of 64 where it is near enough."""
    padded, good = (math.ceil(size / multiple) * multiple for multiple in (need, GOOD_MULTIPLE))
    return [padded, good] if padded < good <= MOST_PADDING * size else [padded]


def _paddings(sizes: list[int], need: int) -> str:
    if len(sizes) == 1:
        texts = zip(_padded(sizes[0], need), (need, GOOD_MULTIPLE), strict=False)
        return f"{sizes[0]} to " + ", or ".join(f"{size}, a multiple of {multiple}" for size, multiple in texts)
    paddings = [f"{size} to {' or '.join(map(str, _padded(size, need)))}" for size in sizes]
    return f"{listed(paddings)} (multiples of {need} or {GOOD_MULTIPLE})"


def _rates(ops: list[OpRow]) -> str:
    """What the ops reach and what they could, as FLOPs or, where memory is the limit of all, as bytes."""
    by_memory = all(op.bound == "memory" for op in ops)
    unit, digits = ("TB/s", 2) if by_memory else ("TFLOP/s", 0)
    rates = [op.tbps if by_memory else op.tflops for op in ops]
    amount = sum(op.bytes if by_memory else op.flop for op in ops)
    expected = amount / sum(reachable_us(op) for op in ops) / 1e6
    slowest, fastest = f"{min(rates):.{digits}f}", f"{max(rates):.{digits}f}"
    measured = slowest if slowest == fastest else f"{slowest}–{fastest}"
    return f"{measured} {unit} where {expected:.{digits}f}"


def plain_fp32(figures: TraceFigures) -> Iterator[Finding]:
    """fp32 products on the vector units of a GPU whose matrix units do TF32."""
    rate = figures.reachable_tflops("tf32")
    rows, edits = [], []
    for op in figures.ops:
        if not _could_use_tf32(op):
            continue
        gain_us = op.total_us - op.count * _tf32_us(figures, op)
        if gain_us > 0:
            rows.append(op_evidence(figures, op, gain_us))
            edits.append(op.saving(gain_us))
    if not rows:
        return
    time_ms = sum(row.time_ms for row in rows)
    yield figures.finding(
        "WL202",
        title="fp32 matrix products run without TF32",
        gain_ms=summed(rows),
        place=rows[0].place,
        evidence=f"{time_ms:.2f} ms; TF32 would reach about {rate:.0f} TFLOP/s here",
        rows=rows[:8],
        edits=edits,
    )


def _could_use_tf32(op: OpRow) -> bool:
    return op.family in MATRIX_FAMILIES and op.unit in ("vector fp32", "matrix fp32")


def _tf32_us(figures: TraceFigures, op: OpRow) -> float:
    """The least time of one call with TF32; infinite where the GPU has none."""
    rate = figures.reachable_tflops("tf32")
    return max(op.flop / rate / 1e6, op.bytes / figures.reachable_tbps / 1e6) if rate else math.inf


def legacy_kernels(figures: TraceFigures) -> Iterator[Finding]:
    """Kernels built for an older architecture, on matrix work, without another reason to be slow."""
    own = _sm(figures.architecture)
    ops = []
    for op in slow_matrix_ops(figures):
        built_for = _sm(op.arch)
        explained = op.unit.endswith("fp32") or unaligned_sizes(op)
        if own and built_for and built_for // 10 < own // 10 and not explained:
            ops.append(op)
    if not ops:
        return
    rows = [op_evidence(figures, op, op.total_us - op.count * reachable_us(op)) for op in ops]
    yield figures.finding(
        "WL203",
        title=f"kernels built for {', '.join(sorted({op.arch for op in ops}))} run on {figures.architecture}",
        gain_ms=summed(rows),
        bound=True,
        place=ops[0].place,
        evidence=f"{plural(len(ops), 'product or convolution', 'products or convolutions')}, "
        f"{figures.total_ms(ops):.2f} ms, e.g. {ops[0].kernel_short}",
        rows=rows[:8],
        edits=(op.saving(op.total_us - op.count * reachable_us(op)) for op in ops),
    )


def _sm(arch: str) -> int:
    match = re.fullmatch(r"sm_?(\d{2,3})", arch)
    return int(match[1]) if match else 0


class UnfusedAttention(msgspec.Struct, frozen=True):
    """The ops on the score matrices of one size, and the share of their time that a fused kernel saves."""

    elements: int
    products: list[OpRow]
    others: list[OpRow]
    saved: float
    """Below 0 where the fused kernel takes longer."""

    @property
    def ops(self) -> list[OpRow]:
        return [*self.products, *self.others]

    @property
    def place(self) -> str:
        return max(self.ops, key=lambda op: op.scores_us).place

    @property
    def work(self) -> WorkOfRows:
        """The GPU events of the ops most of whose time is on scores."""
        return WorkOfRows(OpRow.table, tuple(op.row for op in self.ops if op.is_on_scores))


def unfused_attention(figures: TraceFigures) -> Iterator[Finding]:
    """Products, scaling, mask, softmax, dropout on one and the same score matrix: a fused kernel never stores it.

    Attention over a growing cache has scores of another size in each step: one place, one finding.
    """
    by_place: dict[str, list[UnfusedAttention]] = {}
    for elements in sorted(figures.score_sizes, reverse=True):
        attention = _attention(figures, elements)
        by_place.setdefault(attention.place, []).append(attention)
    yield from (_unfused(figures, place, parts) for place, parts in by_place.items())


def _attention(figures: TraceFigures, elements: int) -> UnfusedAttention:
    ops = [op for op in figures.ops if op.scores == elements]
    products = [op for op in ops if op.family == "gemm"]
    others = [op for op in ops if op.family != "gemm"]
    total_us = sum(op.scores_us for op in ops)
    fused_us = _fused_us(figures, elements, products, others)
    # Without a known GPU: the products stay, everything on the score matrix goes.
    fused_us = sum(op.scores_us for op in products) if fused_us is None else fused_us
    if figures.reachable_tbps:  # with few queries it is not the arithmetic that takes time, but to read keys and values
        fused_us = max(fused_us, sum(_bytes_beside(op, elements) for op in products) / figures.reachable_tbps / 1e6)
    return UnfusedAttention(elements, products, others, 1 - fused_us / total_us if total_us else 0.0)


def _fused_us(figures: TraceFigures, elements: int, products: list[OpRow], others: list[OpRow]) -> float | None:
    """The time of fused calls for the products' arithmetic, by number type; None for an unknown GPU.

    TF32 does not count: what is given to a fused kernel in fp32, it computes in fp32.
    """
    dtype = products[0].dtype
    flop = sum(op.flop * op.count * op.scores_share for op in products)
    writers = [op for op in products if op.size("B") * op.size("M") * op.size("N") == elements]
    width, length = max((op.size("K"), op.size("N")) for op in writers or products)
    # Backward there are four products to each softmax, forward two.
    softmaxes = [(op.param("pass") == "backward", op.count) for op in others if op.family == "softmax"]
    passes = [sum(count for of_pass, count in softmaxes if of_pass == is_backward) for is_backward in (False, True)]
    backward_flop = flop * 2 * passes[1] / max(1, passes[0] + 2 * passes[1])
    measured = [fused for fused in figures.fused_attention if dtype in fused.dtypes]
    if measured:
        return min(
            (flop - backward_flop) / fused.tflops(width, length, backward=False)
            + backward_flop / fused.tflops(width, length, backward=True)
            for fused in measured
        ) / 1e6  # fmt: skip
    if dtype == "fp32":
        rate = THRESHOLDS.reachable_fp32_attention * figures.ceiling("vector", "fp32").value
    else:
        rate = THRESHOLDS.reachable_attention * figures.ceiling("matrix", dtype).value
    return flop / rate / 1e6 if rate else None


def _bytes_beside(product: OpRow, scores: int) -> float:
    """What the calls of a product on scores move besides them."""
    batch, m, n, k = (product.size(name) for name in "BMNK")
    elements = batch * (m * n + m * k + k * n) - scores
    return float(product.scores_share * product.count * elements * ITEM_BYTES.get(product.dtype, 0.0))


def _unfused(figures: TraceFigures, place: str, parts: list[UnfusedAttention]) -> Finding:
    time_ms = sum(_scores_ms(figures, op) for part in parts for op in part.ops)
    gain_ms = sum(part.saved * _scores_ms(figures, op) for part in parts for op in part.ops)
    products, others = (
        sum(map(len, ops)) for ops in zip(*((part.products, part.others) for part in parts), strict=True)
    )
    sizes = f"{parts[0].elements:,} scores" if len(parts) == 1 else f"score matrices of {len(parts)} sizes"
    largest = sorted(((op, part.saved) for part in parts for op in part.ops), key=lambda pair: -pair[0].scores_us)
    return figures.finding(
        "WL204",
        title="attention is not fused: products and softmax on stored scores",
        gain_ms=max(0.0, gain_ms),
        place=place,
        evidence=f"{time_ms:.2f} ms over {products} products and {others} ops on {sizes}{_beside_tf32(figures, parts)}",
        rows=(_score_evidence(figures, op, saved) for op, saved in largest[:8]),
        edits=[
            *(FuseWork(part.work, 1 - part.saved, FUSED_CALLS) for part in parts),
            *(ScaleWork(op.work, 0.0, with_host=True) for part in parts for op in _causal_masks(figures, part)),
        ],
    )


def _beside_tf32(figures: TraceFigures, parts: list[UnfusedAttention]) -> str:
    """Says where a fused call, which computes in fp32, takes longer than the TF32 products that WL202 advises."""
    lost_ms = 0.0
    for part in parts:
        tf32_ms = sum(
            min(1.0, op.count * _tf32_us(figures, op) / op.total_us) * _scores_ms(figures, op)
            for op in part.products
            if _could_use_tf32(op)
        )
        if not tf32_ms:
            return ""
        others_ms = sum(_scores_ms(figures, op) for op in part.others)
        fused_ms = (1 - part.saved) * sum(_scores_ms(figures, op) for op in part.ops)
        lost_ms += fused_ms - tf32_ms - others_ms
    if lost_ms <= 0:
        return ""
    return f"; not beside WL202: the fused kernel computes in fp32, {lost_ms:.2f} ms slower than TF32 products"


def _causal_masks(figures: TraceFigures, attention: UnfusedAttention) -> list[OpRow]:
    """What makes a square mask for each of these calls: a fused kernel takes a flag instead."""
    sizes = {op.size("M") * op.size("N") for op in attention.products}
    triangles = [op for op in figures.ops if op.op in TRIANGLES and op.size("elements") in sizes]
    made_for = {(op.size("elements"), op.count) for op in triangles}
    filled = [op for op in figures.ops if op.family == "fill" and (op.size("elements"), op.count) in made_for]
    return [*triangles, *filled]


def _scores_ms(figures: TraceFigures, op: OpRow) -> float:
    return figures.per_step_ms(op.scores_us, op)


def _score_evidence(figures: TraceFigures, op: OpRow, saved: float) -> Evidence:
    """Only the calls on scores: the same op may do as much elsewhere."""
    evidence = op_evidence(figures, op, saved * op.scores_us)
    return replace(evidence, time_ms=_scores_ms(figures, op), count=round(op.count * op.scores_share))


def mask_tensor(figures: TraceFigures) -> Iterator[Finding]:
    """Attention that reads a square mask, which a flag could say if it is causal."""
    masked = [op for op in figures.ops if op.family == "attention" and op.param("mask") == "tensor"]
    square = [op for op in masked if op.size("Nq") == op.size("Nkv") and op.size("Nq") > 1]
    if not square:
        return
    rows = [op_evidence(figures, op, op.total_us / 2) for op in square]
    scores = f"{square[0].size('Nq')} × {square[0].size('Nkv')} scores"
    yield figures.finding(
        "WL213",
        title="attention is given its mask as a tensor",
        gain_ms=summed(rows),
        bound=True,
        place=square[0].place,
        evidence=f"{figures.total_ms(square):.2f} ms in attention on {scores} with a mask",
        rows=rows[:8],
        edits=(op.saving(op.total_us / 2) for op in square),
    )

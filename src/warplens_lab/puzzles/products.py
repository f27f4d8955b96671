"""Exercises on products of matrices: tiles, a fused layer, weights of 8 and 4 bits, attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from warplens_lab.puzzles.drawing import Draw, cdiv, unwritten
from warplens_lab.puzzles.records import Case, Goal, Puzzle, sizes


def _loaded_by_tiles(a: Any, b: Any, block: int) -> int:
    """Bytes that tiles of the product must load: each row of `a` once per tile column, each column of `b` per row."""
    return int(a.nbytes * cdiv(b.shape[1], block) + b.nbytes * cdiv(a.shape[0], block))


def _down_the_rows(name: str, block: int, values: Any, applied: Callable[[Any], Any]) -> dict[str, Any]:
    """What comes out if values that belong to columns are put beside the rows of each tile."""
    import torch

    rows, columns = applied(values).shape
    lanes = torch.arange(columns)[None, :] // block * block + torch.arange(rows)[:, None] % block
    if int(lanes.max()) >= len(values):
        return {}  # what lanes past the end hold is not known
    return {
        f"{name}[:, None] goes down the rows of the tile, and belongs to its columns: [None, :]": applied(values[lanes])
    }


def _matmul(draw: Draw, m: int, n: int, k: int, block: int) -> Case:
    a, b = draw.normal(m, k), draw.normal(k, n)
    wide_a, wide_b = a.double(), b.double()
    full, last = k // block * block, (k - 1) // block * block
    return Case(
        (cdiv(m, block), cdiv(n, block)),
        {
            "a_ptr": a,
            "b_ptr": b,
            "c_ptr": unwritten(m, n),
            "m": m,
            "n": n,
            "k": k,
            "BLOCK_M": block,
            "BLOCK_N": block,
            "BLOCK_K": block,
        },
        {"c_ptr": wide_a @ wide_b},
        mistakes={
            "only the first BLOCK_K columns of a and rows of b are multiplied": wide_a[:, :block] @ wide_b[:block],
            "the last step along k, which is not full, is omitted": wide_a[:, :full] @ wide_b[:full],
            "only the last step along k counts: c is not added up": wide_a[:, last:] @ wide_b[last:],
            "the loop counts steps, and the offsets along k lack · BLOCK_K": sum(
                (wide_a[:, at : at + block] @ wide_b[at : at + block] for at in range(k // block)), 0 * wide_a @ wide_b
            ),
        },
        least_loaded=_loaded_by_tiles(a, b, block),
        flop=2 * m * n * k,
    )


def _linear(draw: Draw, m: int, n: int, k: int, block: int, group: int) -> Case:
    x, w = draw.normal(m, k, dtype="float16"), draw.normal(k, n, dtype="float16", scale=k**-0.5)
    b = draw.normal(n, dtype="float16")
    product, bias = x.double() @ w.double(), b.double()
    return Case(
        (cdiv(m, block) * cdiv(n, block),),
        {
            "x_ptr": x,
            "w_ptr": w,
            "b_ptr": b,
            "y_ptr": unwritten(m, n, dtype="float16"),
            "m": m,
            "n": n,
            "k": k,
            "BLOCK": block,
            "GROUP": group,
        },
        {"y_ptr": (product + bias).relu()},
        mistakes={
            "neither b nor the maximum with 0 is applied": product,
            "b is not added": product.relu(),
            "the maximum with 0 is not taken": product + bias,
            "the maximum with 0 is taken before b is added": product.relu() + bias,
            **_down_the_rows("b", block, bias, lambda b: (product + b).relu()),
        },
        least_loaded=_loaded_by_tiles(x, w, block) + b.nbytes * cdiv(m, block),
        flop=2 * m * n * k + 2 * m * n,
        tolerance=4e-3,
    )


def _int8_matmul(draw: Draw, m: int, n: int, k: int, block: int) -> Case:
    a = draw.normal(m, k, dtype="float16")
    w = draw.integers(-127, 128, k, n, dtype="int8")
    scale = draw.normal(n).abs() / 64 + 0.002
    plain = a.double() @ w.double()
    return Case(
        (cdiv(m, block), cdiv(n, block)),
        {
            "a_ptr": a,
            "w_ptr": w,
            "scale_ptr": scale,
            "c_ptr": unwritten(m, n),
            "m": m,
            "n": n,
            "k": k,
            "BLOCK": block,
        },
        {"c_ptr": plain * scale.double()},
        mistakes={
            "the scales are not applied": plain,
            "the scales are applied twice": plain * scale.double() ** 2,
            **_down_the_rows("the scales", block, scale.double(), lambda scales: plain * scales),
        },
        least_loaded=_loaded_by_tiles(a, w, block) + scale.nbytes * cdiv(m, block),
        flop=2 * m * n * k + m * n,
        tolerance=1e-3,
    )


def _int4_matmul(draw: Draw, m: int, n: int, k: int, group: int, block: int) -> Case:
    import torch

    a = draw.normal(m, k, dtype="float16")
    stored = draw.integers(0, 16, k, n, dtype="uint8")
    packed = stored[0::2] | (stored[1::2] << 4)
    scale = draw.normal(k // group, n).abs() / 8 + 0.02
    spread = scale.double().repeat_interleave(group, 0)
    wide, whole = a.double(), stored.double() - 8
    swapped = torch.stack([whole[1::2], whole[0::2]], 1).reshape(k, n)
    low_only = whole[0::2].repeat_interleave(2, 0)
    odd_rows = (torch.arange(k) % 2)[:, None]
    return Case(
        (cdiv(m, block), cdiv(n, block)),
        {
            "a_ptr": a,
            "w_ptr": packed,
            "scale_ptr": scale,
            "c_ptr": unwritten(m, n),
            "m": m,
            "n": n,
            "k": k,
            "GROUP": group,
            "BLOCK": block,
        },
        {"c_ptr": wide @ (whole * spread)},
        mistakes={
            "both weights of a byte are taken from its low half": wide @ (low_only * spread),
            "both weights of a byte are taken from its low half, and the scales are not applied": wide @ low_only,
            "the two halves of each byte are swapped: the low one is the even row": wide @ (swapped * spread),
            "both halves of a byte meet the even columns of a": wide[:, 0::2].repeat_interleave(2, 1)
            @ (whole * spread),
            "8 is not subtracted from the stored weights": wide @ (stored.double() * spread),
            "8 is subtracted from the low halves only": wide @ ((whole + odd_rows * 8) * spread),
            "8 is subtracted from the high halves only": wide @ ((whole + (1 - odd_rows) * 8) * spread),
            "every group is scaled as the first one": wide @ (whole * scale[0].double()),
            "the scales are not applied": wide @ whole,
        },
        least_loaded=_loaded_by_tiles(a, packed, block) + scale.nbytes * cdiv(m, block),
        tolerance=1e-3,
    )


def _not_rescaled(scores: Any, values: Any, block: int) -> dict[str, Any]:
    """What comes out if the sum, the results or both stay relative to the maximum of earlier blocks."""
    import torch

    parts = scores.split(block, dim=2)
    tops = torch.stack([part.amax(2) for part in parts]).cummax(0).values
    pieces = list(zip(parts, values.split(block, dim=1), tops, strict=True))
    late = (scores - tops[-1][:, :, None]).exp()
    total, result = late.sum(2, keepdim=True), late @ values
    early_total = sum((part - top[:, :, None]).exp().sum(2, keepdim=True) for part, _, top in pieces)
    early_result = sum((part - top[:, :, None]).exp() @ value for part, value, top in pieces)
    when = "when a later block raises the maximum"
    return {
        f"the results so far are not rescaled {when}": early_result / total,
        f"the sum so far is not rescaled {when}": result / early_total,
        f"neither the sum nor the results so far are rescaled {when}": early_result / early_total,
    }


def _attention(draw: Draw, heads: int, length: int, width: int, block: int, causal: bool) -> Case:
    import torch

    q, k, v = (draw.normal(heads, length, width) for _ in range(3))
    scale = width**-0.5
    scores = q.double() @ k.double().transpose(1, 2)
    future = torch.ones(length, length).triu(1).bool() & causal

    def attended(values: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        return values.masked_fill(hidden, -float("inf")).softmax(2) @ v.double()

    blocks = cdiv(length, block)
    padding = blocks * block - length
    empty = torch.nn.functional.pad(scores * scale, (0, padding)).softmax(2)[:, :, :length] @ v.double()
    first = attended(scores * scale, torch.arange(length)[None, :] >= block)
    masked_scores = (scores * scale).masked_fill(future, -float("inf"))
    mistakes = {
        **_not_rescaled(masked_scores, v.double(), block),
        "only the first block of keys is used": first,
        "the scores are not multiplied by scale": attended(scores, future),
        **({"keys past the end count too, with a score of 0": empty} if padding and not causal else {}),
    }
    if causal:
        mistakes |= {
            "keys after the query count too: CAUSAL is ignored": attended(scores * scale, future & False),
            "the query's own key is hidden too: keys up to and including its own count": attended(
                scores * scale, torch.ones(length, length).triu(0).bool()
            ),
        }
    keys = sum(min((at + 1) * block, length) if causal else length for at in range(blocks))
    return Case(
        (blocks, heads),
        {
            "q_ptr": q,
            "k_ptr": k,
            "v_ptr": v,
            "out_ptr": unwritten(heads, length, width),
            "scale": scale,
            "length": length,
            "WIDTH": width,
            "BLOCK": block,
            "CAUSAL": causal,
        },
        {"out_ptr": attended(scores * scale, future)},
        mistakes=mistakes,
        least_loaded=q.nbytes + 2 * heads * keys * width * q.element_size(),
        tolerance=1e-3,
    )


PUZZLES: Final = (
    Puzzle(
        12, "matmul", "medium", "a product of two matrices, one tile per program",
        "a loop along k, tl.dot, masks on both sides of a tile",
        (
            "A tile of c is a sum over k: rows of a times columns of b, BLOCK_K at a time.",
            "Move both tiles along k: the columns of a and the rows of b are start + 0 … BLOCK_K − 1.",
            "The load of a is masked by rows < m and along k, that of b along k and by columns < n, both other=0.0.",
        ),
        _matmul,
        (
            sizes(m=32, n=32, k=48, block=16),
            sizes("no side is a multiple of the block", m=40, n=24, k=36, block=16),
            sizes("k is shorter than a block", m=16, n=20, k=10, block=16),
        ),
        Goal("loaded", 1.01, "each tile of a and of b is read once per tile of c"),
    ),
    Puzzle(
        13, "linear", "hard", "a layer in one kernel: relu(x @ w + b), its tiles in an order that suits the cache",
        "half precision with a float32 sum, an epilogue, the order of programs",
        (
            "Add b[None, :] and take tl.maximum(…, 0.0) after the loop, before the tile becomes float16.",
            "Neighbouring programs share tiles: 8 tiles in a line need 1 + 8 strips of x and w, 4 × 2 only 4 + 2.",
            "Groups of GROUP tile rows: group = id // (GROUP · tiles_n), within it go down the rows first. The last "
            "group may have fewer rows: size = min(tiles_m − group · GROUP, GROUP).",
        ),
        _linear,
        (
            sizes(m=32, n=48, k=32, block=16, group=2),
            sizes("no side is a multiple; the last group is short", m=72, n=40, k=24, block=16, group=2),
            sizes("large enough for the goal", m=128, n=128, k=32, block=16, group=4),
        ),
        Goal("wave", 0.40, "of what 8 neighbouring programs load, at most 40 % is distinct; the cache serves the rest"),
        measured=2,
    ),
    Puzzle(
        14, "attention", "hard", "attention without storing the scores, causal too",
        "two products in a loop, a softmax that grows with it",
        (
            "Per block of keys: scores = q · kᵀ · scale, then as in online_softmax, with a row of results for a sum.",
            "When the maximum rises, rescale both the sum and the results so far by exp(old − new).",
            "Scores of keys that do not count (past the end; after the query, if CAUSAL) become -inf first. "
            "A causal program needs no keys after its last query: end the loop there.",
        ),
        _attention,
        (
            sizes(heads=1, length=32, width=16, block=16, causal=False),
            sizes("the last block is not full", heads=2, length=40, width=16, block=16, causal=False),
            sizes("each query sees itself and what is before it", heads=2, length=40, width=16, block=16, causal=True),
        ),
        Goal("loaded", 1.01, "a causal program reads no block of keys that none of its queries may see"),
        measured=2,
    ),
    Puzzle(
        15, "int8_matmul", "hard", "a product with weights of 8 bits and a scale per column",
        "dequantising in the tile, what a scale per column allows",
        (
            "Load w as it is and make it float16 in the tile: w.to(tl.float16). Integers up to 127 are exact there.",
            "A column's scale is the same for all k, so it can wait until after the loop.",
            "acc * scale[None, :], with scale loaded once, masked by columns < n.",
        ),
        _int8_matmul,
        (
            sizes(m=32, n=32, k=48, block=16),
            sizes("no side is a multiple of the block", m=24, n=40, k=36, block=16),
        ),
        Goal("loaded", 1.01, "weights travel as bytes, scales once per tile"),
    ),
    Puzzle(
        16, "int4_matmul", "hard", "a product with weights of 4 bits, two in a byte, a scale per group of rows",
        "unpacking bits, scales that change along k",
        (
            "A step along k is one group: GROUP // 2 rows of bytes. Low half: byte & 15, high half: byte >> 4.",
            "The low halves meet the even columns of a, the high halves the odd ones: two dots of GROUP // 2 each.",
            "The scale of a group is applied to the group's own sum, before it joins the others.",
        ),
        _int4_matmul,
        (
            sizes(m=32, n=32, k=64, group=32, block=16),
            sizes("m and n are not multiples of the block", m=24, n=40, k=96, group=32, block=16),
        ),
        Goal("loaded", 1.01, "each packed byte is read once per tile, not once for each of its halves"),
    ),
)  # fmt: skip

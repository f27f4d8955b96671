"""Mixtures of experts: every token passes `top_k` experts of two products each.

At most min(experts, tokens · top_k) experts are visited, so the weights of that many move. Weights are packed in many
ways; how many numbers one stored element holds follows from the model's width, which is among their sizes.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from warplens.costs.cost import INNER_OPS, MATRIX, NO_WEIGHTS, OTHER_ARGUMENTS, Cost
from warplens.costs.tensors import Call, Tensor, product

FAMILY: Final = "moe"
OWN_EXPERT: Final = "each visit is taken to need an expert of its own"
ALL_EXPERTS: Final = "all experts are taken to be visited"
PADDED_ROWS: Final = "rows that only pad the groups of experts are counted"
NO_SCALES: Final = "scales of the weights are not recorded"
SHARED_OUT: Final = "experts of other ranks are taken to get their share of the visits"
FROM_BUFFERS: Final = "sizes are those of the layer's buffers; all experts are taken to be on this rank"
SURE_VISITS: Final = 5
"""With so many visits per expert, at random under one expert in a hundred is left out."""
PLAIN: Final = ("bf16", "fp16", "fp32")
PACKS: Final = {"fp4": (2,), "uint8": (2, 1), "int8": (1, 2), "int32": (8, 4, 16)}
"""Numbers in one stored element, the likeliest first."""
INDICES: Final = ("int32", "int64", "uint32", "int16")
BUFFER: Final = "aten::empty"
MOST_CHOSEN: Final = 64
_FORMAT: Final = r"(?:Mx)?E2m1|(?:Mx)?E4m3|Bfloat16|Fp16"
GENERATED: Final = re.compile(rf"bmm_(?P<out>{_FORMAT})_(?P<first>{_FORMAT})(?P<second>{_FORMAT})_Fp32_")
"""TensorRT-LLM's generated kernels: number formats of the result and of both factors."""
FORMAT_BYTES: Final = {
    # with a scale of one byte for 16 (E2m1) or 32 (Mx…) numbers
    "MxE2m1": 0.5 + 1 / 32, "E2m1": 0.5 + 1 / 16, "E4m3": 1.0, "MxE4m3": 1 + 1 / 32, "Bfloat16": 2.0, "Fp16": 2.0,
}  # fmt: skip
HALF_BYTES: Final = {"MxE2m1", "E2m1"}
WIDE_FORMATS: Final = ("Bfloat16", "Fp16")
MARLIN_TILE: Final = 16
"""Marlin's layout keeps 16 rows in one."""


class ExpertSizes(NamedTuple):
    experts: int
    width: int
    up: int
    """Columns of the first product: twice `inner` where it is gated."""
    inner: int


def expert_sizes(width: int, w1: Tensor, w2: Tensor) -> ExpertSizes | None:
    """What two stacks of weights say of a model that is `width` wide; None where they do not belong together.

    The first has the sizes width and `up`, the second `inner` and width, in either order, and one of them packed: the
    one that is summed over in both, or the other in both.

    >>> expert_sizes(3072, Tensor((32, 1536, 5888), "uint8"), Tensor((32, 1472, 3072), "uint8"))
    ExpertSizes(experts=32, width=3072, up=5888, inner=2944)
    """
    if len(w1.shape) != 3 or len(w2.shape) != 3 or w1.shape[0] != w2.shape[0] or not w1.shape[0] or not width:
        return None
    if w1.dtype == w2.dtype == "int32" and (marlin := _marlin_sizes(width, w1, w2)):
        return marlin
    for pack in PACKS.get(w1.dtype, (1,)):
        for summed, other in ((pack, 1), (1, pack)):
            for first, second in (w1.shape[1:], w1.shape[:0:-1]):
                up = second * other
                for inner in (up // 2, up):
                    sizes = {(inner, width), (width, inner)}
                    stored = [(w2.shape[1] * x, w2.shape[2] * y) for x, y in ((summed, other), (other, summed))]
                    if first * summed == width and inner > 0 and not sizes.isdisjoint(stored):
                        return ExpertSizes(w1.shape[0], width, up, inner)
    return None


def _marlin_sizes(width: int, w1: Tensor, w2: Tensor) -> ExpertSizes | None:
    """Marlin's layout: (K / 16, N · bits / 2)."""
    bits = 2 * w2.shape[2] / width
    up, inner = 2 * w1.shape[2] / bits if bits else 0.0, w2.shape[1] * MARLIN_TILE
    if w1.shape[1] * MARLIN_TILE != width or bits not in (4.0, 8.0) or up not in (inner, 2 * inner):
        return None
    return ExpertSizes(w1.shape[0], width, int(up), inner)


def columns_of(weight: Tensor, width: int) -> int:
    """Columns of one matrix of a stack whose inner size is `width`; 0 where that is not among its sizes."""
    rows, columns = weight.shape[1:]
    for pack in PACKS.get(weight.dtype, (1,)):
        if columns * pack == width:
            return rows
        if rows * pack == width:
            return columns
    pack = 8 if weight.dtype == "int32" else 1
    return rows * pack if columns == width else columns * pack if rows == width else 0


class Visits(NamedTuple):
    tokens: int
    top_k: int
    all_experts: int = 0
    """Experts of all ranks, where the weights are those of this rank only."""

    def of(self, experts: int) -> float:
        """Visits of so many experts of all: equal shares, as nothing else is recorded."""
        return self.tokens * self.top_k * (min(1.0, experts / self.all_experts) if self.all_experts else 1.0)


def experts_cost(hidden: Tensor, w1: Tensor, w2: Tensor, sizes: ExpertSizes, visits: Visits, scales: float) -> Cost:
    count = visits.of(sizes.experts)
    flop = count * 2 * sizes.width * (sizes.up + sizes.inner)
    share = min(1.0, count / sizes.experts)
    activations = 2 * visits.tokens * sizes.width * (hidden.item_bytes if hidden.dtype != "uint8" else 2)
    moved = activations + share * (w1.bytes + w2.bytes + scales)
    params = (
        ("tokens", visits.tokens), ("experts", sizes.experts), ("top_k", visits.top_k), ("H", sizes.width),
        ("I", sizes.inner), ("weights", w1.dtype),
    )  # fmt: skip
    notes = [visited_note(count, sizes.experts), SHARED_OUT if visits.all_experts > sizes.experts else ""]
    dtype = w1.dtype if w1.dtype in ("fp8", "fp4") else hidden.dtype
    return Cost(FAMILY, flop, moved, dtype, MATRIX, params, "; ".join(filter(None, notes)))


def visited_note(visits: float, experts: int) -> str:
    """What is assumed about which experts are visited; nothing where so many visits leave out none."""
    if visits < experts:
        return OWN_EXPERT
    return ALL_EXPERTS if visits < SURE_VISITS * experts else ""


class Experts(Struct, frozen=True):
    """Both products in one op. `chosen` has the shape (tokens, top_k); `top_k` is an argument with the number."""

    hidden: int
    w1: int
    w2: int
    chosen: int | None = None
    top_k: int | None = None
    scales: tuple[int, ...] = ()
    all_experts: int | None = None
    """Argument that holds how many experts all ranks have together."""

    def cost(self, call: Call) -> Cost | str | None:
        hidden, w1, w2 = (call.tensor(argument) for argument in (self.hidden, self.w1, self.w2))
        if hidden is None or w1 is None or w2 is None or not hidden.shape:
            return None
        tokens = product(hidden.shape[:-1])
        top_k = call.integer(self.top_k) or chosen_per_token(call, self.chosen, tokens)
        if top_k < 1:
            return OTHER_ARGUMENTS
        widths = (hidden.shape[-1], 2 * hidden.shape[-1]) if hidden.dtype in ("uint8", "fp4") else hidden.shape[-1:]
        sizes = next(filter(None, (expert_sizes(width, w1, w2) for width in widths)), None)
        if sizes is None:
            return OTHER_ARGUMENTS
        scales = sum(scale.bytes for scale in map(call.tensor, self.scales) if scale)
        return experts_cost(hidden, w1, w2, sizes, Visits(tokens, top_k, call.integer(self.all_experts)), scales)


def chosen_per_token(call: Call, place: int | None, tokens: int) -> int:
    """Columns of the list of chosen experts: at its place, or the tensor of whole numbers with a row per token.

    Where neither is recorded, the router's weights for the choice come before it and have its shape.
    """
    named, weights = call.tensor(place), call.tensor(place - 1) if place else None
    lists = [named] if named is not None else [tensor for tensor in call.all_tensors if tensor.dtype in INDICES]
    if weights is not None and not lists and 0 < product(weights.shape[1:]) <= MOST_CHOSEN:
        lists = [weights]
    return next((found.shape[1] for found in lists if len(found.shape) == 2 and found.shape[0] == tokens), 0)


class ExpertLayer(Struct, frozen=True):
    """A layer that is handed the tokens and the router's scores only: its weights are seen by the calls inside it."""

    hidden: int = 0
    scores: int | None = 1
    chosen: int | None = None

    def cost(self, call: Call) -> Cost | str | None:
        hidden, scores = call.tensor(self.hidden), call.tensor(self.scores)
        if hidden is None or len(hidden.shape) != 2:
            return None
        if any(inner.op.partition(".")[0] in COSTED_INSIDE for inner in call.inner):
            return INNER_OPS
        experts = scores.shape[-1] if scores is not None and len(scores.shape) == 2 else 0
        stacks = [
            tensor
            for inner in call.inner
            for tensor in inner.all_tensors
            if len(tensor.shape) == 3 and tensor.shape[0] > 1 and (not experts or experts % tensor.shape[0] == 0)
        ]
        chosen = call.tensor(self.chosen)
        top_k = chosen.shape[-1] if chosen and len(chosen.shape) == 2 else top_k_of(call.inner, hidden.shape[0])
        for w1, w2 in ((first, second) for first in stacks for second in stacks if first is not second):
            sizes = expert_sizes(hidden.shape[1], w1, w2)
            if sizes is not None and sizes.up == 2 * sizes.inner and top_k:
                cost = experts_cost(hidden, w1, w2, sizes, Visits(hidden.shape[0], top_k, experts), 0.0)
                note = "" if w1.dtype in PLAIN else NO_SCALES
                return replace(cost, approximate="; ".join(filter(None, (cost.approximate, note))))
        return buffered_experts(call, hidden, experts) or NO_WEIGHTS


def buffered_experts(call: Call, hidden: Tensor, experts: int) -> Cost | None:
    """A layer in FlashInfer's TensorRT-LLM kernels, which hand no weights to any recorded call.

    Its buffers have the sizes: what is chosen (tokens, top_k), and the rows of both products, (rows, inner) and (rows,
    width). The kernel's name has the number formats.
    """
    match = GENERATED.match(call.kernel)
    tokens, width = hidden.shape
    sizes = {inner.integers(0) for inner in call.inner if inner.op.partition(".")[0] == BUFFER}
    sizes = {size for size in sizes if len(size) == 2}
    top_k = min((size[1] for size in sizes if size[0] == tokens and 0 < size[1] <= MOST_CHOSEN), default=0)
    rows = {size[0] for size in sizes if size[1] == width and size[0] > tokens}
    stored = max((size[1] for size in sizes if size[0] in rows and size[1] != width), default=0)
    if match is None or not (experts and top_k and stored):
        return None
    formats = (match["first"], match["second"])
    weights = min(formats, key=lambda name: FORMAT_BYTES[name])
    between = match["second"] if match["out"] in WIDE_FORMATS else match["out"]
    inner = stored * (2 if between in HALF_BYTES else 1)
    count = tokens * top_k
    moved = min(1.0, count / experts) * experts * 3 * width * inner * FORMAT_BYTES[weights]
    params = (
        ("tokens", tokens),
        ("experts", experts),
        ("top_k", top_k),
        ("H", width),
        ("I", inner),
        ("weights", weights),
    )
    dtype = "bf16" if match["second"] in WIDE_FORMATS else "fp4" if set(formats) <= HALF_BYTES else "fp8"
    notes = "; ".join(filter(None, (visited_note(count, experts), FROM_BUFFERS)))
    moved += 2 * tokens * width * hidden.item_bytes
    return Cost(FAMILY, count * 2.0 * width * 3 * inner, moved, dtype, MATRIX, params, notes)


def top_k_of(inner: tuple[Call, ...], tokens: int) -> int:
    """Experts per token by the calls inside a layer; 0 where none says it."""
    for call in inner:
        name = call.op.rpartition("::")[2].partition(".")[0].lower()
        if name == "topk":
            return max(0, call.integer(1))
        if "topk" in name:
            shapes = [tensor.shape for tensor in call.all_tensors if len(tensor.shape) == 2]
            narrow = [shape[1] for shape in shapes if shape[0] == tokens]
            if len(set(narrow)) > 1:
                return min(narrow)
    return 0


class ExpertProduct(Struct, frozen=True):
    """One of the two products of a mixture: rows (…, K) times the experts' matrices, in any layout.

    A visit is a row of `a`, or `top_k` of them where the op reads each token that often.
    """

    a: int
    weight: int
    out: int | None = None
    top_k: int | None = None
    scales: tuple[int, ...] = ()
    n: int | None = None
    """Argument that holds the columns of the result; otherwise the weights' sizes say it."""
    padded: bool = False

    def cost(self, call: Call) -> Cost | str | None:
        a, weight, out = call.tensor(self.a), call.tensor(self.weight), call.tensor(self.out)
        if a is None or weight is None or not a.shape:
            return None
        width = a.shape[-1] * (2 if a.dtype == "fp4" else 1)
        if len(weight.shape) != 3 or not weight.shape[0]:
            return OTHER_ARGUMENTS
        columns = columns_of(weight, width)
        if not columns and a.dtype == "uint8":
            width *= 2
            columns = columns_of(weight, width)
        if self.n is not None:
            columns = call.integer(self.n)
        if columns < 1:
            return OTHER_ARGUMENTS
        rows = product(a.shape[:-1]) * max(1, call.integer(self.top_k, 1))
        if out is not None and len(out.shape) == 3:  # (tokens, top_k, …)
            rows = product(out.shape[:-1])
        share = min(1.0, rows / weight.shape[0])
        scales = sum(scale.bytes for scale in map(call.tensor, self.scales) if scale)
        written = out.bytes if out is not None else rows * columns * a.item_bytes
        moved = a.bytes + share * (weight.bytes + scales) + written
        params = (
            ("experts", weight.shape[0]),
            ("M", rows),
            ("N", columns),
            ("K", width),
            ("weights", weight.dtype),
        )
        why = PADDED_ROWS if self.padded else visited_note(rows, weight.shape[0])
        dtype = a.dtype if a.dtype != "uint8" else "fp4"
        return Cost(FAMILY, 2.0 * rows * columns * width, moved, dtype, MATRIX, params, why)


COSTED_INSIDE: Final = frozenset(
    {
        "vllm::fused_experts", "vllm::inplace_fused_experts", "vllm::outplace_fused_experts",
        "vllm::rocm_aiter_fused_moe", "vllm::rocm_aiter_asm_moe_tkw1", "aiter::fused_moe_", "aiter::fmoe_g1u1",
        "aiter::fmoe_fp8_blockscale_g1u1", "aiter::ck_moe_stage1", "aiter::ck_moe_stage2", "aiter::fmoe",
        "aiter::moe_cktile2stages_gemm1_ck", "_C::cutlass_moe_mm", "_C::cutlass_fp4_group_mm",
        "_moe_C::moe_wna16_gemm", "_moe_C::moe_wna16_marlin_gemm", "vllm::fused_marlin_moe", "aten::_grouped_mm",
        "sglang::inplace_fused_experts", "sglang::outplace_fused_experts", "vllm::flashinfer_fused_moe_bf16",
    }
)  # fmt: skip
"""Ops inside an expert layer that have the cost of its products themselves."""

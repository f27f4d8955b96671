"""Attention, forward and backward: causal or not, grouped queries, cross attention, packed sequences.

Forward is two products (QKᵀ and PV), backward four (dV, dP, dQ, dK); that a fused kernel computes QKᵀ again is its own
affair, not work the op asks for. A causal mask halves a square; the softmax is left out, as everybody does.
"""

from __future__ import annotations

from msgspec import Struct

from warplens.costs.cost import MATRIX, Cost
from warplens.costs.tensors import Call, Tensor

FAMILY = "attention"
BOTTOM_RIGHT = "bottom-right"
NO_FLAG = "whether a causal mask holds is not recorded"
TOP_LEFT = "top-left"
BY_SIZES = "which size is heads and which is tokens is guessed, and whether the mask is causal is not recorded"


class AttentionShape(Struct, frozen=True):
    """Sizes of an attention: batch, query and key/value heads, query and key/value length, head widths."""

    batch: int
    heads_q: int
    heads_kv: int
    queries: int
    keys: int
    width_qk: int
    width_v: int


def attended_pairs(queries: int, keys: int, mask: str = "") -> float:
    """(query, key) pairs that are not masked; a causal diagonal counts half.

    >>> attended_pairs(4, 4), attended_pairs(4, 4, TOP_LEFT), attended_pairs(2, 6, TOP_LEFT)
    (16, 8.0, 2.0)
    >>> attended_pairs(2, 6, BOTTOM_RIGHT)
    10.0
    """
    if not mask:
        return queries * keys
    corner = min(queries, keys)
    if mask == TOP_LEFT:
        return corner * corner / 2 + max(0, queries - keys) * keys
    return corner * corner / 2 + max(0, keys - queries) * queries


def attention_flop(shape: AttentionShape, mask: str = "", *, backward: bool = False) -> float:
    """Two products forward, twice as many backward."""
    pairs = shape.batch * shape.heads_q * attended_pairs(shape.queries, shape.keys, mask)
    return pairs * 2 * (shape.width_qk + shape.width_v) * (2 if backward else 1)


class AttentionOp(Struct, frozen=True):
    """Where an op keeps its arguments. `order` is `bhnd`, `bnhd`, or `nhd` for packed sequences without a batch."""

    q: int = 0
    causal: int | None = None
    order: str = "bhnd"
    bias: int | None = None
    cumulative_q: int | None = None
    cumulative_k: int | None = None
    backward: bool = False
    mask_type: int | None = None
    """Argument with xFormers' mask number: 1 is causal from the top left, 2 from the bottom right."""
    aligned: str = TOP_LEFT

    def cost(self, call: Call) -> Cost | None:
        q, k, v = (call.tensor(self.q + offset) for offset in range(3))
        if q is None or k is None or v is None:
            return None
        shape, approximate = self._shape(call, q, k, v)
        if shape is None:
            return None
        mask = self._mask(call)
        shown = "none" if call.tensor(self.bias) is None else "tensor"
        if not call.text(self.causal if self.mask_type is None else self.mask_type):
            approximate = NO_FLAG
        params = (
            ("B", shape.batch), ("Hq", shape.heads_q), ("Hkv", shape.heads_kv), ("Nq", shape.queries),
            ("Nkv", shape.keys), ("D", shape.width_qk), ("Dv", shape.width_v), ("mask", mask or shown),
            ("pass", "backward" if self.backward else "forward"),
        )  # fmt: skip
        flop = attention_flop(shape, mask, backward=self.backward)
        return Cost(FAMILY, flop, self._bytes(call, q, k, v, shape), q.dtype, MATRIX, params, approximate)

    def _mask(self, call: Call) -> str:
        if self.mask_type is not None:
            return {"1": TOP_LEFT, "2": BOTTOM_RIGHT}.get(call.text(self.mask_type), "")
        return self.aligned if call.flag(self.causal) else ""

    def _bytes(self, call: Call, q: Tensor, k: Tensor, v: Tensor, shape: AttentionShape) -> float:
        """Forward reads q, k, v and writes the output; backward also reads it with its gradient and writes three."""
        out = q.numel // max(1, shape.width_qk) * shape.width_v * q.item_bytes
        bias = call.tensor(self.bias)
        inputs = q.bytes + k.bytes + v.bytes + (bias.bytes if bias else 0.0)
        if not self.backward:
            return inputs + out
        return inputs + 2 * out + sum(tensor.numel * tensor.item_bytes for tensor in (q, k, v))

    def _shape(self, call: Call, q: Tensor, k: Tensor, v: Tensor) -> tuple[AttentionShape | None, str]:
        ranks = {len(q.shape), len(k.shape), len(v.shape)}
        if ranks == {3}:
            return self._packed(call, q, k, v)
        if ranks != {4}:
            return None, ""
        heads, length = (1, 2) if self.order == "bhnd" else (2, 1)
        if call.tensor(self.cumulative_q) is not None and q.shape[0] == 1:
            squeezed = (Tensor(tensor.shape[1:], tensor.dtype) for tensor in (q, k, v))
            return self._packed(call, *squeezed)
        shape = AttentionShape(
            q.shape[0], q.shape[heads], k.shape[heads], q.shape[length], k.shape[length], q.shape[3], v.shape[3]
        )
        return shape, ""

    def _packed(self, call: Call, q: Tensor, k: Tensor, v: Tensor) -> tuple[AttentionShape | None, str]:
        """Sequences one after the other: (tokens, heads, width), with their ends in `cumulative_q`.

        Their single lengths are not recorded; equal ones are the least work for so many tokens.
        """
        ends_q, ends_k = call.tensor(self.cumulative_q), call.tensor(self.cumulative_k)
        if ends_q is None:
            return None, ""
        batch = max(1, ends_q.numel - 1)
        keys = k.shape[0] // max(1, (ends_k or ends_q).numel - 1)
        shape = AttentionShape(batch, q.shape[1], k.shape[1], q.shape[0] // batch, keys, q.shape[2], v.shape[2])
        return shape, "" if batch == 1 else "packed sequences are taken to be of equal length"


def attention_by_sizes(tensors: tuple[Tensor, ...]) -> Cost | None:
    """The first four tensors of four dimensions as q, k, v and the output, (B, H, N, D) or (B, N, H, D).

    For kernels whose arguments have no known order of heads and tokens: there are fewer heads.

    >>> q, out = Tensor((1, 24, 768, 128), "int8"), Tensor((1, 24, 768, 128), "bf16")
    >>> attention_by_sizes((q, q, q, out)).params_text
    'B=1 Hq=24 Hkv=24 Nq=768 Nkv=768 D=128 Dv=128 mask=none pass=forward'
    """
    four = [tensor for tensor in tensors if len(tensor.shape) == 4][:4]
    if len(four) < 4 or len({tensor.shape[0] for tensor in four}) > 1 or four[0].shape[3] != four[1].shape[3]:
        return None
    q, k, v, out = four
    heads, length = (1, 2) if q.shape[1] <= q.shape[2] else (2, 1)
    if k.shape[length] != v.shape[length] or out.shape[length] != q.shape[length]:
        return None
    shape = AttentionShape(
        q.shape[0], q.shape[heads], k.shape[heads], q.shape[length], k.shape[length], q.shape[3], v.shape[3]
    )
    params = (
        ("B", shape.batch), ("Hq", shape.heads_q), ("Hkv", shape.heads_kv), ("Nq", shape.queries),
        ("Nkv", shape.keys), ("D", shape.width_qk), ("Dv", shape.width_v), ("mask", "none"), ("pass", "forward"),
    )  # fmt: skip
    moved = sum(tensor.bytes for tensor in four)
    return Cost(FAMILY, attention_flop(shape), moved, q.dtype, MATRIX, params, BY_SIZES)

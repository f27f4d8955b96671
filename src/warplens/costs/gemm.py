"""Matrix products: mm, addmm, bmm, linear, scaled and grouped ones."""

from __future__ import annotations

from msgspec import Struct

from warplens.costs.cost import MATRIX, Cost
from warplens.costs.pointwise import broadcast
from warplens.costs.tensors import ITEM_BYTES, SCALAR_TYPES, Call, Tensor, product

FAMILY = "gemm"
GROUPED = "grouped gemm"


def gemm_flop(batch: int, m: int, n: int, k: int, *, bias: bool = False) -> int:
    """Multiply–adds count 2; adding a bias or another matrix to the product is one more per element.

    >>> gemm_flop(1, 2, 3, 4)
    48
    >>> gemm_flop(1, 2, 3, 4, bias=True)
    54
    """
    return batch * m * n * (2 * k + bool(bias))


class Gemm(Struct, frozen=True):
    """Which arguments are the factors `a` (…, M, K) and `b` (…, K, N), or (N, K) where `b_is_nk`."""

    a: int
    b: int
    bias: int | None = None
    out_dtype: int | None = None
    """Argument that holds the result's ScalarType."""
    b_is_nk: bool = False
    out: int | None = None
    """Argument that is the place for the result."""
    scales: tuple[int, ...] = ()

    def cost(self, call: Call) -> Cost | None:
        a, b = call.tensor(self.a), call.tensor(self.b)
        if a is None or b is None or not a.shape or not b.shape:
            return None
        sizes = _sizes(a, b, self.b_is_nk)
        if sizes is None:
            return None
        batch, m, n, k = sizes
        bias = call.tensor(self.bias)
        out = call.tensor(self.out)
        written = batch * m * n * ITEM_BYTES[out.dtype if out else _result_dtype(call, a, self.out_dtype)]
        read = sum(tensor.bytes for tensor in (a, b, bias, *map(call.tensor, self.scales)) if tensor)
        return Cost(
            FAMILY,
            gemm_flop(batch, m, n, k, bias=bias is not None),
            read + written,
            a.dtype,
            MATRIX,
            (("B", batch), ("M", m), ("N", n), ("K", k), ("layout", layout(a, b))),
        )


def _sizes(a: Tensor, b: Tensor, b_is_nk: bool) -> tuple[int, int, int, int] | None:
    k, rows, columns = a.shape[-1], product(a.shape[:-1]), b.shape[-1]
    if b_is_nk:
        return (1, rows, b.shape[0], values(a, k)) if len(b.shape) == 2 and b.shape[1] == k else None
    if len(b.shape) == 1:  # a matrix times a vector, or two vectors
        return (1, rows, 1, values(a, k)) if b.shape[0] == k else None
    if b.shape[-2] != k:
        return None
    outer = [a.shape[:-2], b.shape[:-2]]
    shape = broadcast(outer)
    if any(
        size not in (1, broadcast_size)
        for sizes in outer
        for size, broadcast_size in zip(sizes[::-1], shape[::-1], strict=False)
    ):
        return None
    return product(shape), 1 if len(a.shape) == 1 else a.shape[-2], columns, values(a, k)


def values(tensor: Tensor, stored: int) -> int:
    """Numbers along the inner dimension: fp4 keeps two in one stored element."""
    return 2 * stored if tensor.dtype == "fp4" else stored


def _result_dtype(call: Call, a: Tensor, out_dtype: int | None) -> str:
    named = SCALAR_TYPES.get(call.text(out_dtype), "")
    if named:
        return named
    # The 8-bit products are never returned in 8 bits unless asked for.
    return {"fp8": "bf16", "fp4": "bf16", "int8": "int32"}.get(a.dtype, a.dtype)


def layout(a: Tensor, b: Tensor) -> str:
    """`tn` and the like, as BLAS names a product: n where rows are contiguous, t where columns are."""
    return _order(a) + _order(b)


def _order(tensor: Tensor) -> str:
    if len(tensor.strides) < 2:
        return "n"
    return "n" if tensor.strides[-1] == 1 else "t" if tensor.strides[-2] == 1 else "s"


class GroupedGemm(Struct, frozen=True):
    """One product per group. A factor with three dimensions has one matrix per group; one with two is cut by offsets:

    `a` along M, `b` along N, or both along K, where each group has a result of its own.
    """

    offsets: int
    out_dtype: int
    bias: int
    scales: tuple[int, ...] = ()

    def cost(self, call: Call) -> Cost | None:
        a, b, offsets = call.tensor(0), call.tensor(1), call.tensor(self.offsets)
        if a is None or b is None or {len(a.shape), len(b.shape)} - {2, 3} or b.shape[-2] != a.shape[-1]:
            return None
        m, n, k = a.shape[-2], b.shape[-1], values(a, a.shape[-1])
        stacked = [factor.shape[0] for factor in (a, b) if len(factor.shape) == 3]
        groups = stacked[0] if stacked else offsets.numel if offsets else 1
        # Two stacks, or two factors cut along K, give one whole result per group.
        results = groups if len(stacked) != 1 else 1
        bias = call.tensor(self.bias)
        read = sum(tensor.bytes for tensor in (a, b, bias, *map(call.tensor, self.scales)) if tensor)
        written = results * m * n * ITEM_BYTES[_result_dtype(call, a, self.out_dtype)]
        flop = gemm_flop(groups if len(stacked) == 2 else 1, m, n, k) + (results * m * n if bias else 0)
        params = (("G", groups), ("M", m), ("N", n), ("K", k))
        return Cost(GROUPED, flop, read + written, a.dtype, MATRIX, params)

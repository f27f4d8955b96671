"""Matrix products with quantised weights: marlin, AWQ, GPTQ, bitsandbytes, fp4; and those of other layouts.

Rows and the inner size are the activations'. The columns follow from the scales, from three numbers M, N, K in a row
among the arguments, or from a number that the op is handed; the packed weights must then hold 2, 3, 4, 6 or 8 bits
per number, which checks that the arguments are what they are taken for.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from warplens.costs.cost import MATRIX, OTHER_ARGUMENTS, Cost
from warplens.costs.gemm import FAMILY, gemm_flop
from warplens.costs.tensors import ITEM_BYTES, SCALAR_TYPES, WHOLE_NUMBER, Call, Tensor, product

BITS: Final = (2.0, 3.0, 4.0, 6.0, 8.0)
STORED: Final = ("int32", "uint8", "int8", "fp8", "fp4", "int64", "uint32")
"""Types that packed weights are stored in."""
WHOLE: Final = ("int32", "int64", "int8", "uint32", "bool")


class PackedProduct(Struct, frozen=True):
    """`a` (…, K) in full precision times a packed weight; the result has `a`'s type.

    The places of the weight and its scales differ between versions of an op: the weight is the first tensor of a
    storage type after `a`, the scales are the first tensor of two or more dimensions after it that is not, or the one
    that `scales` names.
    """

    a: int = 0
    scales: int | None = None
    shape: int | None = None
    """Argument that lists the weight's sizes (N, K) before it was packed."""

    def cost(self, call: Call) -> Cost | str | None:
        a = call.tensor(self.a)
        if a is None or not a.shape:
            return None
        tensors = [(place, arg) for place, arg in enumerate(call.args) if isinstance(arg, Tensor) and place > self.a]
        weight = next(((place, arg) for place, arg in tensors if arg.dtype in STORED and len(arg.shape) >= 2), None)
        if weight is None:
            return OTHER_ARGUMENTS
        scales = call.tensor(self.scales) or next(
            (arg for place, arg in tensors if place > weight[0] and arg.dtype not in WHOLE and len(arg.shape) >= 2),
            None,
        )
        rows, k = product(a.shape[:-1]), a.shape[-1]
        columns = [n for n in self._columns(call, rows, k, scales) if _bits(weight[1], n, k) in BITS]
        if not columns:
            return OTHER_ARGUMENTS
        n = columns[0]
        read = a.bytes + sum(arg.bytes for place, arg in tensors if place >= weight[0] and arg.numel <= weight[1].numel)
        params = (("B", 1), ("M", rows), ("N", n), ("K", k), ("layout", f"w{_bits(weight[1], n, k):.0f}"))
        return Cost(FAMILY, gemm_flop(1, rows, n, k), read + rows * n * a.item_bytes, a.dtype, MATRIX, params)

    def _columns(self, call: Call, rows: int, k: int, scales: Tensor | None) -> list[int]:
        listed = call.integers(self.shape)
        if listed:
            return [listed[0]] if listed[1:] == (k,) else []
        numbers = [call.text(argument) for argument in range(len(call.args))]
        triples = zip(numbers, numbers[1:], numbers[2:], strict=False)
        named = [int(n) for m, n, inner in triples if m == str(rows) and inner == str(k) and WHOLE_NUMBER.fullmatch(n)]
        return [n for n in (*named, *(scales.shape[::-1] if scales else ())) if n > 0]


def _bits(weight: Tensor, n: int, k: int) -> float:
    return weight.bytes * 8 / (n * k) if n > 0 and k > 0 else 0.0


class Product(Struct, frozen=True):
    """`a` (…, M, K) times `b`, which is (K, N) or (N, K), whichever fits; of two batches, one product each.

    `pack` numbers are in one stored element of uint8 tensors (two of fp4); `b` may be `a`'s wider twin: then only it
    is packed.
    """

    a: int
    b: int
    bias: int | None = None
    out: int | None = None
    out_dtype: int | None = None
    scales: tuple[int, ...] = ()
    nk: bool = True
    """Which of the two layouts a square weight has."""
    result: str = ""
    dtype: str = ""

    def cost(self, call: Call) -> Cost | str | None:
        a, b = call.tensor(self.a), call.tensor(self.b)
        if a is None or b is None or len(a.shape) < 2 or len(b.shape) not in (2, 3):
            return None
        k = _numbers(a)
        stacks = b.shape[0] if len(b.shape) == 3 else 1
        if len(b.shape) == 3 and (len(a.shape) != 3 or a.shape[0] != stacks):
            return OTHER_ARGUMENTS
        n = self._columns(b, k)
        if not n:
            return OTHER_ARGUMENTS
        rows = product(a.shape[:-1]) // max(1, stacks)
        # Older versions of some ops have the result in the place of the bias, which is one row.
        places = [call.tensor(argument) for argument in (self.out, self.bias)]
        out = next((tensor for tensor in places if tensor and len(tensor.shape) >= 2 and tensor.shape[-1] == n), None)
        bias = places[1] if places[1] is not out else None
        written = stacks * rows * n * ITEM_BYTES[self._result(call, a, out)]
        read = sum(tensor.bytes for tensor in (a, b, bias, *map(call.tensor, self.scales)) if tensor)
        layout = "nt" if b.shape[-1] != n else "nn"
        params = (("B", stacks), ("M", rows), ("N", n), ("K", k), ("layout", layout))
        dtype = self.dtype or ("fp4" if a.dtype == "uint8" else a.dtype)
        return Cost(FAMILY, gemm_flop(stacks, rows, n, k, bias=bias is not None), read + written, dtype, MATRIX, params)

    def _columns(self, b: Tensor, k: int) -> int:
        rows, columns = b.shape[-2:]
        pack = 2 if b.dtype in ("uint8", "fp4") else 1
        by_layout = [(columns * pack == k, rows), (rows * pack == k, columns)]
        return next((n for fits, n in (by_layout if self.nk else by_layout[::-1]) if fits), 0)

    def _result(self, call: Call, a: Tensor, out: Tensor | None) -> str:
        named = out.dtype if out else SCALAR_TYPES.get(call.text(self.out_dtype), self.result)
        return named or ("bf16" if a.dtype in ("fp8", "fp4", "int8", "uint8") else a.dtype)


def _numbers(tensor: Tensor) -> int:
    return tensor.shape[-1] * (2 if tensor.dtype in ("uint8", "fp4") else 1)

"""Ops whose cost is a stream of bytes: the arguments they read and the results they write.

Normalisations, softmaxes, losses, copies, fills and the like differ only in which arguments are read and what the
results look like, so they are data: see the op table.
"""

from __future__ import annotations

import math

from msgspec import Struct

from warplens.costs.cost import Cost
from warplens.costs.tensors import ITEM_BYTES, MAX_ELEMENTS, SCALAR_TYPES, Call, Tensor, product
from warplens_run.base import bounded

FORWARD = "forward"
BACKWARD = "backward"


class Like(Struct, frozen=True):
    """A result shaped like an argument, of another dtype where one is named, found in a scalar or in another tensor."""

    arg: int
    dtype: str = ""
    dtype_arg: int | None = None
    dtype_of: int | None = None
    fp32_if: int | None = None
    """Flag that asks for a result in fp32."""
    share: float = 1.0

    def bytes(self, call: Call) -> float:
        tensor = call.tensor(self.arg)
        if tensor is None:
            return 0.0
        named = "fp32" if call.flag(self.fp32_if) else self.dtype or SCALAR_TYPES.get(call.text(self.dtype_arg), "")
        item_bytes = ITEM_BYTES[named] if named else (call.tensor(self.dtype_of) or tensor).item_bytes
        return tensor.numel * self.share * item_bytes


class Resized(Struct, frozen=True):
    """A result whose last dimensions are those that an argument lists: what a pooling to a given size writes."""

    arg: int
    sizes: int

    def bytes(self, call: Call) -> float:
        tensor, sizes = call.tensor(self.arg), [max(0, size) for size in call.integers(self.sizes)]
        if tensor is None or not sizes or len(sizes) > len(tensor.shape):
            return 0.0
        numel = product(tensor.shape[: -len(sizes)]) * product(sizes)
        return numel * tensor.item_bytes if numel <= MAX_ELEMENTS else 0.0


class Resampling(Struct, frozen=True):
    """An image or sequence at another size: argument 1 lists it, else `factors` does, relative to the input's."""

    dimensions: int
    flop: float = 0.0
    """Operations per element written."""
    factors: int = 2

    def cost(self, call: Call) -> Cost | None:
        source = call.tensor(0)
        if source is None or len(source.shape) != self.dimensions + 2:
            return None
        sizes = call.integers(1) or self._scaled(call, source)
        written = product(source.shape[:2]) * product(sizes)
        if len(sizes) != self.dimensions or not 0 < written <= MAX_ELEMENTS:
            return None
        params = (("elements", written), ("read", source.numel))
        moved = source.bytes + written * source.item_bytes
        return Cost("pointwise", written * self.flop, moved, source.dtype, params=params)

    def _scaled(self, call: Call, source: Tensor) -> tuple[int, ...]:
        factors = call.numbers(self.factors)
        return tuple(int(size * factor) for size, factor in zip(source.shape[2:], factors, strict=False))


class ByteStream(Struct, frozen=True):
    """`main` is the argument whose elements are counted; the op has no cost where it is not recorded."""

    family: str
    reads: tuple[int, ...]
    writes: tuple[Like | Resized, ...] = ()
    flop: float = 0.0
    """Operations per element of `main`."""
    main: int = 0
    rows_from: int | None = None
    """Argument with the normalised shape: fp32 statistics are written for every row, forward, as well."""
    statistics: int = 2
    direction: str = ""
    counted: tuple[int, ...] = ()
    """Other arguments whose elements are worked on as well."""
    approximate: str = ""

    def cost(self, call: Call) -> Cost | None:
        main = call.tensor(self.main)
        if main is None:
            return None
        read = sum(tensor.bytes for tensor in map(call.tensor, self.reads) if tensor is not None)
        written = sum(result.bytes(call) for result in self.writes)
        params: list[tuple[str, int | str]] = [("elements", main.numel)]
        if self.rows_from is not None:
            columns = max(1, product(call.integers(self.rows_from)))
            rows = main.numel // columns
            written += 4 * self.statistics * rows if self.direction == FORWARD else 0
            params = [("rows", rows), ("columns", columns)]
        if self.direction:
            params.append(("pass", self.direction))
        worked = main.numel + sum(tensor.numel for tensor in map(call.tensor, self.counted) if tensor)
        flop, moved = worked * self.flop, read + written
        return Cost(self.family, flop, moved, main.dtype, params=tuple(params), approximate=self.approximate)


WHOLE_NUMBERS = ("bool", "uint8", "int8", "int16", "int32")


class Reduction(Struct, frozen=True):
    """Reads a tensor and keeps the dimensions that are not reduced; `results` are the dtypes of what it writes."""

    dim: int | None = 1
    results: tuple[str, ...] = ("",)
    flop: float = 1.0
    family: str = "reduction"
    dtype_arg: int | None = None
    """Argument that names the results' dtype; a call without dimensions has it in the place of `dim`, as its last."""
    sums: bool = False
    """Whole numbers are added up in int64."""

    def cost(self, call: Call) -> Cost | None:
        source = call.tensor(0)
        if source is None:
            return None
        is_short = self.dtype_arg is not None and self.dim is not None and len(call.args) == self.dim + 1
        kept_elements = _kept_elements(source, () if is_short else call.integers(self.dim))
        named = SCALAR_TYPES.get(call.text(self.dim if is_short else self.dtype_arg), "")
        default = named or ("int64" if self.sums and source.dtype in WHOLE_NUMBERS else source.dtype)
        written = sum(kept_elements * ITEM_BYTES[dtype or default] for dtype in self.results)
        params = (("elements", source.numel), ("kept", kept_elements))
        return Cost(self.family, source.numel * self.flop, source.bytes + written, source.dtype, params=params)


def _kept_elements(source: Tensor, dims: tuple[int, ...]) -> int:
    if not dims or not source.shape:
        return 1
    rank = len(source.shape)
    reduced = {dim % rank for dim in dims}
    return product(size for dim, size in enumerate(source.shape) if dim not in reduced)


class Copy(Struct, frozen=True):
    """`copy_(destination, source)`: a cast where the dtypes differ, a transposition where the strides do."""

    destination: int = 0
    source: int = 1

    def cost(self, call: Call) -> Cost | None:
        destination, source = call.tensor(self.destination), call.tensor(self.source)
        if destination is None or source is None:
            return None
        kind = "cast" if destination.dtype != source.dtype else "copy"
        dtypes = f"{source.dtype}→{destination.dtype}" if kind == "cast" else source.dtype
        params = (("elements", destination.numel), ("dtypes", dtypes), ("strides", _strides(destination, source)))
        moved = source.bytes + destination.numel * destination.item_bytes
        return Cost(kind, 0.0, moved, source.dtype, unit="", params=params)


def _strides(destination: Tensor, source: Tensor) -> str:
    """Whether both sides walk memory in the same order; dimensions of size 1 do not matter."""
    orders = [
        [stride for size, stride in zip(tensor.shape, tensor.strides, strict=False) if size > 1]
        for tensor in (destination, source)
    ]
    if orders[0] == orders[1]:
        return "same"
    return "broadcast" if 0 in orders[1] else "other"


class Arange(Struct, frozen=True):
    """Writes (end − start) / step elements into the tensor that is the last argument."""

    def cost(self, call: Call) -> Cost | None:
        numbers = [bounded.number(call.text(argument)) for argument in range(3)]
        out = next((tensor for tensor in reversed(call.all_tensors)), None)
        start, end, step = numbers
        if out is None or start is None or end is None or not step:
            return None
        steps = (end - start) / step
        if not steps <= MAX_ELEMENTS:
            return None
        count = math.ceil(max(0.0, steps))
        return Cost("fill", 0.0, count * out.item_bytes, out.dtype, unit="", params=(("elements", count),))


class Pooling(Struct, frozen=True):
    """Windows of `kernel` elements over two dimensions, one result each.

    `extra` is the dtype of indices written along with the result.
    """

    extra: str = ""
    dilation: int | None = None
    ceil: int = 4

    def cost(self, call: Call) -> Cost | None:
        source, kernel = call.tensor(0), _pair(call.integers(1), 0)
        stride, padding, dilation = (
            _pair(call.integers(argument), default) for argument, default in ((2, 0), (3, 0), (self.dilation, 1))
        )
        if source is None or min(kernel) < 1 or len(source.shape) not in (3, 4):
            return None
        windows = [
            pooled_size(*dimension, ceil=call.flag(self.ceil))
            for dimension in zip(
                source.shape[-2:], kernel, stride if all(stride) else kernel, padding, dilation, strict=True
            )
        ]
        out = product(source.shape[:-2]) * product(windows)
        if out > MAX_ELEMENTS:
            return None
        item = source.item_bytes + (ITEM_BYTES[self.extra] if self.extra else 0)
        params = (("elements", source.numel), ("kept", out), ("window", product(kernel)))
        return Cost("reduction", out * product(kernel), source.bytes + out * item, source.dtype, params=params)


def _pair(values: tuple[int, ...], default: int) -> tuple[int, int]:
    """One value per dimension: PyTorch accepts one for both."""
    return (values[0], values[-1]) if len(values) in (1, 2) else (default, default)


def pooled_size(size: int, kernel: int, stride: int, padding: int, dilation: int, *, ceil: bool = False) -> int:
    """Windows along one dimension; rounding up adds one that is cut off, unless it would start in the padding.

    >>> pooled_size(112, 3, 2, 1, 1), pooled_size(6, 3, 2, 0, 1), pooled_size(6, 3, 2, 0, 1, ceil=True)
    (56, 2, 3)
    """
    stride = max(1, stride)
    count = (size + 2 * padding - dilation * (kernel - 1) - 1 + (stride - 1) * ceil) // stride + 1
    return max(0, count - (ceil and (count - 1) * stride >= size + padding))


class TopK(Struct, frozen=True):
    """The `k` largest of each row: their values and places are written."""

    k: int = 1
    dim: int = 2

    def cost(self, call: Call) -> Cost | None:
        source = call.tensor(0)
        if source is None:
            return None
        kept_elements = _kept_elements(source, (call.integer(self.dim, -1),)) * max(0, call.integer(self.k))
        kept_elements = min(kept_elements, source.numel)
        written = kept_elements * (source.item_bytes + ITEM_BYTES["int64"])
        return Cost(
            "sort",
            0.0,
            source.bytes + written,
            source.dtype,
            params=(("elements", source.numel), ("kept", kept_elements)),
        )

"""Convolutions of any dimension, forward and backward, grouped, transposed, with or without bias."""

from __future__ import annotations

from msgspec import Struct

from warplens.costs.cost import MATRIX, Cost
from warplens.costs.tensors import MAX_ELEMENTS, Call, Tensor, product

FAMILY = "convolution"


def output_size(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Length of one output dimension.

    >>> output_size(224, 7, stride=2, padding=3, dilation=1)
    112
    """
    return max(0, (size + 2 * padding - dilation * (kernel - 1) - 1) // max(1, stride) + 1)


def transposed_size(size: int, kernel: int, stride: int, padding: int, dilation: int, output_padding: int) -> int:
    return max(0, (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1)


def convolution_flop(positions: int, weight: tuple[int, ...], *, bias: int = 0) -> int:
    """Every position passes every weight once: of the output for a convolution, of the input for a transposed one.

    A weight (out channels, in channels / groups, kernel…) already has the groups divided out.

    >>> convolution_flop(64 * 112 * 112, (64, 3, 7, 7))
    15105785856
    """
    return 2 * positions * product(weight) + bias


class Convolution(Struct, frozen=True):
    """Which arguments are which; `backward` ops start with the output's gradient."""

    x: int = 0
    weight: int = 1
    bias: int | None = None
    stride: int | None = None
    padding: int | None = None
    dilation: int | None = None
    groups: int | None = None
    transposed: int | None = None
    always_transposed: bool = False
    output_padding: int | None = None
    gradient: int | None = None
    output_mask: int | None = None
    added: int | None = None
    """Argument that is added to the result."""

    def cost(self, call: Call) -> Cost | None:
        x, weight = call.tensor(self.x), call.tensor(self.weight)
        if x is None or weight is None or not 3 <= len(x.shape) <= 5 or len(weight.shape) != len(x.shape):
            return None
        if call.tensor(self.gradient) is None and not call.integers(self.stride):
            return None  # without its numbers, the size of the result is a guess
        transposed = self.always_transposed or call.flag(self.transposed)
        groups = max(1, call.integer(self.groups, 1))
        spatial = self._output(call, x, weight, transposed)
        channels = weight.shape[1] * groups if transposed else weight.shape[0]
        out = Tensor((x.shape[0], channels, *spatial), x.dtype)
        if product(max(1, size) for size in out.shape) > MAX_ELEMENTS:
            return None
        params = (
            ("N", x.shape[0]), ("Cin", x.shape[1]), ("Cout", channels), ("in", _times(x.shape[2:])),
            ("out", _times(spatial)), ("kernel", _times(weight.shape[2:])), ("groups", groups),
            ("layout", "channels_last" if _is_channels_last(x) else "contiguous"),
            ("pass", "forward" if self.gradient is None else "backward"),
        )  # fmt: skip
        positions = product((x.shape[0], *(x.shape[2:] if transposed else spatial)))
        flop, moved = self._work(call, x, weight, out, positions)
        return Cost(FAMILY, flop, moved, x.dtype, MATRIX, params)

    def _output(self, call: Call, x: Tensor, weight: Tensor, transposed: bool) -> tuple[int, ...]:
        gradient = call.tensor(self.gradient)
        if gradient is not None and len(gradient.shape) == len(x.shape):
            return gradient.shape[2:]
        count = len(x.shape) - 2
        stride, padding, dilation, extra = (
            _filled(call.integers(argument), count, default)
            for argument, default in ((self.stride, 1), (self.padding, 0), (self.dilation, 1), (self.output_padding, 0))
        )
        sizes = zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, extra, strict=True)
        if transposed:
            return tuple(transposed_size(*dimension) for dimension in sizes)
        return tuple(output_size(*dimension[:-1]) for dimension in sizes)

    def _work(self, call: Call, x: Tensor, weight: Tensor, out: Tensor, positions: int) -> tuple[float, float]:
        forward_flop = convolution_flop(positions, weight.shape)
        if self.gradient is None:
            extra = [tensor for tensor in (call.tensor(self.bias), call.tensor(self.added)) if tensor]
            moved = x.bytes + weight.bytes + out.bytes + sum(tensor.bytes for tensor in extra)
            return forward_flop + out.numel * len(extra), moved
        for_input, for_weight, for_bias = (*call.flags(self.output_mask), True, True, False)[:3]
        flop = forward_flop * (for_input + for_weight) + out.numel * for_bias
        read = out.bytes + weight.bytes * for_input + x.bytes * for_weight
        written = x.bytes * for_input + weight.bytes * for_weight + out.shape[1] * out.item_bytes * for_bias
        return flop, read + written


def _filled(values: tuple[int, ...], count: int, default: int) -> tuple[int, ...]:
    """One value per dimension: PyTorch accepts one for all."""
    if len(values) == count:
        return values
    return (values[0] if values else default,) * count


def _times(sizes: tuple[int, ...]) -> str:
    return "x".join(map(str, sizes))


def _is_channels_last(x: Tensor) -> bool:
    return len(x.strides) > 2 and x.strides[1] == 1 and x.shape[1] > 1

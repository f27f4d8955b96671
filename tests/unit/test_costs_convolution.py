"""Costs of convolutions, worked out by hand: groups, transposed, with bias, forward and backward."""

from __future__ import annotations

import pytest

from cost_calls import bf16, cost, figures, tensor
from warplens.costs import Call, Tensor, cost_of

X, W = bf16(64, 3, 224, 224), bf16(64, 3, 7, 7)
OUT = 64 * 64 * 112 * 112


def test_a_convolution_counts_every_weight_at_every_place_of_its_result() -> None:
    found = cost("aten::cudnn_convolution", X, W, "[3, 3]", "[2, 2]", "[1, 1]", "1", "False", "False", "True")
    assert (found.flop, found.bytes) == (2 * OUT * 3 * 49, 2 * (64 * 3 * 224 * 224 + 64 * 3 * 49 + OUT))
    assert found.params_text.startswith("N=64 Cin=3 Cout=64 in=224x224 out=112x112 kernel=7x7 groups=1")


def test_a_convolution_says_where_its_channels_lie() -> None:
    first, last = (1000, 100, 10, 1), (1000, 1, 100, 10)
    layouts = [
        dict(
            cost(
                "aten::cudnn_convolution",
                tensor("bf16", 2, 10, 10, 10, strides=strides),
                bf16(4, 10, 1, 1),
                "[0, 0]",
                "[1, 1]",
            ).params
        )["layout"]
        for strides in (first, last)
    ]
    assert layouts == ["contiguous", "channels_last"]


NUMBERS = ("[2, 2]", "[3, 3]", "[1, 1]")
SAME_CONVOLUTION = [
    ("aten::convolution", (X, W, None, *NUMBERS, "False", "[0, 0]", "1")),
    ("aten::_convolution", (X, W, None, *NUMBERS, "False", "[0, 0]", "1")),
    ("aten::cudnn_convolution_relu", (X, W, None, *NUMBERS, "1")),
    ("aten::miopen_convolution", (X, W, None, "[3, 3]", "[2, 2]", "[1, 1]", "1")),
    ("aten::thnn_conv2d", (X, W, "[7, 7]", None, "[2, 2]", "[3, 3]")),
    ("aten::_slow_conv2d_forward", (X, W, "[7, 7]", None, "[2, 2]", "[3, 3]")),
]


@pytest.mark.parametrize(("op", "args"), SAME_CONVOLUTION)
def test_every_backend_of_a_convolution_costs_the_same(op: str, args: tuple[Tensor, ...]) -> None:
    assert figures(op, *args) == (2 * OUT * 3 * 49, 2 * (64 * 3 * 224 * 224 + 64 * 3 * 49 + OUT))


@pytest.mark.parametrize("op", ["aten::miopen_depthwise_convolution", "aten::miopen_convolution"])
def test_groups_divide_the_work(op: str) -> None:
    depthwise = (bf16(2, 32, 10, 10), bf16(32, 1, 3, 3), None, "[1, 1]", "[1, 1]", "[1, 1]", "32")
    assert figures(op, *depthwise) == (2 * 2 * 32 * 100 * 9, 2 * (6400 + 288 + 6400))


def test_a_depthwise_convolution_has_one_filter_per_channel() -> None:
    args = (bf16(2, 32, 10, 10), bf16(32, 1, 3, 3), "[3, 3]", bf16(32), "[1, 1]", "[1, 1]", "[1, 1]")
    assert figures("aten::_conv_depthwise2d", *args) == (2 * 6400 * 9 + 6400, 2 * (6400 + 288 + 6400 + 32))


def test_what_is_added_to_a_convolution_costs_one_per_element() -> None:
    args = (bf16(2, 4, 8, 8), bf16(6, 4, 1, 1), bf16(2, 6, 8, 8), "1", bf16(6), "[1, 1]", "[0, 0]", "[1, 1]", "1")
    one = 2 * 2 * 64 * 6 * 4
    assert figures("aten::cudnn_convolution_add_relu", *args) == (one + 2 * 768, 2 * (512 + 24 + 768 + 768 + 6))
    assert figures("aten::convolution", *args[:2], bf16(6), *args[5:8], "False", "[0, 0]", "1") == (
        one + 768,
        2 * (512 + 24 + 768 + 6),
    )


TRANSPOSED = [
    ("aten::convolution", (None, "[2, 2]", "[1, 1]", "[1, 1]", "True", "[1, 1]", "2")),
    ("aten::cudnn_convolution_transpose", ("[1, 1]", "[1, 1]", "[2, 2]", "[1, 1]", "2")),
    ("aten::miopen_convolution_transpose", (None, "[1, 1]", "[1, 1]", "[2, 2]", "[1, 1]", "2")),
]


@pytest.mark.parametrize(("op", "rest"), TRANSPOSED)
def test_a_transposed_convolution_counts_every_weight_at_every_place_of_its_input(
    op: str, rest: tuple[str, ...]
) -> None:
    """8×8 → 16×16 with two groups: 4 channels in, 2·3 out."""
    found = cost(op, bf16(2, 4, 8, 8), bf16(4, 3, 3, 3), *rest)
    assert found.flop == 2 * (2 * 64) * (4 * 3 * 9)
    assert found.bytes == 2 * (512 + 108 + 2 * 6 * 16 * 16)


BACKWARD = ("[0]", "[2, 2]", "[3, 3]", "[1, 1]", "False", "[0, 0]", "1")
GRADIENT = bf16(64, 64, 112, 112)
INPUT, WEIGHT = 64 * 3 * 224 * 224, 64 * 3 * 49
MASKS = {
    "[True, True, False]": (2, OUT + WEIGHT + INPUT + INPUT + WEIGHT),
    "[True, False, False]": (1, OUT + WEIGHT + INPUT),
    "[False, True, False]": (1, OUT + INPUT + WEIGHT),
}


@pytest.mark.parametrize("mask", MASKS)
def test_a_backward_convolution_does_what_its_mask_asks_for(mask: str) -> None:
    products, elements = MASKS[mask]
    found = figures("aten::convolution_backward", GRADIENT, X, W, *BACKWARD, mask)
    assert found == (products * 2 * OUT * 3 * 49, 2 * elements)


def test_the_bias_gradient_of_a_convolution_is_a_sum() -> None:
    without = figures("aten::convolution_backward", GRADIENT, X, W, *BACKWARD, "[True, True, False]")
    found = figures("aten::convolution_backward", GRADIENT, X, W, *BACKWARD, "[True, True, True]")
    assert found == (without[0] + OUT, without[1] + 2 * 64)


@pytest.mark.parametrize(("dimensions", "op"), [(1, "aten::convolution"), (3, "aten::convolution")])
def test_convolutions_have_one_to_three_dimensions(dimensions: int, op: str) -> None:
    one = [f"[{', '.join([number] * dimensions)}]" for number in "100"]
    args = (
        bf16(2, 4, *[8] * dimensions),
        bf16(6, 4, *[3] * dimensions),
        None,
        one[0],
        one[1],
        one[0],
        "False",
        one[2],
        "1",
    )
    assert cost(op, *args).flop == 2 * 2 * 6**dimensions * 6 * 4 * 3**dimensions


def test_a_three_dimensional_convolution_without_columns() -> None:
    args = (bf16(2, 4, 8, 8, 8), bf16(6, 4, 3, 3, 3), "[3, 3, 3]", None, "[1, 1, 1]", "[1, 1, 1]")
    assert figures("aten::slow_conv3d_forward", *args) == (2 * 1024 * 648, 2 * (4096 + 648 + 6144))


def test_a_convolution_without_its_numbers_has_no_cost() -> None:
    assert cost_of(Call("aten::cudnn_convolution", (X, W))) is None
    assert cost("aten::convolution_backward", GRADIENT, X, W).flop == 2 * 2 * OUT * 3 * 49

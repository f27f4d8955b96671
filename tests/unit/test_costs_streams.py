"""Costs of everything but matrix products, worked out by hand: which bytes move, how many operations per element."""

from __future__ import annotations

import pytest

from cost_calls import Argument, bf16, cost, figures, fp32, int64, tensor
from support import each_case
from warplens.costs import Call, cost_of

BOOL = tensor("bool", 4, 8)
IMAGE, CHANNELS = bf16(2, 3, 5, 7), fp32(3)
N = 2 * 3 * 5 * 7

NORMS: list[tuple[str, tuple[Argument, ...], float, float]] = [
    # mean and reciprocal deviation of every row are written in fp32
    ("aten::native_layer_norm", (bf16(6, 10), "[10]", fp32(10), bf16(10), "1e-5"), 7 * 60, 2 * 120 + (4 + 2) * 10 + 8 * 6),
    ("aten::native_layer_norm", (bf16(6, 2, 5), "[2, 5]", None, None, "1e-5"), 7 * 60, 2 * 120 + 8 * 6),
    (
        "aten::native_layer_norm_backward",
        (bf16(6, 10), bf16(6, 10), "[10]", fp32(6, 1), fp32(6, 1), fp32(10), fp32(10), "[True, True, True]"),
        14 * 60,
        2 * 120 + 4 * (6 + 6 + 10 + 10) + 2 * 60 + 4 * 20,
    ),
    # a root mean square needs no mean: one statistic
    ("aten::_fused_rms_norm", (bf16(6, 10), "[10]", bf16(10), "1e-5"), 4 * 60, 2 * (120 + 10) + 4 * 6),
    (
        "aten::_fused_rms_norm_backward",
        (bf16(6, 10), bf16(6, 10), "[10]", fp32(6, 1), bf16(10), "[True, True]"),
        9 * 60,
        2 * 120 + 4 * 6 + 2 * 10 + 2 * 60 + 2 * 10,
    ),
    ("aten::native_group_norm", (IMAGE, CHANNELS, CHANNELS, "2", "3", "35", "3", "1e-5"), 7 * N, 4 * N + 4 * 6),
    (
        "aten::native_group_norm_backward",
        (IMAGE, IMAGE, fp32(2, 3), fp32(2, 3), CHANNELS),
        14 * N,
        2 * 2 * N + 4 * (6 + 6 + 3) + 2 * N + 4 * 6,
    ),
    *[
        (f"aten::{name}", (IMAGE, CHANNELS, bf16(3)), 7 * N, 4 * N + (4 + 2) * 3)
        for name in ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "_batch_norm_with_update")
    ],
    *[
        (f"aten::{name}", (IMAGE, IMAGE, CHANNELS), 14 * N, 3 * 2 * N + 4 * 3 + 4 * 6)
        for name in (
            "native_batch_norm_backward", "cudnn_batch_norm_backward", "miopen_batch_norm_backward", "batch_norm_backward"
        )
    ],
    ("aiter::_groupnorm_run", (IMAGE, "1", bf16(3), bf16(3), "1e-6"), 7 * N, 4 * N + 2 * 6),
    ("_C::rms_norm", (bf16(6, 10), bf16(6, 10), bf16(10), "1e-5"), 4 * 60, 2 * (60 + 60 + 10)),
    ("_C::fused_add_rms_norm", (bf16(6, 10), bf16(6, 10), bf16(10), "1e-5"), 5 * 60, 2 * (120 + 10 + 120)),
]  # fmt: skip

SOFTMAXES: list[tuple[str, tuple[Argument, ...], float, float]] = [
    ("aten::_softmax", (bf16(4, 8), "-1", "False"), 5 * 32, 2 * 64),
    ("aten::_softmax", (tensor("fp16", 4, 8), "-1", "True"), 5 * 32, 2 * 32 + 4 * 32),
    ("aten::_log_softmax", (fp32(4, 8), "1", "False"), 5 * 32, 4 * 64),
    ("aten::_softmax_backward_data", (fp32(4, 8), bf16(4, 8), "1", "5"), 4 * 32, (4 + 2) * 32 + 2 * 32),
    ("aten::_log_softmax_backward_data", (fp32(4, 8), fp32(4, 8), "1", "6"), 4 * 32, 4 * 96),
    ("aten::_masked_softmax", (fp32(4, 8), BOOL, "1"), 5 * 32, 4 * 64 + 32),
]

LOSSES: list[tuple[str, tuple[Argument, ...], float, float]] = [
    # one logit of a row is looked at, whatever the number of classes
    ("aten::nll_loss_forward", (bf16(100, 5000), int64(100), None, "1", "-100"), 100, 100 * (8 + 2)),
    ("aten::nll_loss_backward", (fp32(), fp32(100, 5000), int64(100), None, "1", "-100", fp32()), 100, 100 * (8 + 4)),
    ("aten::nll_loss2d_forward", (fp32(2, 9, 4, 4), int64(2, 4, 4)), 32, 32 * (8 + 4)),
    ("aten::nll_loss2d_backward", (fp32(), fp32(2, 9, 4, 4), int64(2, 4, 4)), 32, 32 * (8 + 4)),
    ("aten::mse_loss", (fp32(4, 8), fp32(4, 8), "1"), 2 * 32, 4 * 96),
    ("aten::mse_loss_backward", (fp32(), fp32(4, 8), fp32(4, 8), "1"), 3 * 32, 4 * 97),
    ("aten::smooth_l1_loss", (fp32(4, 8), fp32(4, 8), "1", "1."), 4 * 32, 4 * 96),
    ("aten::smooth_l1_loss_backward", (fp32(), fp32(4, 8), fp32(4, 8), "1", "1."), 4 * 32, 4 * 97),
    ("aten::huber_loss", (fp32(4, 8), fp32(4, 8), "1", "1."), 4 * 32, 4 * 96),
    ("aten::huber_loss_backward", (fp32(), fp32(4, 8), fp32(4, 8), "1", "1."), 4 * 32, 4 * 97),
    ("aten::binary_cross_entropy", (fp32(4, 8), fp32(4, 8), fp32(8), "1"), 5 * 32, 4 * (96 + 8)),
    ("aten::binary_cross_entropy_backward", (fp32(), fp32(4, 8), fp32(4, 8), None, "1"), 5 * 32, 4 * 97),
    ("aten::binary_cross_entropy_with_logits", (fp32(4, 8), fp32(4, 8), None, fp32(8), "1"), 6 * 32, 4 * (96 + 8)),
]

POINTWISE: list[tuple[str, tuple[Argument, ...], float, float]] = [
    ("aten::relu", (bf16(4, 8),), 32, 2 * 64),
    ("aten::gelu", (bf16(4, 8), "none"), 8 * 32, 2 * 64),
    ("aten::silu", (bf16(4, 8),), 3 * 32, 2 * 64),
    ("aten::silu_backward", (bf16(4, 8), bf16(4, 8)), 6 * 32, 2 * 96),
    ("aten::sigmoid", (bf16(4, 8),), 3 * 32, 2 * 64),
    ("aten::sigmoid_backward", (bf16(4, 8), bf16(4, 8)), 3 * 32, 2 * 96),
    ("aten::tanh_backward", (bf16(4, 8), bf16(4, 8)), 3 * 32, 2 * 96),
    ("aten::mish", (bf16(4, 8),), 5 * 32, 2 * 64),
    ("aten::softplus", (bf16(4, 8), "1", "20"), 3 * 32, 2 * 64),
    ("aten::addcdiv", (fp32(4, 8), fp32(4, 8), fp32(4, 8), "1"), 3 * 32, 4 * 128),
    ("aten::gelu_backward", (bf16(4, 8), bf16(4, 8), "none"), 12 * 32, 2 * 96),
    ("aten::elu_backward", (bf16(4, 8), "1.", "1.", "1.", "False", bf16(4, 8)), 32, 2 * 96),
    ("aten::add", (bf16(4, 8), bf16(4, 8), "1"), 32, 2 * 96),
    ("aten::add_", (bf16(4, 8), fp32(4, 8), "1"), 32, 2 * 32 + 4 * 32 + 2 * 32),
    ("aten::add", (bf16(4, 8), fp32(4, 8), "1"), 32, 2 * 32 + 4 * 32 + 4 * 32),
    # a broadcast operand is read as often as it is stored
    ("aten::mul", (bf16(4, 8), bf16(8)), 32, 2 * (32 + 8 + 32)),
    ("aten::mul", (bf16(4, 8), tensor("bf16", 4, 8, strides=(0, 1))), 32, 2 * (32 + 8 + 32)),
    ("aten::mul", (bf16(4, 1), bf16(1, 8)), 32, 2 * (4 + 8 + 32)),
    # a Python number does not widen the result, but a whole number becomes a float by it
    ("aten::mul", (bf16(4, 8), tensor("fp64")), 32, 2 * 32 + 8 + 2 * 32),
    ("aten::mul", (int64(4, 8), tensor("fp64")), 32, 8 * 32 + 8 + 4 * 32),
    ("aten::pow", (fp32(), tensor("int32", 16)), 16, 4 + 4 * 16 + 4 * 16),
    ("aten::eq", (int64(4, 8), int64(4, 8)), 32, 8 * 64 + 32),
    ("aten::isnan", (fp32(4, 8),), 32, 4 * 32 + 32),
    ("aten::add", (fp32(4, 8), fp32(4, 8), "1", bf16(4, 8)), 32, 4 * 64 + 2 * 32),
    ("aten::where", (BOOL, bf16(4, 8), bf16()), 0, 32 + 2 * 32 + 2 + 2 * 32),
    ("aten::masked_fill", (bf16(4, 8), BOOL, "0"), 0, 2 * 32 + 32 + 2 * 32),
    ("aten::masked_fill_", (bf16(4, 8), BOOL, fp32()), 0, 2 * 32 + 32 + 4 + 2 * 32),
    ("aten::clamp", (bf16(4, 8), "0", "1"), 32, 2 * 64),
    ("aten::clamp", (bf16(4, 8), bf16(8), bf16(8)), 32, 2 * (32 + 16 + 32)),
    ("aten::clamp_min", (bf16(4, 8), bf16(8)), 32, 2 * (32 + 8 + 32)),
    ("aten::addcmul", (fp32(4, 8), fp32(4, 8), fp32(4, 8), "1"), 3 * 32, 4 * 128),
    ("aten::lerp_", (fp32(4, 8), fp32(4, 8), "0.1"), 3 * 32, 4 * 96),
    ("aten::native_dropout", (bf16(4, 8), "0.1", "True"), 3 * 32, 2 * 64 + 32),
    ("aten::native_dropout_backward", (bf16(4, 8), BOOL, "1.1"), 32, 2 * 64 + 32),
    ("aten::polar", (fp32(4, 8), fp32(4, 8)), 4 * 32, 4 * 64 + 8 * 32),
    ("aten::mul", (tensor("complex64", 4, 8), fp32(4, 8)), 32, (8 + 4 + 8) * 32),
    # half of the columns gate the others
    ("aten::glu", (bf16(4, 8), "-1"), 2 * 32, 2 * 32 + 2 * 16),
    ("_C::silu_and_mul", (bf16(4, 4), bf16(4, 8)), (3 + 1) * 16, 2 * 32 + 2 * 16),
    ("_C::gelu_and_mul", (bf16(4, 4), bf16(4, 8)), (8 + 1) * 16, 2 * 32 + 2 * 16),
    ("_C::gelu_tanh_and_mul", (bf16(4, 4), bf16(4, 8)), (8 + 1) * 16, 2 * 32 + 2 * 16),
]

ROPE_AND_QUANTIZE: list[tuple[str, tuple[Argument, ...], float, float]] = [
    # 5 tokens, 8 query heads and 2 key heads of width 16: two products and a sum for each element, in place
    (
        "_C::rotary_embedding",
        (int64(5), bf16(5, 128), bf16(5, 32), "16", bf16(4096, 16), "True"),
        3 * 5 * (128 + 32),
        8 * 5 + 2 * 2 * 5 * (128 + 32),
    ),
    ("aten::quantize_per_tensor", (fp32(4, 8), "0.1", "0", "12"), 3 * 32, 4 * 32 + 32),
    ("aten::quantize_per_channel", (fp32(4, 8), fp32(4), int64(4), "0", "12"), 3 * 32, 4 * (32 + 4) + 8 * 4 + 32),
    ("aten::dequantize", (tensor("int8", 4, 8),), 2 * 32, 32 + 4 * 32),
    ("aten::fake_quantize_per_tensor_affine_cachemask", (bf16(4, 8), "1.", "0", "0", "255"), 5 * 32, 2 * 64 + 32),
    (
        "aten::fake_quantize_per_channel_affine_cachemask",
        (bf16(4, 8), fp32(4), tensor("int32", 4), "0", "0", "255"),
        5 * 32,
        2 * 64 + 32 + 4 * 8,
    ),
    ("_C::static_scaled_fp8_quant", (tensor("fp8", 4, 8), bf16(4, 8), fp32(1)), 2 * 32, 32 + 2 * 32 + 4),
    ("_C::dynamic_scaled_fp8_quant", (tensor("fp8", 4, 8), bf16(4, 8), fp32(1)), 3 * 32, 32 + 2 * 32 + 4),
    ("_C::dynamic_per_token_scaled_fp8_quant", (tensor("fp8", 4, 8), bf16(4, 8), fp32(4, 1)), 3 * 32, 32 + 64 + 16),
    ("_C::static_scaled_int8_quant", (tensor("int8", 4, 8), bf16(4, 8), fp32(1)), 2 * 32, 32 + 64 + 4),
    ("_C::dynamic_scaled_int8_quant", (tensor("int8", 4, 8), bf16(4, 8), fp32(4, 1)), 3 * 32, 32 + 64 + 16),
    # keys and values are read as they are and written as the cache holds them
    *[
        (f"_C_cache_ops::{name}", (bf16(5, 2, 16), bf16(5, 2, 16), *[tensor("fp8", 9, 16, 2, 16)] * 2, int64(5)), 0, 160 * (4 + 2) + 40)
        for name in ("reshape_and_cache", "reshape_and_cache_flash")
    ],
    ("_moe_C::topk_softmax", (fp32(5, 2), tensor("int32", 5, 2), tensor("int32", 5, 2), fp32(5, 8)), 5 * 40, 4 * (40 + 30)),
]  # fmt: skip

REDUCTIONS: list[tuple[str, tuple[Argument, ...], float, float]] = [
    ("aten::sum", (bf16(4, 8), "[0]", "False", None), 32, 2 * (32 + 8)),
    ("aten::sum", (bf16(4, 8), "[-1]", "True", "6"), 32, 2 * 32 + 4 * 4),
    ("aten::sum", (bf16(4, 8), "[]", "False", None), 32, 2 * (32 + 1)),
    # sum.default: the second argument is a dtype, no dimension
    ("aten::sum", (bf16(4, 8), "6"), 32, 2 * 32 + 4),
    ("aten::sum", (BOOL, "[1]", "False", None), 32, 32 + 8 * 4),
    ("aten::mean", (fp32(4, 8), "[-1, -2]", "True", None), 32, 4 * 33),
    ("aten::mean", (fp32(4, 8), None), 32, 4 * 33),
    ("aten::prod", (fp32(4, 8), "0", "False", None), 32, 4 * (32 + 8)),
    *[(f"aten::{name}", (fp32(4, 8), "[0]", "False"), 32, 4 * (32 + 8)) for name in ("amax", "amin")],
    *[(f"aten::{name}", (fp32(4, 8), "1", "False"), 32, 4 * 32 + (4 + 8) * 4) for name in ("max", "min")],
    ("aten::aminmax", (fp32(4, 8), "1", "False"), 32, 4 * 32 + 2 * 4 * 4),
    *[(f"aten::{name}", (fp32(4, 8), "1", "False"), 32, 4 * 32 + 8 * 4) for name in ("argmax", "argmin")],
    *[(f"aten::{name}", (BOOL, "1", "False"), 32, 32 + 4) for name in ("any", "all")],
    ("aten::norm", (fp32(4, 8), "2", "[1]", "False"), 2 * 32, 4 * (32 + 4)),
    ("aten::norm", (fp32(4, 8), "2", "6"), 2 * 32, 4 * (32 + 1)),
    ("aten::linalg_vector_norm", (bf16(4, 8), "2", None, "False", "6"), 2 * 32, 2 * 32 + 4),
    *[(f"aten::{name}", (fp32(4, 8), "[1]", "1", "False"), 4 * 32, 4 * 36) for name in ("var", "std")],
    *[(f"aten::{name}", (fp32(4, 8), "[1]", "1", "False"), 4 * 32, 4 * 40) for name in ("var_mean", "std_mean")],
    ("aten::var", (fp32(4, 8), "True"), 4 * 32, 4 * 33),
    ("aten::logsumexp", (fp32(4, 8), "[1]", "False"), 4 * 32, 4 * 36),
    ("aten::count_nonzero", (fp32(4, 8), "[1]"), 32, 4 * 32 + 8 * 4),
    *[(f"aten::{name}", (bf16(4, 8), "1", "6"), 32, 2 * 32 + 4 * 32) for name in ("cumsum", "cumprod")],
    ("aten::max_pool2d_with_indices", (bf16(2, 3, 8, 8), "[2, 2]", "[2, 2]", "[0, 0]", "[1, 1]", "False"), 96 * 4, 2 * 384 + 10 * 96),
    ("aten::avg_pool2d", (bf16(2, 3, 8, 8), "[2]", "[]", "[0]", "False"), 96 * 4, 2 * 384 + 2 * 96),
    ("aten::avg_pool2d", (bf16(3, 8, 8), "[2, 2]", "[2, 2]", "[0, 0]", "False"), 48 * 4, 2 * 192 + 2 * 48),
    (
        "aten::max_pool2d_with_indices_backward",
        (bf16(2, 3, 4, 4), bf16(2, 3, 8, 8), *["[2, 2]"] * 2, "[0, 0]", "[1, 1]", "False", int64(2, 3, 4, 4)),
        96,
        96 * (2 + 8) + 2 * 384,
    ),
    ("aten::avg_pool2d_backward", (bf16(2, 3, 4, 4), bf16(2, 3, 8, 8), "[2, 2]"), 96, 2 * (96 + 384)),
    ("aten::_adaptive_avg_pool2d", (bf16(2, 3, 8, 8), "[2, 1]"), 384, 2 * (384 + 12)),
    ("aten::_adaptive_avg_pool2d_backward", (bf16(2, 3, 2, 1), bf16(2, 3, 8, 8)), 12, 2 * (12 + 384)),
]  # fmt: skip

MOVEMENTS: list[tuple[str, tuple[Argument, ...], float, float]] = [
    ("aten::copy_", (bf16(4, 8), fp32(4, 8), "False"), 0, (2 + 4) * 32),
    ("aten::copy_", (bf16(4, 8), bf16(8), "False"), 0, 2 * (8 + 32)),
    *[(f"aten::{name}", (bf16(4, 8), "0"), 0, 2 * 64) for name in ("clone", "triu", "tril", "flip", "roll")],
    *[
        (f"aten::{name}", (bf16(4, 8),), 0, 2 * 32)
        for name in ("fill_", "zero_", "random_", "uniform_", "normal_", "bernoulli_", "exponential_")
    ],
    ("aten::_local_scalar_dense", (fp32(),), 0, 8),
    ("aten::arange", ("0", "5", "2", int64(0)), 0, 8 * 3),
    ("aten::arange", ("1.5", "4.5", "1", fp32(0)), 0, 4 * 3),
    ("aten::arange", ("5", "0", "-2", int64(0)), 0, 8 * 3),
    ("aten::arange", ("5", "0", "1", int64(0)), 0, 0),
    ("aten::sort", (fp32(4, 8), "-1", "False"), 0, 4 * 64 + 8 * 32),
    ("aten::argsort", (fp32(4, 8), "-1", "False"), 0, 4 * 32 + 8 * 32),
    ("aten::topk", (fp32(4, 8), "3", "-1", "True", "True"), 0, 4 * 32 + (4 + 8) * 12),
    ("aten::nonzero", (BOOL,), 0, 32),
    # only the rows that are asked for are moved
    ("aten::embedding", (bf16(50_000, 64), int64(2, 10), "-1"), 0, 8 * 20 + 2 * 2 * 20 * 64),
    ("aten::index_select", (bf16(30, 50, 4), "1", int64(7)), 0, 8 * 7 + 2 * 2 * 30 * 7 * 4),
    ("aten::gather", (fp32(100, 200), "1", int64(100, 3)), 0, (8 + 4 + 4) * 300),
    *[(f"aten::{name}", (fp32(100, 200), "1", int64(100, 3), fp32(100, 3)), 0, 16 * 300) for name in ("scatter", "scatter_")],
    *[
        (f"aten::{name}", (fp32(100, 200), "1", int64(100, 3), fp32(100, 3)), 300, (8 + 3 * 4) * 300)
        for name in ("scatter_add", "scatter_add_")
    ],
    ("aten::index_add_", (fp32(100, 8), "0", int64(3), fp32(3, 8), "1"), 24, 8 * 3 + 3 * 4 * 24),
    ("aten::index_copy_", (bf16(2, 100, 8), "1", int64(3), bf16(2, 3, 8)), 0, 8 * 3 + 2 * 2 * 48),
    ("aten::_index_put_impl_", (bf16(100, 8), None, bf16(3, 8), "False", "False"), 0, 2 * 2 * 24),
    ("aten::index_put_", (fp32(100, 8), None, fp32(3, 8), "True"), 24, 3 * 4 * 24),
    *[
        (f"aten::{name}", (bf16(2, 10, 64), int64(2, 10), "500", "-1", "False"), 1280, 2 * 1280 + 8 * 20 + 2 * 500 * 64)
        for name in ("embedding_dense_backward", "embedding_backward")
    ],
]  # fmt: skip


@each_case([*NORMS, *SOFTMAXES, *LOSSES, *POINTWISE, *ROPE_AND_QUANTIZE, *REDUCTIONS, *MOVEMENTS])
def test_operations_and_bytes_by_hand(op: str, args: tuple[Argument, ...], flop: float, moved: float) -> None:
    assert figures(op, *args) == (flop, moved)


@pytest.mark.parametrize(
    ("family", "rows"),
    [("norm", NORMS), ("softmax", SOFTMAXES), ("loss", LOSSES), ("pointwise", POINTWISE), ("reduction", REDUCTIONS)],
)
def test_families_are_named(family: str, rows: list[tuple[str, tuple[Argument, ...], float, float]]) -> None:
    assert {cost(op, *args).family for op, args, *_ in rows} == {family}


def test_a_norm_says_its_rows_and_its_direction() -> None:
    forward = cost("aten::native_layer_norm", bf16(6, 2, 5), "[2, 5]")
    assert forward.params_text == "rows=6 columns=10 pass=forward"
    backward = cost("aten::native_layer_norm_backward", bf16(6, 10), bf16(6, 10), "[10]")
    assert backward.params_text == "rows=6 columns=10 pass=backward"
    assert all(
        dict(cost(op, *args).params)["pass"] == ("backward" if "backward" in op else "forward")
        for op, args, *_ in NORMS
    )


def test_a_copy_says_what_it_casts_and_whether_both_sides_lie_alike() -> None:
    rows, columns = tensor("bf16", 4, 8, strides=(8, 1)), tensor("bf16", 4, 8, strides=(1, 4))
    assert cost("aten::copy_", rows, rows).params_text == "elements=32 dtypes=bf16 strides=same"
    assert cost("aten::copy_", rows, columns).params_text == "elements=32 dtypes=bf16 strides=other"
    cast = cost("aten::copy_", rows, tensor("fp32", 4, 8, strides=(0, 1)))
    assert (cast.family, cast.params_text) == ("cast", "elements=32 dtypes=fp32→bf16 strides=broadcast")
    assert cast.bytes == 4 * 8 + 2 * 32


def test_a_copy_has_no_arithmetic() -> None:
    assert all(cost(op, *args).flop == 0 for op, args, flop, _ in MOVEMENTS if flop == 0)
    assert cost("aten::copy_", bf16(8), bf16(8)).unit == ""


RESAMPLINGS: list[tuple[str, tuple[Argument, ...], float, float]] = [
    ("aten::upsample_nearest2d", (IMAGE, "[10, 14]", None, None), 0, 2 * N + 2 * 4 * N),
    # without a size the factors decide, as in the call of a module
    ("aten::upsample_nearest2d", (IMAGE, None, "[2., 2.]"), 0, 2 * N + 2 * 4 * N),
    ("aten::_upsample_nearest_exact1d", (bf16(2, 3, 8), "[4]", None), 0, 2 * 48 + 2 * 24),
    ("aten::upsample_bilinear2d", (IMAGE, "[5, 14]", "False", None, None), 8 * 2 * N, 2 * N + 2 * 2 * N),
    ("aten::upsample_bilinear2d", (IMAGE, None, "True", "[1.0, 2.0]"), 8 * 2 * N, 2 * N + 2 * 2 * N),
    ("aten::upsample_nearest2d_backward", (IMAGE, "[5, 7]", "[2, 3, 10, 14]"), N, 2 * N + 2 * 4 * N),
]


@pytest.mark.parametrize(("op", "args", "flop", "moved"), RESAMPLINGS)
def test_a_resampled_image_is_read_and_written_at_its_new_size(
    op: str, args: tuple[Argument, ...], flop: float, moved: float
) -> None:
    assert figures(op, *args) == (flop, moved)


@pytest.mark.parametrize("sizes", ["[10]", "[0, 3]", "[99999999, 99999999]", "", "[x, y]"])
def test_a_resampling_to_no_sensible_size_has_no_cost(sizes: str) -> None:
    assert cost_of(Call("aten::upsample_nearest2d", (IMAGE, sizes))) is None

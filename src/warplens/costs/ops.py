"""The op table: which family an op belongs to, and which of its arguments play which role.

Names are without namespace versions and overloads: `aten::add_.Tensor` is looked up as `aten::add_`, then, being in
place, as `aten::add`. Argument numbers are those of the op's schema (PyTorch's native_functions.yaml). The ops of other
libraries are in `serving`, which is loaded when a trace has one.
"""

from __future__ import annotations

from typing import Final

from warplens.costs.attention import BOTTOM_RIGHT, AttentionOp
from warplens.costs.convolution import Convolution
from warplens.costs.family import Family
from warplens.costs.gemm import Gemm, GroupedGemm
from warplens.costs.indexing import AddedRows, Elements, EmbeddingBackward, IndexedElements, PutValues, SelectedRows
from warplens.costs.lists import JoinedTensors, MultiTensor
from warplens.costs.pointwise import Pointwise
from warplens.costs.streams import (
    BACKWARD,
    FORWARD,
    Arange,
    ByteStream,
    Copy,
    Like,
    Pooling,
    Reduction,
    Resampling,
    Resized,
    TopK,
)

NORM_FORWARD_FLOP: Final = 7.0
"""Per element: mean 1, variance 3, normalising 1, scale and shift 2."""
NORM_BACKWARD_FLOP: Final = 14.0
"""Per element: two sums over the row (5), the input's gradient (5), the weights' gradients (4)."""
RMS_FORWARD_FLOP: Final = 4.0
"""Per element: sum of squares 2, normalising 1, scale 1."""
RMS_BACKWARD_FLOP: Final = 9.0
"""Per element: one sum over the row (4), the input's gradient (3), the weight's gradient (2)."""
SOFTMAX_FLOP: Final = 5.0
"""Per element: maximum, subtraction, exponential, sum, division."""

GEMMS: Final[dict[str, Family]] = {
    "aten::mm": Gemm(0, 1, out_dtype=2),
    "aten::addmm": Gemm(1, 2, bias=0),
    "aten::_addmm_activation": Gemm(1, 2, bias=0),
    "aten::bmm": Gemm(0, 1, out_dtype=2),
    "aten::baddbmm": Gemm(1, 2, bias=0),
    "aten::matmul": Gemm(0, 1),
    "aten::linear": Gemm(0, 1, bias=2, b_is_nk=True),
    "aten::mv": Gemm(0, 1),
    "aten::addmv": Gemm(1, 2, bias=0),
    "aten::dot": Gemm(0, 1),
    "aten::_int_mm": Gemm(0, 1),
    "aten::_scaled_mm": Gemm(0, 1, bias=4, out_dtype=6, scales=(2, 3)),
    "aten::_grouped_mm": GroupedGemm(offsets=2, bias=3, out_dtype=4),
    "aten::_scaled_grouped_mm": GroupedGemm(offsets=4, bias=5, out_dtype=7, scales=(2, 3)),
}

ATTENTIONS: Final[dict[str, Family]] = {
    # A causal mask that is not square starts at the top left, but at the bottom right in FlashAttention's kernels.
    "aten::scaled_dot_product_attention": AttentionOp(causal=5, bias=3),
    "aten::_scaled_dot_product_attention_math": AttentionOp(causal=5, bias=3),
    "aten::_scaled_dot_product_flash_attention": AttentionOp(causal=4, aligned=BOTTOM_RIGHT),
    "aten::_scaled_dot_product_efficient_attention": AttentionOp(causal=6, bias=3),
    "aten::_scaled_dot_product_cudnn_attention": AttentionOp(causal=6, bias=3),
    "aten::_scaled_dot_product_fused_attention_overrideable": AttentionOp(causal=5, bias=3),
    "aten::_flash_attention_forward": AttentionOp(
        causal=8, order="bnhd", cumulative_q=3, cumulative_k=4, aligned=BOTTOM_RIGHT
    ),
    "aten::_efficient_attention_forward": AttentionOp(
        order="bnhd", bias=3, cumulative_q=4, cumulative_k=5, mask_type=9
    ),
    "aten::_cudnn_attention_forward": AttentionOp(causal=10, bias=3, cumulative_q=4, cumulative_k=5),
    "aten::_scaled_dot_product_flash_attention_backward": AttentionOp(
        1, causal=11, aligned=BOTTOM_RIGHT, backward=True
    ),
    "aten::_scaled_dot_product_efficient_attention_backward": AttentionOp(1, causal=11, bias=4, backward=True),
    "aten::_scaled_dot_product_cudnn_attention_backward": AttentionOp(1, causal=14, bias=8, backward=True),
    "aten::_flash_attention_backward": AttentionOp(
        1, causal=11, order="bnhd", cumulative_q=6, cumulative_k=7, aligned=BOTTOM_RIGHT, backward=True
    ),
    "aten::_efficient_attention_backward": AttentionOp(
        1, order="bnhd", bias=4, cumulative_q=6, cumulative_k=7, mask_type=14, backward=True
    ),
    "aten::_cudnn_attention_backward": AttentionOp(
        1, causal=14, bias=8, cumulative_q=9, cumulative_k=10, backward=True
    ),
}

CONVOLUTIONS: Final[dict[str, Family]] = {
    "aten::convolution": Convolution(bias=2, stride=3, padding=4, dilation=5, transposed=6, output_padding=7, groups=8),
    "aten::_convolution": Convolution(
        bias=2, stride=3, padding=4, dilation=5, transposed=6, output_padding=7, groups=8
    ),
    "aten::cudnn_convolution": Convolution(padding=2, stride=3, dilation=4, groups=5),
    "aten::cudnn_convolution_transpose": Convolution(
        padding=2, output_padding=3, stride=4, dilation=5, groups=6, always_transposed=True
    ),
    "aten::cudnn_convolution_relu": Convolution(bias=2, stride=3, padding=4, dilation=5, groups=6),
    "aten::cudnn_convolution_add_relu": Convolution(added=2, bias=4, stride=5, padding=6, dilation=7, groups=8),
    "aten::miopen_convolution": Convolution(bias=2, padding=3, stride=4, dilation=5, groups=6),
    "aten::miopen_depthwise_convolution": Convolution(bias=2, padding=3, stride=4, dilation=5, groups=6),
    "aten::miopen_convolution_transpose": Convolution(
        bias=2, padding=3, output_padding=4, stride=5, dilation=6, groups=7, always_transposed=True
    ),
    "aten::_conv_depthwise2d": Convolution(bias=3, stride=4, padding=5, dilation=6),
    "aten::thnn_conv2d": Convolution(bias=3, stride=4, padding=5),
    "aten::_slow_conv2d_forward": Convolution(bias=3, stride=4, padding=5),
    "aten::slow_conv3d_forward": Convolution(bias=3, stride=4, padding=5),
    "aten::convolution_backward": Convolution(
        1, 2, stride=4, padding=5, dilation=6, transposed=7, output_padding=8, groups=9, gradient=0, output_mask=10
    ),
}


def _norm(reads: tuple[int, ...], rows_from: int | None = None) -> ByteStream:
    return ByteStream("norm", reads, (Like(0),), NORM_FORWARD_FLOP, rows_from=rows_from, direction=FORWARD)


def _norm_backward(reads: tuple[int, ...], x: int, weight: int, rows_from: int | None = None) -> ByteStream:
    """The gradients of the input, the weight and the bias are written."""
    writes = (Like(x), Like(weight), Like(weight))
    return ByteStream("norm", reads, writes, NORM_BACKWARD_FLOP, x, rows_from, direction=BACKWARD)


NORMS: Final[dict[str, Family]] = {
    "aten::native_layer_norm": _norm((0, 2, 3), rows_from=1),
    "aten::native_layer_norm_backward": _norm_backward((0, 1, 3, 4, 5, 6), 1, 5, rows_from=2),
    "aten::_fused_rms_norm": ByteStream(
        "norm", (0, 2), (Like(0),), RMS_FORWARD_FLOP, rows_from=1, statistics=1, direction=FORWARD
    ),
    "aten::_fused_rms_norm_backward": ByteStream(
        "norm", (0, 1, 3, 4), (Like(1), Like(4)), RMS_BACKWARD_FLOP, main=1, rows_from=2, direction=BACKWARD
    ),
    "aten::native_group_norm": _norm((0, 1, 2)),
    "aten::native_group_norm_backward": _norm_backward((0, 1, 2, 3, 4), 1, 4),
    "aten::native_batch_norm": _norm((0, 1, 2)),
    "aten::native_batch_norm_backward": _norm_backward((0, 1, 2), 1, 2),
    "aten::cudnn_batch_norm": _norm((0, 1, 2)),
    "aten::cudnn_batch_norm_backward": _norm_backward((0, 1, 2), 0, 2),
    "aten::miopen_batch_norm": _norm((0, 1, 2)),
    "aten::miopen_batch_norm_backward": _norm_backward((0, 1, 2), 0, 2),
    "aten::_batch_norm_with_update": _norm((0, 1, 2)),
    "aten::batch_norm_backward": _norm_backward((0, 1, 2), 1, 2),
}

SOFTMAXES: Final[dict[str, Family]] = {
    "aten::_softmax": ByteStream("softmax", (0,), (Like(0, fp32_if=2),), SOFTMAX_FLOP),
    "aten::_log_softmax": ByteStream("softmax", (0,), (Like(0, fp32_if=2),), SOFTMAX_FLOP),
    "aten::_softmax_backward_data": ByteStream("softmax", (0, 1), (Like(0, dtype_arg=3),), 4.0, direction=BACKWARD),
    "aten::_log_softmax_backward_data": ByteStream("softmax", (0, 1), (Like(0, dtype_arg=3),), 4.0, direction=BACKWARD),
    "aten::_masked_softmax": ByteStream("softmax", (0, 1), (Like(0),), SOFTMAX_FLOP),
}

LOSSES: Final[dict[str, Family]] = {
    # Of the (rows, classes) input one element per target is touched.
    "aten::nll_loss_forward": ByteStream("loss", (1,), (Like(1, dtype_of=0),), 1.0, main=1),
    "aten::nll_loss_backward": ByteStream("loss", (2,), (Like(2, dtype_of=1),), 1.0, main=2),
    "aten::nll_loss2d_forward": ByteStream("loss", (1,), (Like(1, dtype_of=0),), 1.0, main=1),
    "aten::nll_loss2d_backward": ByteStream("loss", (2,), (Like(2, dtype_of=1),), 1.0, main=2),
    "aten::mse_loss": Pointwise(2, 2.0, family="loss"),
    "aten::mse_loss_backward": Pointwise(3, 3.0, family="loss"),
    "aten::smooth_l1_loss": Pointwise(2, 4.0, family="loss"),
    "aten::smooth_l1_loss_backward": Pointwise(3, 4.0, family="loss"),
    "aten::huber_loss": Pointwise(2, 4.0, family="loss"),
    "aten::huber_loss_backward": Pointwise(3, 4.0, family="loss"),
    "aten::binary_cross_entropy": Pointwise(3, 5.0, family="loss"),
    "aten::binary_cross_entropy_backward": Pointwise(4, 5.0, family="loss"),
    "aten::binary_cross_entropy_with_logits": Pointwise(4, 6.0, family="loss"),
}

ONE_OPERAND: Final = (
    "abs neg sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh erf "
    "erfc erfinv sigmoid logit relu relu6 silu floor ceil round trunc frac sign sgn square "
    "hardtanh hardswish hardsigmoid mish softplus elu celu selu leaky_relu threshold nan_to_num bitwise_not "
    "logical_not isnan isinf isfinite lgamma digamma gelu log_sigmoid_forward positive"
).split()
TWO_OPERANDS: Final = (
    "add sub rsub mul div true_divide floor_divide remainder fmod pow atan2 maximum minimum fmax fmin hypot "
    "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift logical_and logical_or logical_xor "
    "eq ne lt le gt ge prelu sigmoid_backward tanh_backward threshold_backward silu_backward gelu_backward "
    "leaky_relu_backward hardtanh_backward hardswish_backward hardsigmoid_backward mish_backward "
    "softplus_backward native_dropout_backward xlogy copysign heaviside ldexp clamp_min clamp_max"
).split()
THREE_OPERANDS: Final = "where lerp addcmul addcdiv clamp masked_fill".split()
COMPARISONS: Final = frozenset(
    "eq ne lt le gt ge logical_not logical_and logical_or logical_xor isnan isinf isfinite".split()
)
OPERATIONS: Final = {
    "gelu": 8.0, "gelu_backward": 12.0, "silu": 3.0, "silu_backward": 6.0, "sigmoid": 3.0, "sigmoid_backward": 3.0,
    "tanh_backward": 3.0, "mish": 5.0, "softplus": 3.0, "addcmul": 3.0, "addcdiv": 3.0, "lerp": 3.0, "where": 0.0,
    "masked_fill": 0.0,
}  # fmt: skip
QUANTIZE: Final = ByteStream("quantize", (0, 1, 2), (Like(0, dtype="int8"),), 3.0)
FAKE_QUANTIZE: Final = ByteStream("quantize", (0, 1, 2), (Like(0), Like(0, dtype="bool")), 5.0)
POINTWISE: Final[dict[str, Family]] = {
    f"aten::{name}": Pointwise(inputs, OPERATIONS.get(name, 1.0), "bool" if name in COMPARISONS else "")
    for inputs, names in ((1, ONE_OPERAND), (2, TWO_OPERANDS), (3, THREE_OPERANDS))
    for name in names
} | {
    "aten::addcmul": Pointwise(3, 3.0, may_alias=True),
    "aten::native_dropout": Pointwise(1, 3.0, extra_result="bool"),
    "aten::elu_backward": Pointwise(6, 1.0),  # the saved tensor comes after three numbers and a flag
    "aten::polar": Pointwise(2, 4.0, "complex64"),
    "aten::glu": ByteStream("pointwise", (0,), (Like(0, share=0.5),), 2.0),
    "aten::quantize_per_tensor": QUANTIZE,
    "aten::quantize_per_channel": QUANTIZE,
    "aten::dequantize": Pointwise(1, 2.0, "fp32", family="quantize"),
    "aten::fake_quantize_per_tensor_affine_cachemask": FAKE_QUANTIZE,
    "aten::fake_quantize_per_channel_affine_cachemask": FAKE_QUANTIZE,
}

REDUCTIONS: Final[dict[str, Family]] = {
    "aten::sum": Reduction(dtype_arg=3, sums=True),
    "aten::mean": Reduction(dtype_arg=3),
    "aten::prod": Reduction(dtype_arg=3, sums=True),
    "aten::amax": Reduction(),
    "aten::amin": Reduction(),
    "aten::max": Reduction(results=("", "int64")),
    "aten::min": Reduction(results=("", "int64")),
    "aten::aminmax": Reduction(results=("", "")),
    "aten::argmax": Reduction(results=("int64",)),
    "aten::argmin": Reduction(results=("int64",)),
    "aten::any": Reduction(results=("bool",)),
    "aten::all": Reduction(results=("bool",)),
    "aten::norm": Reduction(dim=2, flop=2.0, dtype_arg=4),
    "aten::linalg_vector_norm": Reduction(dim=2, flop=2.0, dtype_arg=4),
    "aten::var": Reduction(flop=4.0),
    "aten::std": Reduction(flop=4.0),
    "aten::var_mean": Reduction(results=("", ""), flop=4.0),
    "aten::std_mean": Reduction(results=("", ""), flop=4.0),
    "aten::logsumexp": Reduction(flop=4.0),
    "aten::count_nonzero": Reduction(results=("int64",)),
    "aten::cumsum": ByteStream("reduction", (0,), (Like(0, dtype_arg=2),), 1.0),
    "aten::cumprod": ByteStream("reduction", (0,), (Like(0, dtype_arg=2),), 1.0),
    "aten::sort": ByteStream("sort", (0,), (Like(0), Like(0, dtype="int64"))),
    "aten::argsort": ByteStream("sort", (0,), (Like(0, dtype="int64"),)),
    "aten::topk": TopK(),
    "aten::max_pool2d_with_indices": Pooling("int64", dilation=4, ceil=5),
    "aten::avg_pool2d": Pooling(),
    "aten::max_pool2d_with_indices_backward": ByteStream("reduction", (0, 7), (Like(1),), 1.0),
    "aten::avg_pool2d_backward": ByteStream("reduction", (0,), (Like(1),), 1.0),
    "aten::_adaptive_avg_pool2d": ByteStream("reduction", (0,), (Resized(0, 1),), 1.0),
    "aten::_adaptive_avg_pool2d_backward": ByteStream("reduction", (0,), (Like(1),), 1.0),
}

SAMPLED_FLOP: Final = {
    # Per element written: a weighted sum of 2, 4, 8 or 16 neighbours; bicubic weights are cubic polynomials.
    "nearest1d": 0.0, "nearest2d": 0.0, "nearest3d": 0.0, "linear1d": 4.0, "bilinear2d": 8.0, "trilinear3d": 16.0,
    "bicubic2d": 48.0,
}  # fmt: skip
RESAMPLED: Final = {
    **{f"upsample_{kind}": kind for kind in SAMPLED_FLOP},
    **{f"_upsample_nearest_exact{size}d": f"nearest{size}d" for size in (1, 2, 3)},
    **{f"_upsample_{kind}_aa": kind for kind in ("bilinear2d", "bicubic2d")},
}
RESAMPLINGS: Final[dict[str, Family]] = {
    # Smooth ones take a flag before the factors.
    f"aten::{name}": Resampling(int(kind[-2]), SAMPLED_FLOP[kind], factors=2 if "nearest" in kind else 3)
    for name, kind in RESAMPLED.items()
} | {
    f"aten::{name}_backward": ByteStream("pointwise", (0,), (Resized(0, 2),), SAMPLED_FLOP[kind] or 1.0)
    for name, kind in RESAMPLED.items()
}

MOVEMENTS: Final[dict[str, Family]] = {
    "aten::copy_": Copy(),
    "aten::clone": ByteStream("copy", (0,), (Like(0),)),
    "aten::cat": JoinedTensors(),
    "aten::stack": JoinedTensors(),
    "aten::fill_": ByteStream("fill", (), (Like(0),)),
    "aten::zero_": ByteStream("fill", (), (Like(0),)),
    "aten::random_": ByteStream("fill", (), (Like(0),)),
    "aten::uniform_": ByteStream("fill", (), (Like(0),)),
    "aten::normal_": ByteStream("fill", (), (Like(0),)),
    "aten::bernoulli_": ByteStream("fill", (1,), (Like(0),)),
    "aten::exponential_": ByteStream("fill", (), (Like(0),)),
    "aten::arange": Arange(),
    "aten::triu": ByteStream("copy", (0,), (Like(0),)),
    "aten::tril": ByteStream("copy", (0,), (Like(0),)),
    "aten::flip": ByteStream("copy", (0,), (Like(0),)),
    "aten::roll": ByteStream("copy", (0,), (Like(0),)),
    "aten::_local_scalar_dense": ByteStream("copy", (0,), (Like(0),)),
    "aten::nonzero": ByteStream("indexing", (0,), approximate="how many elements are found is not recorded"),
    "aten::embedding": SelectedRows(0, 1),
    "aten::index_select": SelectedRows(0, 2, dim=1),
    "aten::gather": Elements(0, 2),
    "aten::scatter_": Elements(0, 2),
    "aten::scatter": Elements(0, 2),
    "aten::scatter_add_": Elements(0, 2, 3.0, adds=True),
    "aten::scatter_add": Elements(0, 2, 3.0, adds=True),
    "aten::index_add_": AddedRows(0, 2, 3),
    "aten::index": IndexedElements(),
    "aten::index_copy_": AddedRows(0, 2, 3, adds=False),
    "aten::index_put_": PutValues(),
    "aten::_index_put_impl_": PutValues(),
    "aten::embedding_dense_backward": EmbeddingBackward(),
    "aten::embedding_backward": EmbeddingBackward(),
}

FOREACH_FLOP: Final = {"addcdiv": 3.0, "addcmul": 3.0, "lerp": 3.0, "copy": 0.0, "zero": 0.0, "norm": 2.0}
FUSED_OPTIMIZERS: Final[dict[str, Family]] = {
    # Weights, gradients and states are read; all but the gradients are written.
    "aten::_fused_adam_": MultiTensor(4, 3, 15.0, one_more_if=11),
    "aten::_fused_adamw_": MultiTensor(4, 3, 16.0, one_more_if=11),
    "aten::_fused_sgd_": MultiTensor(2, 1, 4.0, one_more_if=4),
    "aten::_fused_adagrad_": MultiTensor(3, 2, 7.0),
    "aten::_foreach_norm": MultiTensor(1, 0, 2.0),
    "aten::_foreach_zero_": MultiTensor(0, 1, 0.0),
    "aten::_foreach_copy_": MultiTensor(1, 1, 0.0),
    "aten::_amp_foreach_non_finite_check_and_unscale_": MultiTensor(1, 1, 2.0),
}

OPS: Final[dict[str, Family]] = {
    **GEMMS, **ATTENTIONS, **CONVOLUTIONS, **NORMS, **SOFTMAXES, **LOSSES, **POINTWISE, **REDUCTIONS,
    **RESAMPLINGS, **MOVEMENTS,
    **FUSED_OPTIMIZERS,
}  # fmt: skip

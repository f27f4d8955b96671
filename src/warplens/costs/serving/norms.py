"""Norms, activations and rotary embeddings of serving engines. Argument numbers are those of their registrations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from warplens.costs.family import Family
from warplens.costs.ops import NORM_FORWARD_FLOP, OPERATIONS, RMS_FORWARD_FLOP
from warplens.costs.streams import FORWARD, ByteStream, Like


def norm(reads: tuple[int, ...], writes: tuple[Like, ...], main: int, flop: float = RMS_FORWARD_FLOP) -> ByteStream:
    return ByteStream("norm", reads, writes, flop, main=main, direction=FORWARD)


def gated(out: int = 0, source: int = 1, flop: float = 2.0) -> ByteStream:
    """An activation of one half times the other half."""
    return ByteStream("pointwise", (source,), (Like(out),), flop, main=source)


GATED: Final = {"silu_and_mul": "silu", "gelu_and_mul": "gelu", "gelu_tanh_and_mul": "gelu"}
"""Op: its activation. Per element read, it counts half of what the activation and the product count alone."""
RMS: Final = norm((1, 2), (Like(0),), 1)
ADD_RMS: Final = norm((0, 1, 2), (Like(0), Like(1)), 0, RMS_FORWARD_FLOP + 1)
ADD_RMS_OUT: Final = norm((1, 2, 4), (Like(0), Like(3)), 1, RMS_FORWARD_FLOP + 1)
"""(out, input, residual in, residual out, weight)"""
RETURNED_RMS: Final = norm((0, 1), (Like(0),), 0)

NORMS: Final[dict[str, Family]] = {
    "_C::rms_norm": RMS,
    "sgl_kernel::rmsnorm": RMS,
    "sgl_kernel::gemma_rmsnorm": RMS,
    "flashinfer::rmsnorm": RMS,
    "flashinfer::gemma_rmsnorm": RMS,
    "aiter::rmsnorm": RMS,
    "aiter::rms_norm_cu": RMS,
    "_C::fused_add_rms_norm": ADD_RMS,
    "sgl_kernel::fused_add_rmsnorm": ADD_RMS,
    "sgl_kernel::gemma_fused_add_rmsnorm": ADD_RMS,
    "flashinfer::fused_add_rmsnorm": ADD_RMS,
    "flashinfer::gemma_fused_add_rmsnorm": ADD_RMS,
    "aiter::fused_add_rms_norm_cu": ADD_RMS,
    "aiter::add_rmsnorm": ADD_RMS_OUT,
    "aiter::rmsnorm2d_fwd_with_add": ADD_RMS_OUT,
    "aiter::rmsnorm2d_fwd_with_add_ck": ADD_RMS_OUT,
    "aiter::rms_norm": RETURNED_RMS,
    "aiter::rmsnorm2d_fwd": RETURNED_RMS,
    "aiter::rmsnorm2d_fwd_ck": RETURNED_RMS,
    "vllm::rocm_aiter_rms_norm": RETURNED_RMS,
    "vllm::rocm_aiter_rmsnorm2d_fwd_with_add": norm((0, 1, 2), (Like(0), Like(1)), 0, RMS_FORWARD_FLOP + 1),
    "vllm::rocm_aiter_triton_add_rmsnorm_pad": norm((0, 1, 3), (Like(0), Like(3)), 0, RMS_FORWARD_FLOP + 1),
    "_C::rms_norm_static_fp8_quant": norm((1, 2, 3), (Like(0),), 1, RMS_FORWARD_FLOP + 2),
    "_C::fused_add_rms_norm_static_fp8_quant": norm((1, 2, 3, 4), (Like(0), Like(2)), 1, RMS_FORWARD_FLOP + 3),
    "_C::rms_norm_dynamic_per_token_quant": norm((1, 2, 6), (Like(0), Like(3), Like(6)), 1, RMS_FORWARD_FLOP + 3),
    "_C::rms_norm_per_block_quant": norm((1, 2, 6), (Like(0), Like(3), Like(6)), 1, RMS_FORWARD_FLOP + 3),
    "aiter::rmsnorm_quant": norm((1, 3), (Like(0), Like(2)), 1, RMS_FORWARD_FLOP + 3),
    "aiter::add_rmsnorm_quant": norm((1, 2, 5), (Like(0), Like(3), Like(4)), 1, RMS_FORWARD_FLOP + 4),
    "aiter::rmsnorm2d_fwd_with_dynamicquant": norm((1, 3), (Like(0), Like(2)), 1, RMS_FORWARD_FLOP + 3),
    "aiter::rmsnorm2d_fwd_with_dynamicquant_ck": norm((1, 3), (Like(0), Like(2)), 1, RMS_FORWARD_FLOP + 3),
    "aiter::rmsnorm2d_fwd_with_add_dynamicquant_ck": norm(
        (1, 2, 5), (Like(0), Like(3), Like(4)), 1, RMS_FORWARD_FLOP + 4
    ),
    "vllm::rocm_aiter_rmsnorm_fp8_group_quant": norm((0, 1), (Like(0, dtype="fp8"),), 0, RMS_FORWARD_FLOP + 3),
    "vllm::rocm_aiter_rmsnorm_with_add_fp8_group_quant": norm(
        (0, 1, 2), (Like(0, dtype="fp8"), Like(1)), 0, RMS_FORWARD_FLOP + 4
    ),
    "aiter::layernorm2d_fwd": norm((0, 1, 2), (Like(0),), 0, NORM_FORWARD_FLOP),
    "aiter::layer_norm": norm((0, 1, 2), (Like(0),), 0, NORM_FORWARD_FLOP),
    "aiter::layernorm2d_fwd_with_add": norm((1, 2, 4, 5), (Like(0), Like(3)), 1, NORM_FORWARD_FLOP + 1),
    "aiter::_groupnorm_run": norm((0, 2, 3), (Like(0),), 0, NORM_FORWARD_FLOP),
    "sglang::layernorm": norm((0, 1, 2), (Like(0),), 0, NORM_FORWARD_FLOP),
}

ACTIVATIONS: Final[Mapping[str, Family]] = {
    f"{space}::{name}": gated(flop=(OPERATIONS[activation] + 1) / 2)
    for space in ("_C", "sgl_kernel", "aiter", "flashinfer")
    for name, activation in GATED.items()
} | {
    "_C::mul_and_silu": gated(),
    "_C::fatrelu_and_mul": gated(),
    "_C::swigluoai_and_mul": gated(flop=4.0),
    "_C::silu_and_mul_with_clamp": gated(flop=4.0),
    "_C::gelu_new": gated(flop=OPERATIONS["gelu"]),
    "_C::gelu_fast": gated(flop=OPERATIONS["gelu"]),
    "_C::gelu_quick": gated(flop=4.0),
    "sgl_kernel::gelu_quick": gated(flop=4.0),
    "aiter::gelu_fast": gated(flop=OPERATIONS["gelu"]),
    "aiter::scaled_silu_and_mul": ByteStream("pointwise", (1, 2), (Like(0),), 3.0, main=1),
    "_C::silu_and_mul_quant": ByteStream("quantize", (1, 2), (Like(0),), 4.0, main=1),
    "_C::silu_and_mul_per_block_quant": ByteStream("quantize", (1,), (Like(0), Like(2)), 5.0, main=1),
    "aiter::silu_and_mul_quant": ByteStream("quantize", (1,), (Like(0), Like(2)), 5.0, main=1),
    "vllm::rocm_aiter_act_mul_and_fp8_group_quant": ByteStream(
        "quantize", (0,), (Like(0, dtype="fp8", share=0.5),), 5.0
    ),
    "sglang::_run_activation_inplace": ByteStream("pointwise", (1,), (Like(2),), 2.0, main=1),
}

ROPE: Final = ByteStream("rope", (0, 1, 2), (Like(1), Like(2)), 3.0, main=1, counted=(2,))
"""(positions, query, key, …), in place"""
ROPE_OUT: Final = ByteStream("rope", (0, 1, 5), (Like(2), Like(3)), 3.0, counted=(1,))
"""(q, k, q out, k out, cos and sin, positions)"""
ROPES: Final[dict[str, Family]] = {
    "_C::rotary_embedding": ROPE,
    "_C::batched_rotary_embedding": ROPE,
    "sgl_kernel::rotary_embedding": ROPE,
    "sglang::rotary_embedding_with_key": ROPE,
    "sglang::rotary_embedding_without_key": ByteStream("rope", (0, 1), (Like(1),), 3.0, main=1),
    "sglang::apply_rope_inplace": ByteStream("rope", (0, 1, 3), (Like(0), Like(1)), 3.0, counted=(1,)),
    "sglang::apply_rope_inplace_with_kvcache": ByteStream(
        "rope", (0, 1, 2, 6, 7), (Like(0), Like(1), Like(1, dtype_of=3), Like(2, dtype_of=4)), 3.0, counted=(1,)
    ),
    "vllm::flashinfer_rotary_embedding": ROPE,
    "vllm::rocm_aiter_rotary_emb_with_key_forward_triton": ROPE,
    "vllm::rocm_aiter_triton_rotary_embedding": ROPE,
    "vllm::rocm_aiter_rotary_emb_without_key_forward_triton": ByteStream("rope", (0, 1), (Like(1),), 3.0, main=1),
    "aiter::rotary_embedding_fwd": ROPE,
    "aiter::rope_cached_positions_2c_fwd_impl": ByteStream(
        "rope", (2, 3, 6), (Like(0), Like(1)), 3.0, main=2, counted=(3,)
    ),
    "aiter::rope_cached_fwd_impl": ByteStream("rope", (1, 2, 3), (Like(0),), 3.0, main=1),
    "aiter::rope_fwd_impl": ByteStream("rope", (1, 2), (Like(0),), 3.0, main=1),
    "sgl_kernel::apply_rope_pos_ids_cos_sin_cache": ROPE_OUT,
    "flashinfer::apply_rope_pos_ids_cos_sin_cache": ROPE_OUT,
    "_C::fused_qk_norm_rope": ByteStream("rope", (0,), (Like(0),), 3.0 + RMS_FORWARD_FLOP),
    "sgl_kernel::fused_qk_norm_rope": ByteStream("rope", (0,), (Like(0),), 3.0 + RMS_FORWARD_FLOP),
}

"""Mixtures of experts of serving engines. Argument numbers are those of their registrations."""

from __future__ import annotations

from typing import Final

from warplens.costs.family import Family
from warplens.costs.serving.experts import ExpertLayer, ExpertProduct, Experts

SORTED: Final = Experts(1, 2, 3, top_k=8, scales=(10, 11))
"""aiter's fused kernels: the tokens come with lists that sort them by expert."""
STAGE_1: Final = ExpertProduct(0, 1, out=6, top_k=7, scales=(9,))
STAGE_2: Final = ExpertProduct(0, 2, out=6, scales=(9,))

MOES: Final[dict[str, Family]] = {
    "vllm::moe_forward": ExpertLayer(),
    "vllm::moe_forward_shared": ExpertLayer(),
    "vllm::transformers_moe_forward": ExpertLayer(scores=None, chosen=1),
    "sglang::moe_forward_piecewise_cuda_graph_impl": ExpertLayer(scores=3, chosen=2),
    "sglang::fused_moe_bypassed_piecewise_cuda_graph_impl": ExpertLayer(),
    "vllm::inplace_fused_experts": Experts(0, 1, 2, 4),
    "vllm::outplace_fused_experts": Experts(0, 1, 2, 4),
    "vllm::fused_experts": Experts(0, 1, 2, 4, scales=(15, 16), all_experts=13),
    "vllm::fused_marlin_moe": Experts(0, 1, 2),
    "vllm::rocm_aiter_fused_moe": Experts(0, 1, 2, 4, scales=(9, 10)),
    "vllm::rocm_aiter_asm_moe_tkw1": Experts(0, 1, 2, 4, scales=(5, 6)),
    "sglang::inplace_fused_experts": Experts(0, 1, 2, 4, scales=(15, 16)),
    "sglang::outplace_fused_experts": Experts(0, 1, 2, 4, scales=(15, 16)),
    "sglang::fused_marlin_moe": Experts(0, 1, 2, 7, scales=(3, 4), all_experts=8),
    "sglang::rocm_aiter_asm_moe_tkw1": Experts(0, 1, 2, 4, scales=(5, 6)),
    "aiter::fused_moe_": Experts(0, 1, 2, 4, scales=(9, 10)),
    "aiter::fmoe": Experts(1, 2, 3, top_k=8),
    "aiter::fmoe_g1u1": SORTED,
    "aiter::fmoe_g1u1_tkw1": SORTED,
    "aiter::fmoe_int8_g1u0": SORTED,
    "aiter::fmoe_g1u1_a16": Experts(1, 2, 3, top_k=8, scales=(9, 10)),
    "aiter::fmoe_fp8_blockscale_g1u1": SORTED,
    "aiter::ck_moe_stage1": STAGE_1,
    "aiter::ck_moe_stage2": STAGE_2,
    "aiter::moe_stage1_g1u1": ExpertProduct(0, 1, out=6),
    "aiter::moe_cktile2stages_gemm1_ck": ExpertProduct(0, 1, out=2, top_k=6, scales=(11,)),
    "aiter::moe_cktile2stages_gemm2_ck": ExpertProduct(0, 1, out=2, scales=(11,)),
    "flashinfer::cutlass_fused_moe": Experts(1, 4, 6, 2),
    "_C::cutlass_moe_mm": ExpertProduct(1, 2, out=0, scales=(4,)),
    "_C::cutlass_fp4_group_mm": ExpertProduct(1, 2, out=0, scales=(4,), padded=True),
    "_C::cutlass_mxfp4_group_mm": ExpertProduct(1, 2, out=0, scales=(4,), padded=True),
    "sgl_kernel::cutlass_fp4_group_mm": ExpertProduct(1, 2, out=0, scales=(4,), padded=True),
    "sgl_kernel::fp8_blockwise_scaled_grouped_mm": ExpertProduct(6, 7, out=0, scales=(9,), padded=True),
    "_moe_C::moe_wna16_gemm": ExpertProduct(0, 2, out=1, top_k=9, scales=(3,)),
}

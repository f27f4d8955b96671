"""Matrix products of serving engines. Argument numbers are those of their registrations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from warplens.costs.family import Family
from warplens.costs.gemm import Gemm
from warplens.costs.serving.products import PackedProduct, Product

LINEAR: Final = Gemm(0, 1, bias=2, b_is_nk=True)
A8W8: Final = Product(0, 1, out=4, scales=(2, 3))
OUT_FIRST: Final = Product(1, 2, out=0)
A8W8_OPS: Final = [
    "gemm_a8w8_ck",
    "gemm_a8w8_bpreshuffle_ck",
    "gemm_a8w8_bpreshuffle_cktile",
    "_gemm_a8w8_asm",
    "gemm_a8w8_asm",
    "gemm_a8w8_blockscale_ck",
    "gemm_a8w8_blockscale_cktile",
    "gemm_a8w8_blockscale_bpreshuffle_ck",
    "gemm_a8w8_blockscale_bpreshuffle_cktile",
    "_flatmm_a8w8_blockscale_asm",
    "flatmm_a8w8_blockscale_asm",
    "_gemm_a4w4_asm",
    "gemm_a4w4_asm",
    "gemm_a4w4_blockscale",
    "_mxfp4_gemm_asm",
]

VLLM: Final[dict[str, Family]] = {
    "vllm::rocm_unquantized_gemm": LINEAR,
    "vllm::rocm_unquantized_gemm_impl": LINEAR,
    "vllm::min_latency_fused_qkv_a_proj": Product(0, 1),
    "vllm::fp32_router_gemm_dispatch": Product(0, 1, result="fp32"),
    "vllm::rocm_aiter_w8a8_gemm": Product(0, 1, bias=4, out_dtype=5, scales=(2, 3)),
    "vllm::rocm_aiter_hipb_mm_fp8": Product(0, 1, bias=4, out_dtype=5, scales=(2, 3)),
    "vllm::rocm_aiter_gemm_w8a8": Product(0, 1, bias=4, out_dtype=5, scales=(2, 3)),
    "vllm::rocm_aiter_gemm_w8a8_blockscale": Product(0, 1, scales=(2, 3)),
    "vllm::rocm_aiter_triton_gemm_a8w8_blockscale": Product(0, 1, out_dtype=4, scales=(2, 3)),
    "vllm::rocm_aiter_gemm_a8w8_blockscale": Product(0, 1, out_dtype=4, scales=(2, 3)),
    "vllm::rocm_aiter_gemm_a8w8_blockscale_bpreshuffle": Product(0, 1, out_dtype=4, scales=(2, 3)),
    "vllm::rocm_per_tensor_float_w8a8_scaled_mm_impl": Product(0, 1, bias=5, out_dtype=2, scales=(3, 4), nk=False),
    "vllm::w8a8_triton_block_scaled_mm_func": Product(0, 1, out_dtype=5, scales=(2, 3)),
    "vllm::w8a8_block_fp8_matmul_func": Product(0, 1, out_dtype=5, scales=(2, 3)),
    "vllm::fp8_gemm_nt_op": Product(0, 2, out=4, scales=(1, 3)),
    "vllm::flashinfer_fp8_blockscale_gemm": Product(0, 1, scales=(2,), dtype="fp8"),
    "vllm::gemm_with_dynamic_quant": Product(0, 1, scales=(2, 5), dtype="fp4"),
    "vllm::matmul_mxf4_bf16": Product(0, 1, scales=(2, 3, 4)),
    "vllm::matmul_nvf4_bf16": Product(0, 1, scales=(2, 3, 4)),
    "_rocm_C::wvSplitK": Gemm(1, 0, bias=2, b_is_nk=True),
    "_rocm_C::wvSplitKrc": Gemm(1, 0, bias=2, b_is_nk=True),
    "_rocm_C::LLMM1": Gemm(1, 0, b_is_nk=True),
    "_rocm_C::wvSplitKQ": Product(1, 0, out=3, bias=2, scales=(4, 5)),
    "_C::cutlass_scaled_mm": Gemm(1, 2, bias=5, out=0, scales=(3, 4)),
    "_C::cutlass_scaled_mm_azp": Gemm(1, 2, bias=7, out=0, scales=(3, 4, 5, 6)),
    "_C::cutlass_scaled_fp4_mm": Product(1, 2, out=0, scales=(3, 4, 5)),
    "_C::dsv3_fused_a_gemm": OUT_FIRST,
    "_C::fp32_router_gemm": OUT_FIRST,
    "_moe_C::dsv3_router_gemm": OUT_FIRST,
    "_C::marlin_gemm": PackedProduct(),
    "_C::gptq_marlin_gemm": PackedProduct(),
    "_C::fp8_marlin_gemm": PackedProduct(),
    "_C::machete_mm": PackedProduct(),
    "_C::awq_gemm": PackedProduct(),
    "_C::gptq_gemm": PackedProduct(scales=3),
    "_C::allspark_w8a16_gemm": PackedProduct(),
}

SGLANG: Final[dict[str, Family]] = {
    "sgl_kernel::int8_scaled_mm": Product(0, 1, bias=5, out_dtype=4, scales=(2, 3), nk=False),
    "sgl_kernel::fp8_scaled_mm": Product(0, 1, bias=5, out_dtype=4, scales=(2, 3), nk=False),
    "sgl_kernel::fp8_blockwise_scaled_mm": Product(0, 1, out_dtype=4, scales=(2, 3), nk=False),
    "sgl_kernel::cutlass_scaled_fp4_mm": Product(1, 2, out=0, scales=(3, 4, 5)),
    "sgl_kernel::dsv3_fused_a_gemm": OUT_FIRST,
    "sgl_kernel::dsv3_router_gemm": OUT_FIRST,
    "sgl_kernel::gptq_marlin_gemm": PackedProduct(),
    "sgl_kernel::gptq_gemm": PackedProduct(scales=3),
    "sgl_kernel::bmm_fp8": Product(0, 1, out=2, scales=(3, 4), nk=False),
    "sglang::fp8_blockwise_scaled_mm": Product(1, 2, out=0, scales=(3, 4), nk=False),
    "sglang::deep_gemm_fp8_fp8_bf16_nt": Product(0, 2, out=4, scales=(1, 3)),
    "sglang::deep_gemm_mxfp8_fp8_bf16_nt": Product(0, 2, out=4, scales=(1, 3)),
    "sglang::dsv3_router_gemm": Product(0, 1, out=2),
    "sglang::bf16_gemm_dispatch": LINEAR,
    "sglang::flashinfer_bmm_fp8": Product(0, 1, scales=(2, 3), nk=False),
    "sglang::flashinfer_gemm_fp8_nt_groupwise": Product(0, 1, scales=(2, 3)),
    "sglang::fp4_gemm": Product(0, 1, scales=(2, 3, 4)),
    "sglang::unified_apply_gptq_marlin_gemm": PackedProduct(),
    "sglang::apply_fp8_marlin_linear": PackedProduct(),
    "sglang::apply_fp4_marlin_linear": PackedProduct(),
    "sglang_profiler::fp8_utils_gemm_a8w8_blockscale": Product(0, 1, scales=(2, 3)),
    "sglang_profiler::gemm_a8w8_blockscale_gemm_a8w8_blockscale": Product(0, 1, scales=(2, 3)),
    "sglang_profiler::gemm_kernels_flydsl_hgemm": Product(0, 1),
}

AITER: Final[Mapping[str, Family]] = {
    "aiter::gemm_a16w16": Product(0, 1, bias=2, out_dtype=3),
    "aiter::_gemm_a16w16_asm": Product(0, 1, out=2, bias=4),
    "aiter::gemm_a16w16_asm": Product(0, 1, out=2, bias=4),
    "aiter::gemm_a16w16_atomic_": Product(0, 1),
    "aiter::gemm_a8w8": Product(0, 1, bias=4, out_dtype=5, scales=(2, 3)),
    "aiter::gemm_a8w8_bpreshuffle": Product(0, 1, bias=4, out_dtype=5, scales=(2, 3)),
    "aiter::gemm_a8w8_blockscale": Product(0, 1, out_dtype=4, scales=(2, 3)),
    "aiter::gemm_a8w8_blockscale_bpreshuffle": Product(0, 1, out_dtype=4, scales=(2, 3)),
    "aiter::_gemm_a8w8_blockscale_bpreshuffle_asm": Product(0, 1, out=2, scales=(3, 4), bias=5),
    "aiter::gemm_a4w4": Product(0, 1, bias=4, out_dtype=5, scales=(2, 3)),
    "aiter::_mxfp8_mxfp8_gemm_asm": A8W8,
    "aiter::batched_gemm_a8w8": Product(0, 1, out=4, bias=5, scales=(2, 3)),
    "aiter::batched_gemm_bf16": Product(0, 1, out=2, bias=3),
    "aiter::deepgemm_ck": Product(0, 1, out=2, scales=(4, 5)),
    "aiter::hipb_mm": Product(0, 1, bias=3, out_dtype=4, scales=(5, 6), nk=False),
    "aiter::rocb_mm": Product(0, 1, nk=False),
    "aiter::wvSpltK": Product(1, 0, out=2),
    "aiter::wv_splitk_small_fp16_bf16": Product(1, 0, out=2),
    "aiter::LLMM1": Product(1, 0, out=2),
    "aiter::wvSplitKQ": Product(1, 0, out=2, scales=(3, 4)),
} | {
    f"aiter::{name}": A8W8
    for name in A8W8_OPS
}  # fmt: skip

OTHERS: Final[dict[str, Family]] = {
    "aten::_weight_int4pack_mm": PackedProduct(scales=3),
    "aten::_weight_int8pack_mm": Product(0, 1, scales=(2,), result="bf16"),
    "aten::_scaled_mm_v2": Product(0, 1, bias=8, out_dtype=9, nk=False),
    "bitsandbytes::int8_linear_matmul": Product(0, 1, out=2, result="int32"),
    "bitsandbytes::int8_scaled_mm": Product(0, 1, bias=4, out_dtype=5, scales=(2, 3), result="fp16"),
    "bitsandbytes::int8_mixed_scaled_mm": Product(1, 2, bias=6, scales=(3, 4), result="fp16"),
    "bitsandbytes::gemv_4bit": PackedProduct(shape=2),
    "bitsandbytes::gemm_4bit": PackedProduct(shape=2),
    "torchao::mx_fp8_bf16": Product(0, 1, scales=(2, 3), nk=False),
    "tex::gemm_inf": Product(2, 0),
    # Transformer Engine's layers are functions of autograd: their name has no namespace.
    "_Linear": Product(1, 0, bias=2),
    "_LayerNormLinear": Product(0, 3, bias=4, scales=(1, 2)),
}

GEMMS: Final[dict[str, Family]] = {**VLLM, **SGLANG, **AITER, **OTHERS}

"""Quantisation, cache writes, routing, sampling and collectives of serving engines.

Argument numbers are those of their registrations. A result that is not among the arguments has the shape of an input,
or part of it, and the type that the op's name says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from warplens.costs.cost import Cost
from warplens.costs.family import Family
from warplens.costs.ops import SOFTMAX_FLOP
from warplens.costs.serving.norms import ACTIVATIONS, NORMS, ROPES
from warplens.costs.streams import ByteStream, Like
from warplens.costs.tensors import ITEM_BYTES, Call


def quantize(source: int, *results: Like, reads: tuple[int, ...] = (), flop: float = 3.0) -> ByteStream:
    return ByteStream("quantize", (source, *reads), results, flop, main=source)


OUT_SCALES: Final = quantize(1, Like(0), Like(2))
"""(out, input, scales out)"""
TO_OUTPUTS: Final = quantize(0, Like(1), Like(2))
"""(input, out, scales out)"""
QUANTIZE: Final[dict[str, Family]] = {
    "_C::static_scaled_fp8_quant": quantize(1, Like(0), reads=(2,), flop=2.0),
    "_C::static_scaled_int8_quant": quantize(1, Like(0), reads=(2,), flop=2.0),
    "_C::dynamic_scaled_fp8_quant": OUT_SCALES,
    "_C::dynamic_per_token_scaled_fp8_quant": OUT_SCALES,
    "_C::dynamic_scaled_int8_quant": OUT_SCALES,
    "_C::per_token_group_fp8_quant": TO_OUTPUTS,
    "_C::per_token_group_fp8_quant_packed": TO_OUTPUTS,
    "_C::per_token_group_quant_int8": TO_OUTPUTS,
    "_C::scaled_fp4_experts_quant": quantize(2, Like(0), Like(1), reads=(3,)),
    "sgl_kernel::sgl_per_token_group_quant_8bit": TO_OUTPUTS,
    "sgl_kernel::sgl_per_token_group_quant_8bit_v2": TO_OUTPUTS,
    "sgl_kernel::sgl_per_token_group_quant_fp8": TO_OUTPUTS,
    "sgl_kernel::sgl_per_token_group_quant_int8": TO_OUTPUTS,
    "sgl_kernel::sgl_per_token_quant_fp8": TO_OUTPUTS,
    "sgl_kernel::sgl_per_tensor_quant_fp8": TO_OUTPUTS,
    "sglang::per_tensor_quant_fp8": TO_OUTPUTS,
    "sglang::per_token_quant_fp8": TO_OUTPUTS,
    "sglang::per_token_group_quant": TO_OUTPUTS,
    "sglang::per_token_group_quant_8bit_v2": TO_OUTPUTS,
    "sgl_kernel::scaled_fp4_quant": quantize(1, Like(0), Like(2), reads=(3,)),
    "aiter::static_per_tensor_quant": quantize(1, Like(0), reads=(2,), flop=2.0),
    "aiter::dynamic_per_tensor_quant": OUT_SCALES,
    "aiter::dynamic_per_token_scaled_quant": OUT_SCALES,
    "aiter::dynamic_per_group_scaled_quant": OUT_SCALES,
    "aiter::dynamic_per_group_scaled_quant_fp4": OUT_SCALES,
    "aiter::smoothquant_fwd": quantize(1, Like(0), Like(3), reads=(2,), flop=4.0),
    "aiter::smooth_per_token_scaled_quant": quantize(1, Like(0), Like(2), reads=(3,), flop=4.0),
    "vllm::rocm_aiter_per_tensor_quant": OUT_SCALES,
    "vllm::rocm_aiter_group_fp8_quant": quantize(0, Like(0, dtype="fp8")),
    "vllm::triton_per_token_group_quant_fp8": quantize(0, Like(0, dtype="fp8")),
    "bitsandbytes::int8_vectorwise_quant": quantize(0, Like(0, dtype="int8")),
    "bitsandbytes::int8_mm_dequant": quantize(0, Like(0, dtype="fp16"), reads=(1, 2), flop=2.0),
    "bitsandbytes::dequantize_blockwise": quantize(0, Like(0, dtype_arg=4), reads=(1, 2), flop=2.0),
    "bitsandbytes::dequantize_4bit": quantize(0, Like(0, dtype_arg=5, share=2.0), reads=(1,), flop=2.0),
    "_C::awq_dequantize": quantize(0, Like(0, dtype="fp16", share=8.0), reads=(1, 2), flop=16.0),
    "sgl_kernel::awq_dequantize": quantize(0, Like(0, dtype="fp16", share=8.0), reads=(1, 2), flop=16.0),
}


class CacheWrite(Struct, frozen=True):
    """New keys and values are read, and written at the cache's element type; `places` says where to."""

    sources: tuple[int, ...] = (0, 1)
    caches: tuple[int, ...] = ()
    places: int | None = None

    def cost(self, call: Call) -> Cost | None:
        sources = [source for source in map(call.tensor, self.sources) if source is not None]
        if not sources:
            return None
        caches = [cache.dtype for cache in map(call.tensor, self.caches) if cache] or [call.cache_dtype]
        items = [ITEM_BYTES.get(dtype) for dtype in (caches * len(sources))[: len(sources)]]
        written = sum(source.numel * (item or source.item_bytes) for source, item in zip(sources, items, strict=True))
        where = call.tensor(self.places)
        moved = sum(source.bytes for source in sources) + written + (where.bytes if where else 0.0)
        why = "" if caches[0] else "the cache is taken to have the keys' element type"
        elements = sum(source.numel for source in sources)
        return Cost("copy", 0.0, moved, sources[0].dtype, unit="", params=(("elements", elements),), approximate=why)


KEYS_AND_VALUES: Final = CacheWrite((0, 1), (2, 3), 4)
LATENTS: Final = CacheWrite((0, 1), (2,), 3)
CACHE_WRITES: Final[dict[str, CacheWrite]] = {
    "_C_cache_ops::reshape_and_cache": KEYS_AND_VALUES,
    "_C_cache_ops::reshape_and_cache_flash": KEYS_AND_VALUES,
    "_C_cache_ops::concat_and_cache_mla": LATENTS,
    "aiter::reshape_and_cache": KEYS_AND_VALUES,
    "aiter::reshape_and_cache_flash": KEYS_AND_VALUES,
    "aiter::concat_and_cache_mla": LATENTS,
    "sglang::store_cache": KEYS_AND_VALUES,
    "sgl_kernel::store_kv_cache": CacheWrite((3, 4), (0, 1), 2),
    "sglang_profiler::memory_pool__set_kv_buffer_impl": KEYS_AND_VALUES,
    "flashinfer::append_paged_kv_cache": CacheWrite((0, 1), (4, 5), 3),
    "vllm::unified_kv_cache_update": CacheWrite(),
    "vllm::unified_mla_kv_cache_update": CacheWrite(),
}

MERGE: Final = ByteStream("pointwise", (0, 1, 2, 3), (Like(4), Like(5)), 4.0)
"""(values, sums, values, sums, values out, sums out): two partial attentions become one."""
TOP_K: Final = ByteStream("moe", (3,), (Like(0), Like(1), Like(2)), SOFTMAX_FLOP, main=3)


class Routing(Struct, frozen=True):
    """The router's scores, the widest of the tensors, and what is chosen; their order differs between versions."""

    def cost(self, call: Call) -> Cost | None:
        tensors = [tensor for tensor in call.all_tensors if len(tensor.shape) == 2]
        if len(tensors) < 3:
            return None
        scores = max(tensors, key=lambda tensor: tensor.shape[1])
        moved = sum(tensor.bytes for tensor in tensors)
        return Cost("moe", scores.numel * SOFTMAX_FLOP, moved, scores.dtype, params=(("elements", scores.numel),))


TOP_K_2: Final = ByteStream("moe", (2,), (Like(0), Like(1)), SOFTMAX_FLOP, main=2)
TOP_K_LAST: Final = ByteStream("moe", (0, 1), (Like(2), Like(3)), SOFTMAX_FLOP)
SAMPLE: Final = ByteStream("reduction", (0,), (Like(1),), 2.0)
"""(probabilities, samples out, …)"""
OTHERS: Final[dict[str, Family]] = {
    "_C::merge_attn_states": ByteStream("pointwise", (2, 3, 4, 5), (Like(0), Like(1)), 4.0, main=2),
    "sgl_kernel::merge_state": MERGE,
    "sgl_kernel::merge_state_v2": MERGE,
    "_moe_C::topk_softmax": TOP_K,
    "_moe_C::topk_sigmoid": TOP_K,
    "aiter::topk_softmax": TOP_K,
    "aiter::_topk_softmax": TOP_K,
    "aiter::topk_softmax_asm": TOP_K,
    "vllm::rocm_aiter_topk_softmax": TOP_K,
    "sgl_kernel::topk_softmax": Routing(),
    "sgl_kernel::topk_sigmoid": TOP_K_2,
    "aiter::topk_sigmoid": TOP_K_2,
    "sglang::moe_topk_softmax_out": TOP_K_2,
    "aiter::biased_grouped_topk_hip": TOP_K_LAST,
    "vllm::rocm_aiter_biased_grouped_topk": TOP_K_LAST,
    "aiter::grouped_topk": ByteStream("moe", (0,), (Like(1), Like(2)), SOFTMAX_FLOP),
    "vllm::rocm_aiter_grouped_topk": ByteStream("moe", (0,), (Like(1), Like(2)), SOFTMAX_FLOP),
    "_moe_C::moe_sum": ByteStream("moe", (0,), (Like(1),), 1.0),
    "aiter::moe_sum": ByteStream("moe", (0,), (Like(1),), 1.0),
    "sgl_kernel::moe_sum": ByteStream("moe", (0,), (Like(1),), 1.0),
    "sgl_kernel::moe_sum_reduce": ByteStream("moe", (0,), (Like(1),), 2.0),
    "_moe_C::moe_align_block_size": ByteStream("moe", (0,), (Like(3), Like(4), Like(5))),
    "sgl_kernel::moe_align_block_size": ByteStream("moe", (0,), (Like(3), Like(4), Like(5))),
    "aiter::moe_align_block_size": ByteStream("moe", (0,), (Like(3), Like(4), Like(5), Like(6))),
    "aiter::moe_sorting_fwd": ByteStream("moe", (0, 1), (Like(2), Like(3), Like(4), Like(5), Like(6))),
    "_moe_C::shuffle_rows": ByteStream("moe", (1,), (Like(2), Like(2)), main=2),
    "sgl_kernel::shuffle_rows": ByteStream("moe", (1,), (Like(2), Like(2)), main=2),
    "sgl_kernel::top_k_renorm_probs": ByteStream("softmax", (0,), (Like(1),), 2.0),
    "sgl_kernel::top_p_renorm_probs": ByteStream("softmax", (0,), (Like(1),), 2.0),
    "sgl_kernel::top_p_sampling_from_probs": SAMPLE,
    "sgl_kernel::min_p_sampling_from_probs": SAMPLE,
    "sgl_kernel::top_k_top_p_sampling_from_probs": SAMPLE,
    "aiter::greedy_sample": ByteStream("reduction", (1,), (Like(0),), 1.0, main=1),
    "aiter::mixed_sample_outer_exponential": ByteStream("reduction", (1, 2, 3), (Like(0),), 4.0, main=1),
    "aiter::random_sample_outer_exponential": ByteStream("reduction", (1, 2, 3), (Like(0),), 4.0, main=1),
    "_C::apply_repetition_penalties_": ByteStream("pointwise", (0, 1, 2, 3), (Like(0),), 2.0),
    "sgl_kernel::apply_token_bitmask_inplace_cuda": ByteStream("pointwise", (0, 1), (Like(0),), 0.0),
    "sglang_profiler::forward_batch_info_compute_position_triton": ByteStream(
        "indexing", (0, 1), (Like(1),), approximate="how many positions are written is not recorded"
    ),
    "_C_cache_ops::concat_mla_q": ByteStream("cat", (0, 1), (Like(2),), main=2),
    "sgl_kernel::concat_mla_k": ByteStream("cat", (1, 2), (Like(0),)),
    "sgl_kernel::concat_mla_absorb_q": ByteStream("cat", (0, 1), (Like(2),)),
    "vllm::flashinfer_concat_mla_k": ByteStream("cat", (1, 2), (Like(0),)),
}


class Message(Struct, frozen=True):
    """A collective of an engine's own: one rank's message; its limit is not in the trace."""

    collective: str
    source: int = 1

    def cost(self, call: Call) -> Cost | None:
        message = call.tensor(self.source)
        if message is None:
            return None
        params = (("collective", self.collective),)
        return Cost("collective", 0.0, message.bytes, message.dtype, unit="", params=params)


COLLECTIVES: Final[Mapping[str, Family]] = {
    f"{space}::{name}": Message(collective)
    for space, names in {
        "_C_custom_ar": ("all_reduce", "all_reduce_reg", "all_reduce_unreg", "qr_all_reduce"),
        "sgl_kernel": (
            "all_reduce", "all_reduce_reg", "all_reduce_unreg", "deterministic_all_reduce_reg", "qr_all_reduce",
            "mscclpp_allreduce",
        ),
        "aiter": ("all_reduce", "all_reduce_reg", "all_reduce_unreg", "fused_allreduce_rmsnorm", "qr_all_reduce"),
        "_C": ("qr_all_reduce",),
    }.items()
    for name in names
    for collective in ("allreduce",)
} | {
    "aiter::reduce_scatter": Message("reduce_scatter"),
    "aiter::all_gather_reg": Message("all_gather"),
    "aiter::all_gather_unreg": Message("all_gather"),
    "vllm::rocm_aiter_fused_allreduce_rmsnorm": Message("allreduce", 0),
    "vllm::flashinfer_trtllm_fused_allreduce_norm": Message("allreduce", 0),
    "sglang::flashinfer_allreduce_residual_rmsnorm": Message("allreduce", 0),
    **{
        f"symm_mem::{name}": Message("allreduce", 0)
        for name in (
            "multimem_all_reduce_", "multimem_one_shot_all_reduce", "multimem_one_shot_all_reduce_out",
            "one_shot_all_reduce", "one_shot_all_reduce_out", "one_shot_all_reduce_copy", "two_shot_all_reduce_",
            "two_shot_all_reduce_out",
        )
    },
    "symm_mem::multimem_all_gather_out": Message("all_gather", 2),
    "symm_mem::reduce_scatter_out": Message("reduce_scatter", 0),
}  # fmt: skip

STREAMS: Final[dict[str, Family]] = {
    **NORMS, **ACTIVATIONS, **ROPES, **QUANTIZE, **CACHE_WRITES, **OTHERS, **COLLECTIVES,
}  # fmt: skip

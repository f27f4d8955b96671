"""Attention ops of serving engines. Argument numbers are those of their registrations."""

from __future__ import annotations

from typing import Final

from warplens.costs.attention import BOTTOM_RIGHT, AttentionOp
from warplens.costs.family import Family
from warplens.costs.lengths import GENERATION
from warplens.costs.serving.attention import HEADS_AFTER_PAGES, LATENT, LatentAttention, ServedAttention

FLASH_3: Final = ServedAttention(
    ends=7,
    requests=11,
    out=6,
    flash=True,
    otherwise=AttentionOp(causal=24, order="bnhd", cumulative_q=7, cumulative_k=8, aligned=BOTTOM_RIGHT),
)
"""FlashAttention 3: dense, packed and cached calls of one op."""
DENSE: Final = AttentionOp(causal=5, order="bnhd", aligned=BOTTOM_RIGHT)
VARLEN: Final = AttentionOp(causal=12, order="nhd", cumulative_q=3, cumulative_k=4, aligned=BOTTOM_RIGHT)
WHOLE_LAYER: Final = ServedAttention(is_cache=False, out=3)
"""Handed the new queries, keys and values; everything else is in the engine's context."""

ATTENTIONS: Final[dict[str, Family]] = {
    "vllm::unified_attention": WHOLE_LAYER,
    "vllm::unified_attention_with_output": WHOLE_LAYER,
    "sglang::unified_attention_with_output": WHOLE_LAYER,
    "sglang::unified_attention_with_output_and_lse": WHOLE_LAYER,
    "aiter::unified_attention_with_output_base": WHOLE_LAYER,
    "vllm::unified_mla_attention": LatentAttention(),
    "vllm::unified_mla_attention_with_output": LatentAttention(),
    "_C::paged_attention_v1": ServedAttention(1, 2, 3, HEADS_AFTER_PAGES, GENERATION, requests=7, longest=9, out=0),
    "_C::paged_attention_v2": ServedAttention(4, 5, 6, HEADS_AFTER_PAGES, GENERATION, requests=10, longest=12, out=0),
    "_rocm_C::paged_attention": ServedAttention(4, 5, 6, HEADS_AFTER_PAGES, GENERATION, requests=10, out=0),
    "_vllm_fa2_C::varlen_fwd": ServedAttention(
        ends=4,
        requests=6,
        out=3,
        flash=True,
        otherwise=AttentionOp(causal=15, order="nhd", cumulative_q=4, cumulative_k=5, aligned=BOTTOM_RIGHT),
    ),
    "_vllm_fa3_C::fwd": FLASH_3,
    "sgl_kernel::fwd": FLASH_3,
    "flash_attn_3::fwd": FLASH_3,
    "flash_attn_3::_flash_attn_forward": FLASH_3,
    "flash_attn::_flash_attn_varlen_forward": ServedAttention(
        ends=3,
        flash=True,
        otherwise=AttentionOp(causal=9, order="nhd", cumulative_q=3, cumulative_k=4, aligned=BOTTOM_RIGHT),
    ),
    "flash_attn::_flash_attn_forward": DENSE,
    "flash_attn::_flash_attn_backward": AttentionOp(1, causal=11, order="bnhd", aligned=BOTTOM_RIGHT, backward=True),
    "flash_attn::_flash_attn_varlen_backward": AttentionOp(
        1, causal=15, order="nhd", cumulative_q=9, cumulative_k=10, aligned=BOTTOM_RIGHT, backward=True
    ),
    "aiter::mha_fwd": DENSE,
    "aiter::fmha_v3_fwd": DENSE,
    "aiter::mha_bwd": AttentionOp(1, causal=8, order="bnhd", aligned=BOTTOM_RIGHT, backward=True),
    "aiter::fmha_v3_bwd": AttentionOp(1, causal=8, order="bnhd", aligned=BOTTOM_RIGHT, backward=True),
    "aiter::mha_varlen_fwd": ServedAttention(ends=3, flash=True, otherwise=VARLEN),
    "aiter::fmha_v3_varlen_fwd": ServedAttention(ends=3, flash=True, otherwise=VARLEN),
    "aiter::mha_varlen_bwd": AttentionOp(
        1, causal=13, order="nhd", cumulative_q=6, cumulative_k=7, aligned=BOTTOM_RIGHT, backward=True
    ),
    "aiter::mha_batch_prefill": ServedAttention(ends=3, out=18),
    "aiter::paged_attention_rocm": ServedAttention(
        4, 5, 6, HEADS_AFTER_PAGES, GENERATION, requests=10, longest=12, out=0
    ),
    "aiter::paged_attention_v1": ServedAttention(2, 3, 4, part=GENERATION, requests=8, longest=9, out=0),
    "aiter::paged_attention_ragged": ServedAttention(2, 3, 4, part=GENERATION, ends=6, out=0),
    "aiter::pa_fwd_asm": ServedAttention(0, 1, 2, HEADS_AFTER_PAGES, GENERATION, requests=4),
    "aiter::_pa_fwd_asm": ServedAttention(0, 1, 2, HEADS_AFTER_PAGES, GENERATION, requests=4),
    "aiter::pa_fwd_naive": ServedAttention(0, 1, 2, HEADS_AFTER_PAGES, GENERATION, requests=4, longest=7),
    "aiter::mla_decode_stage1_asm_fwd": ServedAttention(0, 1, None, LATENT, GENERATION, ends=2, out=16),
    "vllm::rocm_aiter_mla_decode_fwd": ServedAttention(0, 1, None, LATENT, GENERATION, ends=3, out=2),
    # Plain numbers are not among the arguments that SGLang's wrappers record.
    "sglang_profiler::attention_paged_attention_ragged": ServedAttention(2, 3, 4, part=GENERATION, ends=5, out=0),
    "sglang_profiler::attention_paged_attention_rocm": ServedAttention(4, 5, 6, HEADS_AFTER_PAGES, GENERATION, out=0),
    "_flashmla_C::fwd_kvcache_mla": ServedAttention(0, 1, None, LATENT, GENERATION, requests=3, value_width=2),
    "_flashmla_C::dense_decode_fwd": ServedAttention(0, 1, None, LATENT, GENERATION, requests=3, value_width=2),
    "sgl_kernel::fwd_kvcache_mla": ServedAttention(0, 1, None, LATENT, GENERATION, requests=3, value_width=2),
    "sgl_kernel::dense_decode_fwd": ServedAttention(0, 1, None, LATENT, GENERATION, requests=3, value_width=2),
    "_C::sm100_cutlass_mla_decode": ServedAttention(2, 4, None, LATENT, GENERATION, requests=5, out=0, q_rest=3),
    "_C::cutlass_mla_decode": ServedAttention(1, 3, None, LATENT, GENERATION, requests=4, out=0, q_rest=2),
    "sgl_kernel::cutlass_mla_decode": ServedAttention(1, 3, None, LATENT, GENERATION, requests=4, out=0, q_rest=2),
}

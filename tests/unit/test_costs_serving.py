"""Costs of the ops of serving engines, counted by hand from the arguments of their registrations."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cost_calls import Argument, bf16, cost, fp32, int64, tensor
from support import each_case
from warplens.categories import op_category
from warplens.costs import Call, Cost, cost_of, cost_or_reason, has_model
from warplens.costs.cost import INNER_OPS, NO_LENGTHS, NO_WEIGHTS, OTHER_ARGUMENTS
from warplens.costs.lengths import AT_MOST
from warplens.costs.serving import SERVING_OPS, cache_argument
from warplens.costs.serving.attentions import ATTENTIONS
from warplens.costs.serving.experts import ALL_EXPERTS, OWN_EXPERT
from warplens.costs.serving.gemms import GEMMS
from warplens.costs.serving.moes import MOES
from warplens.costs.serving.norms import ACTIVATIONS, NORMS, ROPES
from warplens.costs.serving.streams import CACHE_WRITES, COLLECTIVES, OTHERS, QUANTIZE
from warplens.model.iteration_marks import IterationMark, parse_mark

DECODE = parse_mark("execute_4_context_0(sq0sk0sqsq0sqsk0)_generation_4(sq4sk100sqsq4sqsk100)")
MIXED = parse_mark("execute_12_context_2(sq8sk10sqsq34sqsk42)_generation_4(sq4sk100sqsq4sqsk100)")
MIXED_PAIRS = 42 - (34 - 8) / 2 + 100
fp8, int32, uint8 = ((lambda *shape, dtype=dtype: tensor(dtype, *shape)) for dtype in ("fp8", "int32", "uint8"))


def served(op: str, *args: Argument, mark: IterationMark | None = DECODE, **options: object) -> Cost | str | None:
    return cost_or_reason(Call(op, args, mark=mark, **options))  # type: ignore[arg-type]


def attention(found: Cost | str | None) -> tuple[float, float]:
    assert isinstance(found, Cost) and found.family == "attention", found
    return found.flop, found.bytes


Q, NEW, CACHE = bf16(4, 8, 64), bf16(4, 2, 64), bf16(50, 16, 2, 64)
DECODE_FLOP, DECODE_BYTES = 100 * 8 * 4 * 64, 2 * (2 * 4 * 8 * 64 + 100 * 2 * 2 * 64)
FLASH_TAIL = ("False", "True", "-1", "-1")
ENDS = int32(5)
DECODES: list[tuple[str, tuple[Argument, ...]]] = [
    ("vllm::unified_attention_with_output", (Q, NEW, NEW, Q, "layer")),
    ("vllm::unified_attention", (Q, NEW, NEW, "layer")),
    ("_C::paged_attention_v1", (Q, Q, bf16(50, 2, 8, 16, 8), bf16(50, 2, 64, 16), "2", "0.1", int32(4, 9), int32(4))),
    (
        "_C::paged_attention_v2",
        (Q, None, None, None, Q, bf16(50, 2, 8, 16, 8), bf16(50, 2, 64, 16), "2", "0.1", int32(4, 9), int32(4)),
    ),
    ("_vllm_fa2_C::varlen_fwd", (Q, CACHE, CACHE, Q, ENDS, ENDS, int32(4), None, int32(4, 9), None, "1", "40", "0.", "0.1", *FLASH_TAIL)),
    ("_vllm_fa3_C::fwd", (Q, CACHE, CACHE, None, None, None, Q, ENDS, None, None, None, int32(4), "1", "40", int32(4, 9), *[None] * 8, "0.1", "True", "-1", "-1")),
    ("flash_attn::_flash_attn_varlen_forward", (Q, CACHE, CACHE, ENDS, ENDS, "1", "40", "0.", "0.1", "True", "-1", "-1")),
    ("aiter::mha_batch_prefill", (Q, CACHE, CACHE, ENDS, ENDS, int32(9), "1", "40")),
    ("aiter::paged_attention_ragged", (Q, uint8(99), Q, CACHE, CACHE, "0.1", ENDS, int32(9), int32(4))),
    ("sglang_profiler::attention_paged_attention_ragged_100", (Q, uint8(99), Q, CACHE, CACHE, ENDS, int32(9), int32(4))),
]  # fmt: skip


@pytest.mark.parametrize(("op", "args"), DECODES)
def test_attention_of_decode_takes_its_lengths_from_the_mark(op: str, args: tuple[Argument, ...]) -> None:
    found = served(op, *args)
    assert attention(found) == (DECODE_FLOP, DECODE_BYTES)
    assert isinstance(found, Cost) and "lengths=mark" in found.params_text and "requests=4" in found.params_text


@pytest.mark.parametrize(("op", "args"), DECODES)
def test_attention_without_lengths_has_a_reason_instead_of_a_cost(op: str, args: tuple[Argument, ...]) -> None:
    assert served(op, *args, mark=None, replayed=True) == NO_LENGTHS


def test_a_mixed_iteration_counts_prompts_and_decodes() -> None:
    rows = bf16(12, 8, 64)
    found = served("vllm::unified_attention_with_output", rows, bf16(12, 2, 64), bf16(12, 2, 64), rows, mark=MIXED)
    assert attention(found) == (MIXED_PAIRS * 8 * 4 * 64, 2 * (2 * 12 * 8 * 64 + 110 * 2 * 2 * 64))
    # A kernel for the requests that generate gets its rows only.
    assert attention(served("aiter::paged_attention_ragged", Q, None, Q, CACHE, CACHE, mark=MIXED))[0] == DECODE_FLOP


def test_the_cache_is_read_at_its_own_element_size() -> None:
    paged = served("aiter::paged_attention_ragged", Q, None, Q, fp8(50, 16, 2, 64), fp8(50, 16, 2, 64))
    layer = served("vllm::unified_attention_with_output", Q, NEW, NEW, Q, cache_dtype="fp8")
    assert attention(paged)[1] == attention(layer)[1] == 2 * 2 * 4 * 8 * 64 + 100 * 2 * 2 * 64
    assert isinstance(layer, Cost) and "element type" not in layer.approximate
    unknown = served("vllm::unified_attention_with_output", Q, NEW, NEW, Q)
    assert isinstance(unknown, Cost) and "element type" in unknown.approximate


def test_a_recorded_window_limits_what_a_query_sees() -> None:
    args = (Q, CACHE, CACHE, ENDS, ENDS, "1", "40", "0.", "0.1", "True", "7", "0")
    found = served("flash_attn::_flash_attn_varlen_forward", *args)
    assert attention(found) == (4 * 8 * 8 * 4 * 64, 2 * (2 * 4 * 8 * 64 + (4 + 4 * 7) * 2 * 2 * 64))
    assert isinstance(found, Cost) and found.approximate.startswith("at most") and "window=7" in found.params_text
    layer = served("vllm::unified_attention_with_output", Q, NEW, NEW, Q)
    assert isinstance(layer, Cost) and "sliding window" in layer.approximate


def test_eager_calls_without_a_mark_use_their_longest_length() -> None:
    one = (bf16(5, 8, 64), CACHE, CACHE, int32(2), int32(2), "5", "40", "0.", "0.1", "True", "-1", "-1")
    found = served("flash_attn::_flash_attn_varlen_forward", *one, mark=None)
    assert attention(found)[0] == (5 * 40 - 10) * 8 * 4 * 64
    assert isinstance(found, Cost) and not found.is_loose and not found.approximate
    four = (Q, CACHE, CACHE, ENDS, ENDS, "1", "40", "0.", "0.1", "True", "-1", "-1")
    bound = served("flash_attn::_flash_attn_varlen_forward", *four, mark=None)
    assert isinstance(bound, Cost) and bound.is_loose and bound.approximate == AT_MOST
    assert bound.flop == 4 * 40 * 8 * 4 * 64


def test_packed_sequences_that_are_not_the_iterations_keep_their_own_estimate() -> None:
    """The vision encoder of a served model: its tokens are not those of the mark."""
    image = bf16(600, 8, 64)
    args = (image, image, image, int32(3), int32(3), "300", "300", "0.", "0.1", "False", "-1", "-1")
    found = served("flash_attn::_flash_attn_varlen_forward", *args)
    assert attention(found)[0] == 2 * 300 * 300 * 8 * 4 * 64
    packed = bf16(4, 2, 64)
    wrong_keys = (Q, packed, packed, ENDS, ENDS, "1", "1", "0.", "0.1", "True", "-1", "-1")
    assert isinstance(served("flash_attn::_flash_attn_varlen_forward", *wrong_keys), Cost)


LATENT = bf16(50, 16, 1, 576)


@pytest.mark.parametrize(
    ("op", "args"),
    [
        ("_flashmla_C::fwd_kvcache_mla", (bf16(4, 1, 8, 576), LATENT, "512", int32(4), int32(4, 9))),
        ("_C::sm100_cutlass_mla_decode", (bf16(4, 8, 512), None, bf16(4, 8, 512), bf16(4, 8, 64), bf16(50, 16, 576), int32(4))),
        ("vllm::rocm_aiter_mla_decode_fwd", (bf16(4, 8, 576), LATENT, bf16(4, 8, 512), ENDS, "1")),
    ],
)  # fmt: skip
def test_latent_attention_reads_one_vector_per_key(op: str, args: tuple[Argument, ...]) -> None:
    assert attention(served(op, *args)) == (
        100 * 8 * 2 * (576 + 512),
        2 * (4 * 8 * (576 + 512) + 100 * 576),
    )


def test_a_whole_latent_layer_expands_prompts_and_absorbs_decodes() -> None:
    args = (bf16(12, 8, 192), bf16(12, 512), bf16(12, 1, 64), bf16(12, 8 * 128), "layer")
    flop, moved = attention(served("vllm::unified_mla_attention_with_output", *args, mark=MIXED))
    assert flop == 29 * 8 * 2 * (192 + 128) + 100 * 8 * 2 * (576 + 512)
    assert moved == 2 * (12 * 8 * (192 + 128) + 10 * 8 * (192 + 128) + 100 * 576)
    assert served("vllm::unified_mla_attention_with_output", *args, mark=None) == NO_LENGTHS


def test_arguments_of_another_version_give_no_cost() -> None:
    # Queries in one tensor, then the cache: an earlier registration of the op.
    args = (bf16(4, 8, 512), bf16(4, 8, 576), bf16(50, 16, 576), int32(4), int32(4, 9))
    assert served("sgl_kernel::cutlass_mla_decode", *args) == OTHER_ARGUMENTS
    assert served("vllm::unified_attention_with_output", bf16(4, 512), bf16(4, 128), bf16(4, 128)) == OTHER_ARGUMENTS
    odd_heads = served("vllm::unified_attention_with_output", bf16(4, 8, 64), bf16(4, 3, 64), bf16(4, 3, 64))
    assert odd_heads == OTHER_ARGUMENTS
    assert served("_C::awq_gemm", bf16(4, 64), int32(64, 3), bf16(2, 24), int32(2, 5)) != NO_WEIGHTS


HIDDEN, IDS = bf16(10, 64), int32(10, 2)
EXPERT_FLOP = 20 * 2 * 64 * (96 + 48)
STACKS = [
    # the two stacks of 4 experts, 64 → 2 · 48 → 64, and their bytes
    (bf16(4, 96, 64), bf16(4, 64, 48), 2 * 4 * 144 * 64),
    (bf16(4, 64, 96), bf16(4, 48, 64), 2 * 4 * 144 * 64),
    (fp8(4, 96, 64), fp8(4, 64, 48), 4 * 144 * 64),
    (uint8(4, 96, 32), uint8(4, 64, 24), 4 * 144 * 32),
    (uint8(4, 32, 96), uint8(4, 24, 64), 4 * 144 * 32),
    (int32(4, 8, 96), int32(4, 6, 64), 4 * 144 * 32),
    (int32(4, 4, 192), int32(4, 3, 128), 4 * 144 * 32),  # marlin, 4 bits
    (int32(4, 4, 384), int32(4, 3, 256), 4 * 144 * 64),  # marlin, 8 bits
]


@pytest.mark.parametrize(("w1", "w2", "weights"), STACKS)
def test_packed_experts_do_the_work_of_unpacked_ones(w1: Argument, w2: Argument, weights: int) -> None:
    found = cost("vllm::outplace_fused_experts", HIDDEN, w1, w2, fp32(10, 2), IDS)
    assert (found.flop, found.bytes) == (EXPERT_FLOP, 2 * 2 * 640 + weights)
    assert "experts=4 top_k=2 H=64 I=48" in found.params_text


def test_experts_that_are_visited_are_bounded_by_the_visits() -> None:
    def of(tokens: int) -> Cost:
        args = (bf16(tokens, 64), bf16(16, 96, 64), bf16(16, 64, 48), fp32(tokens, 2), int32(tokens, 2))
        return cost("aiter::fused_moe_", *args)

    one_expert = 2 * 144 * 64
    assert of(3).bytes == 2 * 2 * 3 * 64 + 6 * one_expert and of(3).approximate == OWN_EXPERT
    assert of(10).bytes == 2 * 2 * 10 * 64 + 16 * one_expert and of(10).approximate == ALL_EXPERTS
    assert of(1000).bytes == 2 * 2 * 1000 * 64 + 16 * one_expert and not of(1000).approximate


def test_weights_of_one_rank_get_its_share_of_the_visits() -> None:
    args: list[Argument] = [HIDDEN, bf16(4, 96, 64), bf16(4, 64, 48), fp32(10, 2), IDS, *[None] * 8, "16"]
    found = cost("vllm::fused_experts", *args)
    assert found.flop == EXPERT_FLOP / 4 and "share" in found.approximate


def test_a_layer_of_experts_finds_its_weights_in_the_calls_inside_it() -> None:
    inner = (
        Call("TopK", (bf16(10, 4), "2", "True")),
        Call("aten::view", (bf16(1, 20, 48),)),
        Call("aten::view", (uint8(4, 32, 96),)),
        Call("aten::view", (uint8(4, 24, 64),)),
    )
    found = served("vllm::moe_forward", HIDDEN, bf16(10, 4), inner=inner)
    assert isinstance(found, Cost) and (found.flop, found.bytes) == (EXPERT_FLOP, 2 * 2 * 640 + 4 * 144 * 32)
    assert "scales" in found.approximate
    assert served("vllm::moe_forward", HIDDEN, bf16(10, 4), inner=inner[1:]) == NO_WEIGHTS
    assert served("vllm::moe_forward", HIDDEN, bf16(10, 4), inner=inner[:3]) == NO_WEIGHTS
    routed = (Call("_moe_C::topk_softmax", (fp32(10, 2), IDS, IDS, fp32(10, 4))), *inner[1:])
    assert served("vllm::moe_forward", HIDDEN, bf16(10, 4), inner=routed) == found
    fused = (*inner, Call("vllm::outplace_fused_experts", ()))
    assert served("vllm::moe_forward", HIDDEN, bf16(10, 4), inner=fused) == INNER_OPS


PRODUCTS: list[tuple[str, tuple[Argument, ...], float]] = [
    # 5 rows of 64 times 64 × 96; the bytes of all that is read and written
    ("aiter::gemm_a16w16", (bf16(5, 64), bf16(96, 64), None, "15"), 2 * (320 + 6144 + 480)),
    ("sgl_kernel::fp8_scaled_mm", (fp8(5, 64), fp8(64, 96), fp32(5), fp32(96), "15"), 320 + 6144 + 4 * 101 + 960),
    ("vllm::fp8_gemm_nt_op", (fp8(5, 64), fp32(5, 1), fp8(96, 64), fp32(1, 1), bf16(5, 96)), 320 + 6144 + 24 + 960),
    ("_C::cutlass_scaled_fp4_mm", (bf16(5, 96), uint8(5, 32), uint8(96, 32), uint8(5, 4), uint8(96, 4), fp32(1)), 160 + 3072 + 20 + 384 + 4 + 960),
    ("_rocm_C::wvSplitKQ", (fp8(96, 64), fp8(5, 64), bf16(5, 96), fp32(1), fp32(1), "304"), 6144 + 320 + 960 + 4),
    ("_rocm_C::wvSplitKQ", (fp8(96, 64), fp8(5, 64), None, bf16(5, 96), fp32(1), fp32(1), "304"), 6144 + 320 + 960 + 8),
    ("_C::awq_gemm", (bf16(5, 64), int32(64, 12), bf16(2, 96), int32(2, 12), "8"), 640 + 3072 + 384 + 96 + 960),
    ("_C::gptq_gemm", (bf16(5, 64), int32(8, 96), int32(2, 12), bf16(2, 96), int32(0), "True", "4"), 640 + 3072 + 96 + 384 + 960),
    ("_C::marlin_gemm", (bf16(5, 64), int32(4, 192), bf16(2, 96), int32(9), "5", "96", "64"), 640 + 3072 + 384 + 36 + 960),
    ("_C::gptq_marlin_gemm", (bf16(5, 64), None, int32(4, 192), bf16(2, 96), None, None, None, None, int32(9), "7", "5", "96", "64", "True"), 640 + 3072 + 384 + 36 + 960),
    ("_C::marlin_gemm", (bf16(5, 64), None, int32(4, 192), bf16(96), bf16(2, 96), None, None, None, None, None, int32(9), "7", "5", "96", "64", "True"), 640 + 3072 + 192 + 384 + 36 + 960),
    ("aten::_weight_int4pack_mm", (bf16(5, 64), int32(12, 1, 32, 2), "32", bf16(2, 96, 2)), 640 + 3072 + 768 + 960),
    ("bitsandbytes::gemv_4bit", (bf16(5, 64), uint8(3072, 1), "[96, 64]", fp32(96), fp32(16), "64"), 640 + 3072 + 384 + 64 + 960),
    ("_Linear", (bf16(96, 64), bf16(5, 64), None), 2 * (320 + 6144 + 480)),
]  # fmt: skip


@pytest.mark.parametrize(("op", "args", "moved"), PRODUCTS)
def test_products_count_packed_weights_at_their_stored_size(op: str, args: tuple[Argument, ...], moved: float) -> None:
    found = cost(op, *args)
    assert (found.family, found.flop, found.bytes) == ("gemm", 2 * 5 * 96 * 64, moved)
    assert "M=5 N=96 K=64" in found.params_text


def test_weights_that_cannot_hold_the_product_give_no_cost() -> None:
    assert served("_C::awq_gemm", bf16(5, 64), int32(64, 11), bf16(2, 96), int32(2, 12), "8") == OTHER_ARGUMENTS
    assert served("aiter::gemm_a16w16", bf16(5, 64), bf16(96, 63)) == OTHER_ARGUMENTS
    assert served("bitsandbytes::gemv_4bit", bf16(5, 64), uint8(3072, 1), "[96, 65]", fp32(96)) == OTHER_ARGUMENTS


STREAMED: list[tuple[str, tuple[Argument, ...], float, float]] = [
    ("aiter::add_rmsnorm", (bf16(4, 8), bf16(4, 8), bf16(4, 8), bf16(4, 8), bf16(8), "1e-6"), 5 * 32, 2 * (128 + 8)),
    ("aiter::rms_norm", (bf16(4, 8), bf16(8), "1e-6"), 4 * 32, 2 * (64 + 8)),
    ("_C::rms_norm_static_fp8_quant", (fp8(4, 8), bf16(4, 8), bf16(8), fp32(1)), 6 * 32, 32 + 64 + 16 + 4),
    ("sgl_kernel::silu_and_mul", (bf16(4, 8), bf16(4, 16)), 2 * 64, 2 * (64 + 32)),
    ("sgl_kernel::sgl_per_token_group_quant_8bit", (bf16(4, 8), fp8(4, 8), fp32(4, 1), "8"), 3 * 32, 64 + 32 + 16),
    ("sgl_kernel::rotary_embedding", (int64(4), bf16(4, 16), bf16(4, 8), "8"), 3 * 96, 32 + 2 * 2 * 96),
    ("sglang::store_cache", (bf16(4, 8), bf16(4, 8), fp8(9, 8), fp8(9, 8), int64(4)), 0, 128 + 64 + 32),
    ("sgl_kernel::topk_softmax", (fp32(4, 2), int32(4, 2), bf16(4, 8), "True"), 5 * 32, 64 + 64),
    ("sgl_kernel::topk_softmax", (fp32(4, 2), int32(4, 2), int32(4, 2), bf16(4, 8)), 5 * 32, 96 + 64),
    ("_C::merge_attn_states", (bf16(4, 2, 8), None, *[bf16(4, 2, 8), fp32(2, 4)] * 2), 4 * 64, 3 * 128 + 2 * 32),
    ("symm_mem::multimem_all_reduce_", (bf16(4, 8), "sum", "0"), 0, 64),
    ("_C_custom_ar::all_reduce", ("7", bf16(4, 8), bf16(4, 8), "0", "0"), 0, 64),
    ("aiter::ck_moe_stage1", (bf16(4, 8), bf16(3, 12, 8), bf16(3, 8, 6), *[int32(9)] * 3, bf16(4, 2, 6), "2"), 2 * 8 * 12 * 8, 64 + 576 + 96),
    ("aiter::ck_moe_stage2", (bf16(4, 2, 6), bf16(3, 12, 8), bf16(3, 8, 6), *[int32(9)] * 3, bf16(4, 8), "2"), 2 * 8 * 8 * 6, 96 + 288 + 64),
]  # fmt: skip


@pytest.mark.parametrize(("op", "args", "flop", "moved"), STREAMED)
def test_other_ops_by_hand(op: str, args: tuple[Argument, ...], flop: float, moved: float) -> None:
    found = cost(op, *args)
    assert (found.flop, found.bytes) == (flop, moved)


def test_numbers_that_wrappers_end_with_do_not_matter() -> None:
    assert has_model("sglang_profiler::memory_pool__set_kv_buffer_impl_353")
    assert not has_model("sglang_profiler::utils_apply_qk_norm_487") and not has_model("vllm::no_such_op")
    assert has_model("_C::rms_norm.default") and cache_argument("_C_cache_ops::reshape_and_cache_flash") == 2
    assert cost_of(Call("vllm::no_such_op", (Q,))) is None


@each_case(SERVING_OPS)
def test_every_op_of_the_table_is_found_by_its_name(op: str) -> None:
    assert has_model(op)


CATEGORIES = {
    # the tables of ops, and the op categories that their ops may have
    "norms": (NORMS, {"Normalization"}),
    "activations": (ACTIVATIONS, {"Elementwise", "Quantization"}),
    "rotary embeddings": (ROPES, {"RoPE", "Memory"}),
    "quantisation": (QUANTIZE, {"Quantization", "MoE"}),
    "cache writes": (CACHE_WRITES, {"Memory"}),
    "collectives": (COLLECTIVES, {"Communication"}),
    "products": (GEMMS, {"GEMM"}),
    "experts": (MOES, {"MoE", "GEMM"}),
    "attention": (ATTENTIONS, {"Attention"}),
    "others": (OTHERS, {"Attention", "MoE", "Random", "Elementwise"}),
}


@pytest.mark.parametrize("table", CATEGORIES)
def test_the_category_of_an_op_agrees_with_its_table(table: str) -> None:
    ops, categories = CATEGORIES[table]
    assert {op: op_category(op) for op in ops if op_category(op) not in categories} == {}


def test_the_table_is_loaded_only_for_traces_that_need_it() -> None:
    program = (
        "import sys, warplens.costs as c; c.has_model('aten::mm'); assert 'warplens.costs.serving' not in sys.modules; "
        "c.has_model('_C::rms_norm'); assert 'warplens.costs.serving' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)

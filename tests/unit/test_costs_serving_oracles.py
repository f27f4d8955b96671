"""Costs of serving engines' ops against TraceLens's models of the same calls (docs/concepts/costs.md has the reasons)."""

from __future__ import annotations

import pytest

from cost_calls import Argument, bf16, fp32, tensor
from warplens.costs import Call, cost_of
from warplens.model.iteration_marks import parse_mark

MIXED = "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)"
DECODE = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)"
PROMPTS = "execute_2000_context_4(sq2000sk2000sqsq1300000sqsk1300000)_generation_0(sq0sk0sqsq0sqsk0)"


def fp8(*shape: int) -> Argument:
    return tensor("fp8", *shape)


def int32(*shape: int) -> Argument:
    return tensor("int32", *shape)


ROWS, CACHE = bf16(8192, 2880), bf16(835874, 1, 8, 128)
EQUAL: list[tuple[str, tuple[Argument, ...], str, float, float]] = [
    # op, arguments, mark of the iteration, its FLOPs and bytes
    ("sglang_profiler::attention_paged_attention_ragged_100",
     (bf16(32, 32, 128), tensor("uint8", 10905190400), bf16(32, 32, 128), CACHE, CACHE, int32(33)), DECODE, 537149440, 134811648),
    ("vllm::rocm_unquantized_gemm", (ROWS, bf16(5120, 2880), bf16(5120)), "", 241633853440, 160573440),
    ("aiter::gemm_a16w16", (bf16(32, 4096), bf16(6144, 4096), None, "15"), "", 1610612736, 50987008),
    ("aiter::gemm_a8w8_blockscale_ck",
     (fp8(64, 7168), fp8(2112, 7168), fp32(64, 56), fp32(17, 56), bf16(64, 2112)), "", 1937768448, 15867904 + 4 * 56 * (64 + 17)),
    ("aiter::rope_cached_positions_2c_fwd_impl",
     (bf16(1, 64, 32, 128), bf16(1, 64, 8, 128)) * 2 + (bf16(40960, 1, 1, 64), bf16(40960, 1, 1, 64), int32(1, 64)), "",
     983040, 1310720 + 4 * 64),
    ("sgl_kernel::all_reduce_reg", ("1", bf16(32, 7168), bf16(32, 7168)), "", 0, 917504 / 2),
]  # fmt: skip
"""Scales and positions are read as well, which it leaves out; of an all-reduce one rank's message counts, not both sides."""


@pytest.mark.parametrize(("op", "args", "mark", "flop", "moved"), EQUAL)
def test_the_figures_are_equal(op: str, args: tuple[Argument, ...], mark: str, flop: float, moved: float) -> None:
    found = cost_of(Call(op, args, mark=parse_mark(mark)))
    assert found is not None and (found.flop, found.bytes) == (flop, moved)


DENSE = (bf16(128, 3072, 4096), bf16(128, 4096, 1536))
NEAR: list[tuple[str, tuple[Argument, ...], str, float, float, float, float]] = [
    # … and by which factors ours may be smaller or larger
    ("vllm::unified_attention_with_output",
     (bf16(8192, 64, 64), bf16(8192, 8, 64), bf16(8192, 8, 64), bf16(8192, 64, 64)), MIXED, 65010180096, 222115840, 1.0, 1.0011),
    ("aiter::fmha_v3_varlen_fwd",
     (bf16(2000, 32, 192), bf16(2000, 32, 192), bf16(2000, 32, 128), int32(5), int32(5), "900", "900", "0", "0.", "0.07", "0.",
      "False", "True", "-1", "-1"), PROMPTS, 13312000000, 81920000, 1.0, 1.0016),
    ("aiter::rms_norm", (ROWS, bf16(2880), "1e-5", "0"), "", 94388224, 94377600, 0.999, 1.0),
    ("aiter::rmsnorm2d_fwd_with_add_ck", (ROWS, ROWS, ROWS, ROWS, bf16(2880)), "", 117981184, 188749440, 0.999, 1.0),
    ("vllm::rocm_aiter_fused_moe", (bf16(4096, 4096), *DENSE, fp32(4096, 8), int32(4096, 8)), "",
     1237202239488, 4898947072, 0.999, 1.0),
    ("vllm::rocm_aiter_fused_moe", (bf16(4, 4096), *DENSE, fp32(4, 8), int32(4, 8)), "", 1208205312, 1099423744, 0.999, 1.11),
    ("aiter::fmoe_fp8_blockscale_g1u1",
     (bf16(64, 7168), fp8(64, 7168), fp8(256, 512, 7168), fp8(256, 7168, 256), int32(9000), fp32(9000), int32(300), int32(2), "8"),
     "", 5644025856, 1225927489, 0.998, 1.16),
    ("aiter::ck_moe_stage1", (bf16(64, 4096), *DENSE, int32(9000), int32(300), int32(2), bf16(64, 8, 1536), "8"), "",
     12884901888, 3171540148, 0.999, 1.02),
    ("aiter::ck_moe_stage2", (bf16(64, 8, 1536), *DENSE, int32(9000), int32(300), int32(2), bf16(64, 4096), "8"), "",
     6442450944, 1586818650, 0.999, 1.02),
    ("aiter::silu_and_mul", (bf16(32, 12288), bf16(32, 24576)), "", 1966080, 2359296, 0.79, 1.0),
    ("aiter::dynamic_per_token_scaled_quant", (fp8(64, 7168), bf16(64, 7168), fp32(64, 1)), "", 1189888, 1376512, 1.0, 1.16),
]  # fmt: skip


@pytest.mark.parametrize(("op", "args", "mark", "flop", "moved", "least", "most"), NEAR)
def test_the_figures_differ_by_what_is_documented(
    op: str, args: tuple[Argument, ...], mark: str, flop: float, moved: float, least: float, most: float
) -> None:
    found = cost_of(Call(op, args, mark=parse_mark(mark)))
    assert found is not None
    assert least <= found.flop / flop <= most and least <= found.bytes / moved <= most


def test_prompts_differ_by_their_diagonal_alone() -> None:
    args = (bf16(8192, 64, 64), bf16(8192, 8, 64), bf16(8192, 8, 64), bf16(8192, 64, 64))
    found = cost_of(Call("vllm::unified_attention_with_output", args, mark=parse_mark(MIXED)))
    assert found is not None and found.flop - 65010180096 == 8155 * 64 * (64 + 64)

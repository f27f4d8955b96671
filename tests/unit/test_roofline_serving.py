"""Costs that need more than an op's inputs: the mark of the iteration around it, the calls inside it."""

from __future__ import annotations

from typing import Any

import pytest

from support import Opened, annotation, kernel, launch, op
from warplens.model.iteration_marks import parse_mark

BF16, UINT8 = "c10::BFloat16", "unsigned char"
ATTENTION = "kernel_unified_attention_2d"
LAYER = {"Input Dims": [[4, 8, 64], [4, 2, 64], [4, 2, 64], [4, 8, 64], []], "Input type": [BF16] * 4 + [""]}
MARK = "execute_4_context_0(sq0sk0sqsq0sqsk0)_generation_4(sq4sk{keys}sqsq4sqsk{keys})"


def mark(keys: int, ts: float, dur: float = 50) -> dict[str, Any]:
    return annotation(MARK.format(keys=keys), ts, dur)


def attention(ts: float, correlation: int, name: str = "vllm::unified_attention_with_output") -> list[dict[str, Any]]:
    return [
        op(name, ts, 10, **LAYER),
        launch(ts + 2, 1, correlation),
        kernel(ATTENTION, ts + 20, 20, correlation),
    ]


def rows(opened: Opened, events: list[dict[str, Any]], table: str = "roofline") -> list[dict[str, Any]]:
    return opened(events, gpu="H100 SXM").table(table).to_dicts()


def test_the_mark_around_an_attention_gives_its_lengths(opened: Opened) -> None:
    events = [mark(100, 0), *attention(5, 1), mark(200, 100), *attention(105, 2), *attention(125, 3)]
    found = {row["flop"]: row for row in rows(opened, events, "attention")}
    assert {flop: row["count"] for flop, row in found.items()} == {100 * 8 * 4 * 64: 1, 200 * 8 * 4 * 64: 2}
    assert {(row["requests"], row["queries"], row["keys"], row["lengths"]) for row in found.values()} == {
        (4, 4, 100, "mark"),
        (4, 4, 200, "mark"),
    }


def test_the_nearest_mark_with_lengths_counts(opened: Opened) -> None:
    """SGLang writes a mark without lengths inside one that has them."""
    inner = annotation("step[DECODE bs=4]", 2, 40)
    assert parse_mark(inner["name"]) is not None
    found = rows(opened, [mark(100, 0), inner, *attention(5, 1)])
    assert [row["flop"] for row in found] == [100 * 8 * 4 * 64]


@pytest.mark.parametrize("around", ["step[DECODE bs=4]", "my_region", MARK.format(keys=3)])
def test_attention_without_usable_lengths_says_so_in_the_coverage(opened: Opened, around: str) -> None:
    events = [annotation(around, 0, 50), *attention(5, 1)]
    assert rows(opened, events) == []
    (row,) = rows(opened, events, "cost_coverage")
    assert (row["reason"], row["ops"]) == ("no lengths", "vllm::unified_attention_with_output")
    assert "mark" in row["meaning"]


def test_the_cache_is_counted_as_the_op_that_writes_it_stores_it(opened: Opened) -> None:
    cache = [9, 16, 2, 64]
    write = {
        "Input Dims": [[4, 2, 64], [4, 2, 64], cache, cache, [4]],
        "Input type": [BF16, BF16, "c10::Float8_e4m3fn", "c10::Float8_e4m3fn", "long int"],
    }
    events = [mark(100, 0), op("_C_cache_ops::reshape_and_cache_flash", 1, 2, **write), *attention(5, 1)]
    (row,) = rows(opened, events, "attention")
    assert row["bytes"] == 2 * 2 * 4 * 8 * 64 + 100 * 2 * 2 * 64


def experts(ts: float, correlation: int, inner: int, top_k: str = "2") -> list[dict[str, Any]]:
    """A layer of 4 packed experts, seen by the views inside it."""
    views = [[4, 32, 2 * inner], [4, inner // 2, 64]]
    return [
        op("vllm::moe_forward", ts, 20, **{"Input Dims": [[10, 64], [10, 4]], "Input type": [BF16, BF16]}),
        op("TopK", ts + 1, 2, **{"Input Dims": [[10, 4], []], "Input type": [BF16, "Scalar"], "Concrete Inputs": ["", top_k]}),
        *[op("aten::view", ts + 4 + place, 0.5, **{"Input Dims": [view], "Input type": [UINT8]}) for place, view in enumerate(views)],
        launch(ts + 10, 1, correlation),
        kernel("_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1", ts + 40, 20, correlation),
    ]  # fmt: skip


def generated_experts(name: str, inner: int) -> list[dict[str, Any]]:
    """A layer of 16 experts in FlashInfer's TensorRT-LLM kernels: 40 tokens, 64 wide, 4 experts each, 192 padded rows."""
    buffers = [(40, 64), (40, 4), (192, inner), (192, 64), (16,)]
    arguments = [
        {"Input Dims": [[], []], "Input type": ["ScalarList", "Scalar"], "Concrete Inputs": [str(list(size)), "0"]}
        for size in buffers
    ]
    return [
        op("vllm::moe_forward", 0, 20, **{"Input Dims": [[40, 64], [40, 16], []], "Input type": [BF16, BF16, ""]}),
        *[op("aten::empty", 1 + place, 0.5, **each) for place, each in enumerate(arguments)],
        launch(10, 1, 1),
        kernel(name, 40, 20, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kernel_name", "stored", "dtype", "weight_bytes"),
    [
        ("bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3", 48, "fp8", 17 / 32),
        ("bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3", 48, "fp8", 17 / 32),
        ("bmm_E2m1_E2m1E2m1_Fp32_t128x8x512", 24, "fp4", 9 / 16),
    ],
)
def test_experts_of_generated_kernels_have_the_sizes_of_their_buffers(
    opened: Opened, kernel_name: str, stored: int, dtype: str, weight_bytes: float
) -> None:
    (row,) = rows(opened, generated_experts(kernel_name, stored))
    assert (row["family"], row["dtype"], row["flop"]) == ("moe", dtype, 40 * 4 * 2 * 64 * 3 * 48)
    assert row["bytes"] == 16 * 3 * 64 * 48 * weight_bytes + 2 * 40 * 64 * 2
    assert "buffers" in row["approximate"]


def test_buffers_beside_any_other_kernel_say_nothing_of_experts(opened: Opened) -> None:
    (row,) = rows(opened, generated_experts("some_gemm_kernel", 48), "cost_coverage")
    assert row["reason"] == "no weights"


def test_experts_find_the_weights_that_the_calls_inside_them_see(opened: Opened) -> None:
    """Two layers with the same inputs and other weights are two rows."""
    events = [*experts(0, 1, 48), *experts(100, 2, 48), *experts(200, 3, 96)]
    found = {row["flop"]: row["count"] for row in rows(opened, events)}
    assert found == {20 * 2 * 64 * 3 * 48: 2, 20 * 2 * 64 * 3 * 96: 1}


def test_experts_whose_choice_is_not_recorded_have_no_weights(opened: Opened) -> None:
    (row,) = rows(opened, experts(0, 1, 48, top_k=""), "cost_coverage")
    assert row["reason"] == "no weights"


def test_inputs_with_several_costs_have_no_roofline_by_shapes(opened: Opened) -> None:
    profile = opened([mark(100, 0), *attention(5, 1), mark(200, 100), *attention(105, 2)], gpu="H100 SXM")
    shapes = profile.table("op_shapes").to_dicts()
    (row,) = [row for row in shapes if row["op"].startswith("vllm::")]
    assert row["count"] == 2 and row["flop"] is None

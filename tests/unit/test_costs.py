"""Costs of matrix products, worked out by hand: plain, scaled and grouped ones, and experts built from them."""

from __future__ import annotations

import pytest

from cost_calls import bf16, cost, figures, fp32, int64, tensor
from warplens.costs import MATRIX, Call, Tensor, cost_of, has_model

GEMMS = [
    ("aten::mm", (bf16(128, 64), bf16(64, 32)), 2 * 128 * 32 * 64, 2 * (128 * 64 + 64 * 32 + 128 * 32)),
    ("aten::mm", (fp32(8, 4), fp32(4, 2)), 2 * 8 * 2 * 4, 4 * (32 + 8 + 16)),
    # mm.dtype: bf16 factors, fp32 result
    ("aten::mm", (bf16(8, 4), bf16(4, 2), "6"), 2 * 8 * 2 * 4, 2 * (32 + 8) + 4 * 16),
    ("aten::addmm", (bf16(32), bf16(128, 64), bf16(64, 32), "1", "1"), 128 * 32 * 129, 2 * (32 + 8192 + 2048 + 4096)),
    ("aten::addmm", (bf16(8, 2), bf16(8, 4), bf16(4, 2)), 8 * 2 * 9, 2 * (16 + 32 + 8 + 16)),
    ("aten::_addmm_activation", (bf16(2), bf16(8, 4), bf16(4, 2)), 8 * 2 * 9, 2 * (2 + 32 + 8 + 16)),
    ("aten::bmm", (bf16(5, 8, 4), bf16(5, 4, 2)), 5 * 2 * 8 * 2 * 4, 2 * 5 * (32 + 8 + 16)),
    ("aten::baddbmm", (bf16(5, 8, 2), bf16(5, 8, 4), bf16(5, 4, 2)), 5 * 8 * 2 * 9, 2 * 5 * (16 + 32 + 8 + 16)),
    ("aten::matmul", (fp32(3, 8, 4), fp32(4, 2)), 3 * 2 * 8 * 2 * 4, 4 * (96 + 8 + 48)),
    ("aten::matmul", (fp32(8, 4), fp32(3, 4, 2)), 3 * 2 * 8 * 2 * 4, 4 * (32 + 24 + 48)),
    ("aten::matmul", (fp32(7, 1, 8, 4), fp32(3, 4, 2)), 21 * 2 * 8 * 2 * 4, 4 * (7 * 32 + 24 + 21 * 16)),
    ("aten::matmul", (fp32(4), fp32(3, 4, 2)), 3 * 2 * 2 * 4, 4 * (4 + 24 + 6)),
    ("aten::matmul", (fp32(3, 8, 4), fp32(4)), 2 * 24 * 4, 4 * (96 + 4 + 24)),
    ("aten::linear", (bf16(2, 3, 4), bf16(5, 4), bf16(5)), 6 * 5 * 9, 2 * (24 + 20 + 5 + 30)),
    ("aten::linear", (bf16(2, 3, 4), bf16(5, 4), None), 6 * 5 * 8, 2 * (24 + 20 + 30)),
    ("aten::mv", (fp32(8, 4), fp32(4)), 2 * 8 * 4, 4 * (32 + 4 + 8)),
    ("aten::addmv", (fp32(8), fp32(8, 4), fp32(4)), 8 * 9, 4 * (8 + 32 + 4 + 8)),
    ("aten::dot", (fp32(9), fp32(9)), 2 * 9, 4 * (9 + 9 + 1)),
    # 8-bit integers are summed up in 32 bits
    ("aten::_int_mm", (tensor("int8", 8, 4), tensor("int8", 4, 2)), 2 * 8 * 2 * 4, 32 + 8 + 4 * 16),
    (
        "aten::_scaled_mm",
        (tensor("fp8", 8, 4), tensor("fp8", 4, 2), fp32(), fp32(), None, None, "15"),
        2 * 8 * 2 * 4,
        32 + 8 + 2 * 4 + 2 * 16,
    ),
    (
        "aten::_scaled_mm",
        (tensor("fp8", 8, 4), tensor("fp8", 4, 2), fp32(8, 1), fp32(1, 2), bf16(2), None, "6"),
        8 * 2 * 9,
        32 + 8 + 4 * (8 + 2) + 2 * 2 + 4 * 16,
    ),
    # two fp4 values in a byte: the inner dimension is twice the stored one
    (
        "aten::_scaled_mm",
        (tensor("fp4", 8, 4), tensor("fp4", 4, 2), None, None, None, None, "15"),
        2 * 8 * 2 * (2 * 4),
        32 + 8 + 2 * 16,
    ),
    ("vllm::rocm_unquantized_gemm", (bf16(6, 4), bf16(5, 4), None), 2 * 6 * 5 * 4, 2 * (24 + 20 + 30)),
    ("vllm::rocm_unquantized_gemm_impl", (bf16(6, 4), bf16(5, 4), bf16(5)), 6 * 5 * 9, 2 * (24 + 20 + 5 + 30)),
    ("_rocm_C::wvSplitK", (bf16(5, 4), bf16(6, 4), "304"), 2 * 6 * 5 * 4, 2 * (24 + 20 + 30)),
    ("_rocm_C::LLMM1", (bf16(5, 4), bf16(1, 4), "4"), 2 * 5 * 4, 2 * (4 + 20 + 5)),
    (
        "_C::cutlass_scaled_mm",
        (bf16(8, 2), tensor("int8", 8, 4), tensor("int8", 4, 2), fp32(8, 1), fp32(1, 2), bf16(2)),
        8 * 2 * 9,
        32 + 8 + 4 * (8 + 2) + 2 * 2 + 2 * 16,
    ),
]


@pytest.mark.parametrize(("op", "args", "flop", "moved"), GEMMS)
def test_a_product_counts_two_per_multiply_add_and_one_per_bias(
    op: str, args: tuple[Tensor, ...], flop: int, moved: int
) -> None:
    found = cost(op, *args)
    assert (found.flop, found.bytes) == (flop, moved)
    assert (found.family, found.unit) == ("gemm", MATRIX)


def test_a_product_says_its_sizes_and_the_memory_order_of_its_factors() -> None:
    rows, columns = tensor("bf16", 128, 64, strides=(64, 1)), tensor("bf16", 64, 32, strides=(1, 64))
    assert cost("aten::mm", rows, columns).params_text == "B=1 M=128 N=32 K=64 layout=nt"
    sparse = tensor("bf16", 64, 32, strides=(128, 2))
    assert dict(cost("aten::mm", rows, sparse).params)["layout"] == "ns"


def test_a_broadcast_factor_is_read_at_its_stored_size() -> None:
    repeated = tensor("fp32", 5, 8, 4, strides=(0, 4, 1))
    assert figures("aten::bmm", repeated, fp32(5, 4, 2)) == (5 * 2 * 8 * 2 * 4, 4 * (32 + 40 + 80))


@pytest.mark.parametrize(
    ("op", "args"),
    [
        ("aten::mm", (bf16(8, 4), bf16(5, 2))),
        ("aten::bmm", (bf16(3, 8, 4), bf16(2, 4, 2))),
        ("aten::linear", (bf16(8, 4), bf16(2, 5))),
        ("aten::mv", (bf16(8, 4), bf16(5))),
        ("aten::mm", (bf16(), bf16(4, 2))),
        ("aten::mm", (bf16(8, 4), None)),
        ("aten::_grouped_mm", (bf16(8, 4), bf16(5, 2), int64(2))),
        ("aten::_grouped_mm", (bf16(8), bf16(8, 2), int64(2))),
    ],
)
def test_factors_that_do_not_fit_have_no_cost(op: str, args: tuple[Tensor, ...]) -> None:
    assert cost_of(Call(op, args)) is None


GROUPED = [
    # tokens of all experts one after the other times one matrix per expert
    ((bf16(100, 4), bf16(3, 4, 2), tensor("int32", 3)), 2 * 100 * 2 * 4, 2 * (400 + 24 + 200)),
    ((bf16(3, 8, 4), bf16(4, 50), tensor("int32", 3)), 2 * 8 * 50 * 4, 2 * (96 + 200 + 400)),
    ((bf16(3, 8, 4), bf16(3, 4, 2), None), 3 * 2 * 8 * 2 * 4, 2 * (96 + 24 + 48)),
    # gradients of the weights: the groups share out the inner dimension, each has a result of its own
    ((bf16(8, 90), bf16(90, 2), tensor("int32", 3)), 2 * 8 * 2 * 90, 2 * (720 + 180 + 3 * 16)),
    ((bf16(100, 4), bf16(3, 4, 2), tensor("int32", 3), None, "6"), 2 * 100 * 2 * 4, 2 * (400 + 24) + 4 * 200),
]


@pytest.mark.parametrize(("args", "flop", "moved"), GROUPED)
def test_a_grouped_product_counts_each_row_once(args: tuple[Tensor, ...], flop: int, moved: int) -> None:
    found = cost("aten::_grouped_mm", *args)
    assert (found.flop, found.bytes, found.family) == (flop, moved, "grouped gemm")
    assert dict(found.params)["G"] == 3


def test_a_scaled_grouped_product_reads_its_scales() -> None:
    args = (tensor("fp8", 100, 4), tensor("fp8", 3, 4, 2), fp32(100), fp32(3, 2), tensor("int32", 3), None, None, "15")
    assert figures("aten::_scaled_grouped_mm", *args) == (2 * 100 * 2 * 4, 400 + 24 + 4 * (100 + 6) + 2 * 200)


@pytest.mark.parametrize("op", ["vllm::inplace_fused_experts", "vllm::outplace_fused_experts"])
def test_fused_experts_are_two_products_per_visit(op: str) -> None:
    """10 tokens of width 8 visit 2 of 4 experts, each 8 → 2·6 (gate and up) and 6 → 8."""
    args = (bf16(10, 8), bf16(4, 12, 8), bf16(4, 8, 6), fp32(10, 2), tensor("int32", 10, 2))
    found = cost(op, *args)
    assert found.flop == 20 * (2 * 12 * 8 + 2 * 8 * 6)
    assert found.bytes == 2 * (80 + 80) + 2 * (4 * 12 * 8 + 4 * 8 * 6)
    assert (found.family, found.approximate) == ("moe", "")


def test_few_visits_read_few_experts() -> None:
    args = (bf16(1, 8), bf16(4, 12, 8), bf16(4, 8, 6), fp32(1, 2), tensor("int32", 1, 2))
    found = cost("vllm::inplace_fused_experts", *args)
    assert found.bytes == 2 * (8 + 8) + 2 * (12 * 8 + 8 * 6) * 2
    assert found.approximate


def test_overloads_and_in_place_ops_are_found_under_their_plain_name() -> None:
    assert has_model("aten::mm.default") and has_model("aten::add_.Tensor") and has_model("aten::_foreach_mul_.Scalar")
    assert not has_model("aten::__and__") and not has_model("aten::view") and not has_model("mm")
    assert figures("aten::mm.default", bf16(8, 4), bf16(4, 2)) == figures("aten::mm", bf16(8, 4), bf16(4, 2))

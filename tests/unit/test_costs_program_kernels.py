"""Triton kernels of the program that Inductor launches: an op `NAME_3` around a kernel `NAME`, with all its arguments."""

from __future__ import annotations

from typing import Any

import pytest

from support import Opened, kernel, launch, op

BF16, INT8, FP8, FP32 = "c10::BFloat16", "signed char", "c10::Float8_e4m3fnuz", "float"
HEADS_FIRST, TOKENS_FIRST = [2, 8, 96, 64], [2, 96, 8, 64]
PAIRS = 2 * 8 * 96 * 96


def launched(name: str, kernel_name: str, dims: list[list[int]], types: list[str]) -> list[dict[str, Any]]:
    arguments = {
        "Input Dims": [*dims, []],
        "Input type": [*types, "Scalar"],
        "Concrete Inputs": [""] * len(dims) + ["7"],
    }
    return [op(name, 0, 10, **arguments), launch(2, 1, 1), kernel(kernel_name, 20, 20, 1)]


def table(opened: Opened, events: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return opened(events, gpu="H100 SXM").table(name).to_dicts()


@pytest.mark.parametrize("shape", [HEADS_FIRST, TOKENS_FIRST])
def test_attention_is_costed_by_the_sizes_of_its_tensors(opened: Opened, shape: list[int]) -> None:
    scales = [2, 8, 1]
    dims, types = [shape, shape, shape, scales, shape], [INT8, INT8, FP8, FP32, BF16]
    (row,) = table(opened, launched("sage_fwd_1", "sage_fwd", dims, types), "attention")
    assert (row["op"], row["Hq"], row["Nq"], row["D"]) == ("sage_fwd_1", 8, 96, 64)
    assert row["flop"] == PAIRS * 4 * 64
    assert row["bytes"] == 2 * 8 * 96 * 64 * (1 + 1 + 1 + 2)
    assert "mask" in row["approximate"]


def test_any_other_kernel_moves_the_tensors_it_is_handed(opened: Opened) -> None:
    dims, types = [[8, 16], [8, 16], [8]], [BF16, INT8, FP32]
    (row,) = table(opened, launched("sage_quant_kernel_0", "sage_quant_kernel", dims, types), "roofline")
    assert (row["family"], row["bytes"]) == ("triton", 128 * (2 + 1) + 4 * 8)


def test_an_op_of_another_name_stays_without_a_model(opened: Opened) -> None:
    (row,) = table(opened, launched("my_op_0", "their_kernel", [[8, 16]], [BF16]), "cost_coverage")
    assert row["reason"] != "costed"

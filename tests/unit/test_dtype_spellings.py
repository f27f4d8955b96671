"""Element types in other spellings than the profiler's: ops have the same cost and the same arguments of a replay."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from support import Opened, kernel, launch, op
from warplens.costs import cost_of, parse_call
from warplens.costs.tensors import DTYPES
from warplens.model.dtypes import profiler_spelling
from warplens.planning import recorded
from warplens.planning.recorded import from_spec


@pytest.mark.parametrize("name", sorted({*DTYPES, *recorded.DTYPES}))
def test_the_profilers_own_names_are_known_in_any_case(name: str) -> None:
    assert profiler_spelling(name) == name
    assert profiler_spelling(name.lower()) == name
    assert profiler_spelling(name.removeprefix("c10::")) == name


SPELLINGS = {
    "c10::BFloat16": ("c10::bfloat16", "BFloat16", "at::BFloat16", "torch.bfloat16", "bfloat16"),
    "c10::Half": ("c10::half", "Half", "at::Half", "torch.float16", "torch.half", "float16"),
    "c10::Float8_e4m3fn": ("c10::float8_e4m3fn", "Float8_e4m3fn", "torch.float8_e4m3fn"),
    "c10::Float8_e4m3fnuz": ("c10::float8_e4m3fnuz", "Float8_e4m3fnuz"),
    "float": ("Float", "torch.float32", "float32"),
    "long int": ("torch.int64", "int64"),
    "unsigned char": ("Byte", "torch.uint8", "uint8"),
}


@pytest.mark.parametrize(("name", "spellings"), SPELLINGS.items())
def test_a_product_costs_the_same_however_its_type_is_spelled(name: str, spellings: Sequence[str]) -> None:
    def costed(spelling: str) -> object:
        types = json.dumps([spelling] * 2)
        return cost_of(parse_call("aten::mm", "[[64, 32], [32, 16]]", types, "", '["", ""]'))

    def planned(spelling: str) -> object:
        return from_spec("[[2, 3]]", json.dumps([spelling]), "[[3, 1]]", '[""]')

    assert costed(name) is not None
    for spelling in spellings:
        assert (costed(spelling), planned(spelling)) == (costed(name), planned(name))


def test_a_number_is_no_tensor_though_its_type_is_one() -> None:
    types = '["Float", "Int", "Bool"]'
    call = parse_call("aten::f", "[[4, 4], [], []]", types, "", '["", "3", "True"]')
    assert (call.tensor(1), call.integer(1), call.flag(2)) == (None, 3, True)
    assert [value.kind for value in from_spec("[[4, 4], [], []]", types, "[[4, 1], [], []]", '["", "3", "True"]')] == [
        "tensor", "unknown", "unknown",
    ]  # fmt: skip


def test_values_count_beyond_the_shapes_and_may_be_in_round_brackets(opened: Opened) -> None:
    """A convolution as a tool writes it that knows no more than its two tensors: stride 2, padding 3."""
    args = {
        "Input Dims": [[1, 3, 32, 32], [64, 3, 7, 7]],
        "Input type": ["Float", "Float"],
        "Concrete Inputs": ["", "", "", "(2,2)", "(3,3)", "(1,1)", "False", "(0,0)", "1"],
    }
    profile = opened([op("aten::convolution", 0, 10, **args), launch(2, 1, 3), kernel("igemm_fwd_fp32", 20, 5, 3)])
    (row,) = profile.table("convolution").to_dicts()
    assert row["flop"] == 2 * 64 * 16 * 16 * 3 * 7 * 7


def test_experts_per_token_are_those_of_the_routers_weights_where_no_list_of_them_is_recorded(opened: Opened) -> None:
    args = {
        "Input Dims": [[16, 64], [8, 256, 64], [8, 64, 128], [16, 2]],
        "Input type": ["BFloat16", "BFloat16", "BFloat16", "Float"],
    }
    moe = op("vllm::rocm_aiter_fused_moe", 0, 10, **args)
    profile = opened([moe, launch(2, 1, 3), kernel("aiter_fused_moe_kernel_bf16", 20, 5, 3)])
    (row,) = profile.table("roofline").to_dicts()
    assert row["flop"] == 16 * 2 * 2 * 64 * (256 + 128)

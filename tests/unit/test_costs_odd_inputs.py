"""Every entry of the op table: a cost for plausible arguments, and never an exception for odd ones."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_calls import Argument, bf16, is_sound, tensor
from support import each_case
from warplens.costs import Call, assumed_pointwise, cost_of, parse_call
from warplens.costs.attention import AttentionOp
from warplens.costs.convolution import Convolution
from warplens.costs.gemm import Gemm, GroupedGemm
from warplens.costs.indexing import AddedRows, Elements, EmbeddingBackward, PutValues, SelectedRows
from warplens.costs.lists import JoinedTensors, MultiTensor
from warplens.costs.ops import OPS
from warplens.costs.pointwise import Pointwise
from warplens.costs.serving import SERVING_OPS
from warplens.costs.streams import Arange, ByteStream, Copy, Pooling, Reduction, Resampling, TopK
from warplens.costs.tensors import ITEM_BYTES, MAX_ELEMENTS
from warplens.model.iteration_marks import parse_mark

INDEX = tensor("int64", 3)
SQUARE, IMAGE = bf16(8, 8), bf16(2, 4, 8, 8)


def _convolution(family: Convolution) -> list[Argument]:
    args: list[Argument] = ["[1, 1]"] * 12
    args[family.x], args[family.weight] = IMAGE, bf16(4, 4, 3, 3)
    if family.gradient is not None:
        args[family.gradient] = bf16(2, 4, 6, 6)
    return args


PLAUSIBLE: dict[type, Callable[[Any], list[Argument]]] = {
    Gemm: lambda _: [SQUARE] * 3,
    GroupedGemm: lambda _: [SQUARE, bf16(2, 8, 3)],
    AttentionOp: lambda family: [tensor("int32", 3)] * 11 + ["True"] * 8 if family.order == "nhd" else [IMAGE] * 20,
    Convolution: _convolution,
    Pointwise: lambda family: [SQUARE] * family.inputs,
    ByteStream: lambda _: [IMAGE] * 9,
    Reduction: lambda _: [SQUARE],
    Pooling: lambda _: [IMAGE, "[2, 2]"],
    Resampling: lambda family: [bf16(2, 4, *[8] * family.dimensions), str([4] * family.dimensions)],
    TopK: lambda _: [SQUARE, "2"],
    Copy: lambda _: [SQUARE, SQUARE],
    Arange: lambda _: ["0", "5", "1", INDEX],
    SelectedRows: lambda _: [SQUARE, INDEX, INDEX],
    Elements: lambda _: [SQUARE, "0", INDEX],
    AddedRows: lambda _: [SQUARE, "0", INDEX, SQUARE],
    PutValues: lambda _: [SQUARE, None, SQUARE],
    EmbeddingBackward: lambda _: [SQUARE, INDEX, "10"],
    JoinedTensors: lambda _: [(SQUARE, SQUARE)],
    MultiTensor: lambda _: [(SQUARE, SQUARE)],
}


@each_case(op for op in OPS if op != "aten::index")
def test_plausible_arguments_have_a_cost(op: str) -> None:
    family = OPS[op]
    args = PLAUSIBLE[type(family)](family)
    if isinstance(family, AttentionOp) and family.order == "nhd":
        args[family.q : family.q + 3] = [bf16(30, 4, 8)] * 3
    found = cost_of(Call(op, tuple(args)))
    assert found is not None and is_sound(found) and found.bytes > 0


HUGE = tensor("fp64", MAX_ELEMENTS)
WIDE = tensor("fp64", *[2] * 46)
ODD: dict[str, tuple[Argument, ...]] = {
    "no arguments": (),
    "nothing recorded": (None,) * 20,
    "texts": ("x", "[", "]", "[,]", "[[1]]", "nan", "inf", "-inf", "1e400", "--5", "²", "\0", "True", "[True", "-1", "0", "9" * 40),
    "numbers": ("-1",) * 20,
    "nan": ("nan",) * 3 + (bf16(4),),
    "minus infinity": ("inf", "0", "1", bf16(4)),
    "large numbers": ("9" * 18,) * 20,
    "scalars": (tensor("fp32"),) * 20,
    "vectors": (bf16(5),) * 20,
    "no elements": (bf16(0),) * 20,
    "no elements in many dimensions": (bf16(0, 4, 0, 8),) * 20,
    "too many dimensions": (WIDE,) * 20,
    "huge": (HUGE,) * 20,
    "huge matrices": (tensor("fp64", 1 << 23, 1 << 23),) * 20,
    "huge images": (tensor("fp64", 1 << 11, 1 << 11, 1 << 12, 1 << 12),) * 20,
    "different ranks": (bf16(4, 8), bf16(3), bf16(2, 2, 2), bf16(), bf16(1, 1, 1, 1), bf16(5)) * 4,
    "lists": ((bf16(3), bf16(0)),) * 20,
    "empty lists": ((),) * 20,
    "tensors and negative numbers": (IMAGE, IMAGE, IMAGE, *["[-3, -3]"] * 9),
    "tensors and zeros": (IMAGE, IMAGE, IMAGE, *["[0, 0]"] * 9),
    "tensors and large numbers": (IMAGE, IMAGE, IMAGE, *["[999999999999999999, 999999999999999999]"] * 9),
    "a tensor and large numbers": (IMAGE, *["[999999999999999999, 999999999999999999]"] * 9),
    "a tensor and negative numbers": (IMAGE, *["[-7, -7]"] * 9),
    "a tensor and many numbers": (IMAGE, *["[2, 2, 2, 2, 2, 2, 2]"] * 9),
    "all element types": tuple(tensor(dtype, 4, 4) for dtype in ITEM_BYTES),
}  # fmt: skip
MARK = parse_mark("execute_8_context_1(sq5sk9sqsq25sqsk45)_generation_3(sq3sk30sqsq3sqsk30)")
MORE_OPS = (
    "aten::_foreach_pow_",
    "aten::_foreach_new_",
    "triton_poi_fused_0",
    "triton_red_",
    "triton_",
    "aten::add_",
    "",
)


@pytest.mark.parametrize("odd", ODD)
def test_odd_arguments_give_no_cost_or_a_sound_one(odd: str) -> None:
    for op in (*OPS, *SERVING_OPS, *MORE_OPS):
        call = Call(op, ODD[odd], mark=MARK, inner=(Call("TopK", ODD[odd]), Call("aten::view", ODD[odd])))
        assert is_sound(cost_of(call)), op
        assert is_sound(cost_of(call, chunks=1 << 62)), op
    for kernel in ("index_elementwise_kernel<128, 4, x>", "vectorized_gather_kernel<0, long>"):
        assert is_sound(cost_of(Call("aten::index", ODD[odd], kernel=kernel), chunks=7)), kernel
        assert is_sound(assumed_pointwise(call)), op


DAMAGED = [
    "",
    "null",
    "{}",
    "[",
    "[[",
    '"x"',
    "[null]",
    '[["a"]]',
    "[[-1, 2]]",
    "[[1.5]]",
    "[[1e999]]",
    "[[[[1]]]]",
    "[[true]]",
]
DAMAGED += [
    f"[[{'9' * 30}]]",
    f"[[0{', 9999999999' * 900}]]",
    "[" * 2000,
    "[[2, 3], [[4], 5], {}]",
    "[[2, 3], [3, 4]]",
    "\ud800",
]


@each_case(product(DAMAGED, ["", '["float", "float"]', '["TensorList", 5]', "[[]]", '["Tensor[]"]', "[{}, [[]]]"]))
def test_damaged_records_give_no_cost_or_a_sound_one(dims: str, types: str) -> None:
    for op in (
        "aten::mm",
        "aten::add",
        "aten::cat",
        "aten::sum",
        "aten::_fused_adam_",
        "aten::convolution",
        "triton_poi_0",
    ):
        for strides in ("", dims):
            assert is_sound(cost_of(parse_call(op, dims, types, strides, dims)))


def test_a_size_of_zero_hides_no_absurd_sizes() -> None:
    call = parse_call("aten::addmm", "[[1], [0, 99999999999999, 99999999999999]]", '["float", "float"]', "", "")
    assert call.tensor(0) == tensor("fp32", 1) and call.tensor(1) is None


SIZES = st.one_of(st.integers(0, 5), st.integers(0, 1 << 23))
TENSORS = st.builds(
    lambda dtype, shape: tensor(dtype, *shape), st.sampled_from(sorted(ITEM_BYTES)), st.lists(SIZES, max_size=2)
) | st.builds(
    lambda dtype, shape: tensor(dtype, *shape),
    st.sampled_from(sorted(ITEM_BYTES)),
    st.lists(st.integers(0, 9), max_size=5),
)
TEXTS = st.one_of(
    st.text(max_size=6), st.lists(st.integers(-9, 9), max_size=5).map(str), st.integers().map(str), st.floats().map(str)
)
ARGUMENTS = st.lists(st.one_of(TENSORS, TEXTS, st.none(), st.lists(TENSORS, max_size=3).map(tuple)), max_size=16)


@settings(max_examples=150)
@given(ARGUMENTS, st.integers(0, 1 << 62))
def test_no_arguments_raise(args: list[Argument], chunks: int) -> None:
    for op in (*OPS, *SERVING_OPS):
        assert is_sound(cost_of(Call(op, tuple(args), mark=MARK), chunks)), op

"""Costs against PyTorch: its FLOP counter, its element sizes, its type promotion and its result shapes.

Where the conventions differ, the difference itself is asserted: the counter leaves biases and causal masks out, and
counts the recomputation of QKᵀ in a backward attention.
"""

from __future__ import annotations

import itertools
import json
from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_calls import bf16, cost, fp32, tensor
from support import each_case
from warplens.costs import Tensor
from warplens.costs.convolution import output_size, transposed_size
from warplens.costs.pointwise import broadcast, promoted
from warplens.costs.streams import pooled_size
from warplens.costs.tensors import DTYPES, ITEM_BYTES, SCALAR_TYPES

torch = pytest.importorskip("torch")
flop_counter = pytest.importorskip("torch.utils.flop_counter")

SIZES = st.integers(1, 300)
QUICK = settings(max_examples=60)


def torch_flop(op: str, *args: Any, out: Any = None) -> int:
    """PyTorch's own formula for an op, on tensors that have a shape but no storage."""
    on_meta = [torch.empty(arg.shape, device="meta") if isinstance(arg, Tensor) else arg for arg in args]
    return int(flop_counter.flop_registry[getattr(torch.ops.aten, op)](*on_meta, out_val=out))


@QUICK
@given(SIZES, SIZES, SIZES, SIZES)
def test_products_equal_the_flop_counter_and_a_bias_adds_one_per_element(b: int, m: int, n: int, k: int) -> None:
    a, c = bf16(m, k), bf16(k, n)
    assert cost("aten::mm", a, c).flop == torch_flop("mm", a, c)
    assert cost("aten::addmm", bf16(n), a, c).flop == torch_flop("addmm", bf16(n), a, c) + m * n
    assert cost("aten::_scaled_mm", a, c, fp32(), fp32()).flop == torch_flop("_scaled_mm", a, c, fp32(), fp32())
    a, c = bf16(b, m, k), bf16(b, k, n)
    assert cost("aten::bmm", a, c).flop == torch_flop("bmm", a, c)
    assert cost("aten::baddbmm", bf16(b, m, n), a, c).flop == torch_flop("baddbmm", bf16(b, m, n), a, c) + b * m * n


def counted(function: Any, *tensors: Any) -> int:
    with flop_counter.FlopCounterMode(display=False) as counter:
        function(*tensors)
    return int(counter.get_total_flops())


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((8, 4), (4, 2)),
        ((3, 8, 4), (4, 2)),
        ((8, 4), (3, 4, 2)),
        ((7, 1, 8, 4), (3, 4, 2)),
        ((5, 3, 8, 4), (5, 3, 4, 2)),
    ],
)
def test_a_matmul_with_broadcasting_equals_what_it_dispatches_to(
    first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    on_meta = [torch.empty(shape, device="meta") for shape in (first, second)]
    assert cost("aten::matmul", fp32(*first), fp32(*second)).flop == counted(torch.matmul, *on_meta)


GROUPED = [((96, 16), (3, 16, 8)), ((3, 8, 16), (16, 96)), ((8, 96), (96, 16)), ((3, 8, 16), (3, 16, 8))]


@pytest.mark.parametrize(("first", "second"), GROUPED)
def test_a_grouped_product_writes_what_pytorch_s_does(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    offsets = None if len(first) == len(second) == 3 else torch.empty(3, dtype=torch.int32, device="meta")
    a = torch.empty(first, dtype=torch.bfloat16, device="meta")
    b = torch.empty((*second[:-2], second[-1], second[-2]), dtype=torch.bfloat16, device="meta").transpose(-2, -1)
    out = torch.ops.aten._grouped_mm(a, b, offsets)
    found = cost("aten::_grouped_mm", bf16(*first), bf16(*second), None if offsets is None else tensor("int32", 3))
    assert found.bytes == 2 * (prod(first) + prod(second) + out.numel())
    shares = 3 if len(first) == len(second) == 3 else 1
    assert found.flop == shares * 2 * first[-2] * first[-1] * second[-1]


HEADS = st.sampled_from([(1, 1), (8, 8), (8, 2), (6, 1)])


@QUICK
@given(st.integers(1, 5), HEADS, SIZES, SIZES, st.sampled_from([16, 64, 128]), st.sampled_from([16, 64, 128]))
def test_attention_equals_the_flop_counter(
    b: int, heads: tuple[int, int], queries: int, keys: int, d: int, dv: int
) -> None:
    q, k, v = bf16(b, heads[0], queries, d), bf16(b, heads[1], keys, d), bf16(b, heads[1], keys, dv)
    forward = torch_flop("_scaled_dot_product_flash_attention", q, k, v)
    flash = cost("aten::_scaled_dot_product_flash_attention", q, k, v, "0.", "False")
    assert flash.flop == forward
    assert cost("aten::_scaled_dot_product_cudnn_attention", q, k, v, None, "False", "0.", "False").flop == forward
    assert cost("aten::_cudnn_attention_forward", q, k, v, *[None] * 5, "False", "0.", "False").flop == forward
    if queries == keys:
        assert cost("aten::_scaled_dot_product_flash_attention", q, k, v, "0.", "True").flop == forward / 2


@QUICK
@given(st.integers(1, 5), HEADS, SIZES, SIZES, st.sampled_from([16, 64]), st.sampled_from([16, 128]))
def test_backward_attention_is_the_flop_counter_s_without_the_recomputed_scores(
    b: int, heads: tuple[int, int], queries: int, keys: int, d: int, dv: int
) -> None:
    q, k, v = bf16(b, heads[0], queries, d), bf16(b, heads[1], keys, d), bf16(b, heads[1], keys, dv)
    gradient = bf16(b, heads[0], queries, dv)
    recomputed = 2 * b * heads[0] * queries * keys * d
    theirs = torch_flop("_scaled_dot_product_flash_attention_backward", gradient, q, k, v, gradient, fp32())
    for name, flag in (("flash", 11), ("efficient", 11), ("cudnn", 14)):
        args: list[Any] = [gradient, q, k, v, *[None] * 12]
        args[flag] = "False"
        assert cost(f"aten::_scaled_dot_product_{name}_attention_backward", *args).flop == theirs - recomputed


def test_packed_sequences_of_equal_length_equal_the_flop_counter() -> None:
    ends = torch.tensor([0, 100, 200, 300], dtype=torch.int32)
    packed = torch.empty(300, 8, 64, device="meta")
    formula = flop_counter.flop_registry[torch.ops.aten._flash_attention_forward]
    theirs = formula(packed, packed, packed, ends, ends, 100, 100, out_val=None)
    ours = [bf16(300, 8, 64)] * 3 + [tensor("int32", 4)] * 2
    assert cost("aten::_flash_attention_forward", *ours, "100", "100", "0.", "False").flop == theirs


def text(*numbers: int) -> str:
    return str(list(numbers))


CONVOLUTIONS = [
    # dimensions, kernel, stride, padding, dilation, groups, transposed, output padding
    *itertools.product((1, 2, 3), (1, 3), (1, 2), (0, 1), (1, 2), (1, 2), (False,), (0,)),
    *itertools.product((1, 2, 3), (1, 3), (2, 3), (0, 1), (1, 2), (1, 2), (True,), (0, 1)),
]


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_convolutions_equal_the_flop_counter_forward_and_backward(dims: int, transposed: bool) -> None:
    """The counter's backward formula knows no groups, so a grouped one is compared with its groups, one by one."""
    function = getattr(torch.nn.functional, f"conv_transpose{dims}d" if transposed else f"conv{dims}d")
    cases = [case for case in CONVOLUTIONS if case[0] == dims and case[6] == transposed]
    for _, kernel, stride, padding, dilation, groups, _, extra in cases:
        channels_in, channels_out = 4 * groups, 6 * groups
        shape = (2, channels_in, *range(9, 9 + dims))
        weight_shape = (channels_in, 6, *[kernel] * dims) if transposed else (channels_out, 4, *[kernel] * dims)
        x, weight = torch.empty(shape, device="meta"), torch.empty(weight_shape, device="meta")
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        options |= {"output_padding": extra} if transposed else {}
        out = function(x, weight, torch.empty(channels_out, device="meta"), **options)
        numbers = [text(*[each] * dims) for each in (stride, padding, dilation)]
        rest = (*numbers, str(transposed), text(*[extra] * dims), str(groups))
        ours = cost("aten::convolution", bf16(*shape), bf16(*weight_shape), bf16(channels_out), *rest)
        formula = flop_counter.flop_registry[torch.ops.aten.convolution]
        theirs = formula(x, weight, None, 0, 0, 0, transposed, out_val=out)
        assert ours.flop == theirs + out.numel()
        assert ours.bytes == 2 * (x.numel() + weight.numel() + channels_out + out.numel())

        one_x = torch.empty(2, channels_in // groups, *shape[2:], device="meta")
        one_weight = torch.empty(weight_shape[0] // groups, *weight_shape[1:], device="meta")
        one_out = torch.empty(2, channels_out // groups, *out.shape[2:], device="meta")
        formula = flop_counter.flop_registry[torch.ops.aten.convolution_backward]
        for mask in ([True, True, True], [True, False, False], [False, True, False]):
            one = formula(
                one_out, one_x, one_weight, None, 0, 0, 0, transposed, 0, 1, mask, out_val=(one_x, one_weight, None)
            )
            backward = cost(
                "aten::convolution_backward",
                bf16(*out.shape),
                bf16(*shape),
                bf16(*weight_shape),
                "[0]",
                *rest,
                text(*mask),
            )
            assert backward.flop == groups * one + out.numel() * mask[2], (
                kernel,
                stride,
                padding,
                dilation,
                groups,
                mask,
            )


@QUICK
@given(
    st.integers(1, 40), st.integers(1, 4), st.integers(1, 3), st.integers(0, 2), st.integers(1, 3), st.integers(0, 2)
)
def test_convolution_sizes_are_pytorch_s(
    size: int, kernel: int, stride: int, padding: int, dilation: int, extra: int
) -> None:
    x, weight = torch.empty(1, 1, size, device="meta"), torch.empty(1, 1, kernel, device="meta")
    if size + 2 * padding >= dilation * (kernel - 1) + 1:
        out = torch.conv1d(x, weight, stride=stride, padding=padding, dilation=dilation)
        assert out.shape[2] == output_size(size, kernel, stride, padding, dilation)
    ours = transposed_size(size, kernel, stride, padding, dilation, extra)
    if extra < max(stride, dilation) and ours > 0:
        out = torch.conv_transpose1d(x, weight, stride=stride, padding=padding, dilation=dilation, output_padding=extra)
        assert out.shape[2] == ours


@QUICK
@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 4), st.integers(0, 2), st.integers(1, 3), st.booleans())
def test_pooling_sizes_are_pytorch_s(
    size: int, kernel: int, stride: int, padding: int, dilation: int, ceil: bool
) -> None:
    if padding > kernel // 2 or size + 2 * padding < dilation * (kernel - 1) + 1:
        return
    x = torch.empty(1, 1, size, size)
    out = torch.nn.functional.max_pool2d(x, kernel, stride, padding, dilation, ceil_mode=ceil)
    assert out.shape[-1] == pooled_size(size, kernel, stride, padding, dilation, ceil=ceil)
    numbers = [text(each, each) for each in (kernel, stride, padding, dilation)]
    ours = cost("aten::max_pool2d_with_indices", bf16(1, 1, size, size), *numbers, str(ceil))
    assert dict(ours.params)["kept"] == out.numel()


@pytest.mark.parametrize(("sizes", "shape"), [((7, 7), (2, 3, 14, 14)), ((1, 1), (3, 9, 9)), ((5, 2), (2, 3, 6, 6))])
def test_adaptive_pooling_writes_what_it_is_asked_for(sizes: tuple[int, int], shape: tuple[int, ...]) -> None:
    out = torch.nn.functional.adaptive_avg_pool2d(torch.empty(shape), sizes)
    assert cost("aten::_adaptive_avg_pool2d", bf16(*shape), text(*sizes)).bytes == 2 * (prod(shape) + out.numel())


@pytest.mark.parametrize(
    ("start", "end", "step"), [(0, 10, 1), (0, 5, 2), (0, 6, 2), (5, 0, -2), (0.5, 3, 0.5), (0, 0, 1), (1, 10, 4)]
)
def test_an_arange_has_as_many_elements_as_pytorch_s(start: float, end: float, step: float) -> None:
    expected = torch.arange(start, end, step).numel()
    assert cost("aten::arange", str(start), str(end), str(step), fp32(0)).bytes == 4 * expected


OURS = {
    "bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp64": "float64", "int8": "int8", "int16": "int16",
    "int32": "int32", "int64": "int64", "uint8": "uint8", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64",
    "bool": "bool", "fp8": "float8_e4m3fn", "fp4": "float4_e2m1fn_x2", "complex32": "complex32",
    "complex64": "complex64", "complex128": "complex128",
}  # fmt: skip


def test_element_sizes_are_pytorch_s() -> None:
    known = {ours: getattr(torch, theirs).itemsize for ours, theirs in OURS.items() if hasattr(torch, theirs)}
    assert set(OURS) == set(ITEM_BYTES)
    assert {ours: ITEM_BYTES[ours] for ours in known} == known


FURTHER = ["float8_e5m2", "float8_e8m0fnu", "float8_e5m2fnuz", "float8_e4m3fnuz"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*OURS.values(), *FURTHER])
def test_a_profile_spells_and_numbers_element_types_as_the_tables_do(name: str, tmp_path: Path) -> None:
    if not hasattr(torch, name):
        pytest.skip(f"this PyTorch has no {name}")
    dtype, file = getattr(torch, name), tmp_path / "trace.json"
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
        torch.empty(4, dtype=dtype).view(2, 2)
    profile.export_chrome_trace(str(file))
    args = {event.get("name"): event.get("args") for event in json.loads(file.read_text())["traceEvents"]}
    spelled, number = args["aten::view"]["Input type"][0], args["aten::empty"]["Concrete Inputs"][1]
    assert DTYPES[spelled][1] == dtype.itemsize
    assert SCALAR_TYPES[number] == DTYPES[spelled][0]


PROMOTED = [name for name in OURS if name not in ("uint16", "uint32", "uint64", "fp8", "fp4")]


def made(dtype: str, shape: tuple[int, ...]) -> Any:
    return torch.empty(shape, dtype=getattr(torch, OURS[dtype]), device="meta")


@pytest.mark.filterwarnings("ignore")
@each_case(itertools.combinations_with_replacement(PROMOTED, 2))
def test_two_operands_promote_as_pytorch_s_do(first: str, second: str) -> None:
    expected = torch.result_type(made(first, (4,)), made(second, (4,)))
    for pair in ((first, second), (second, first)):
        assert getattr(torch, OURS[promoted([tensor(each, 4) for each in pair])]) == expected


@pytest.mark.filterwarnings("ignore")
@each_case(itertools.product(PROMOTED, [(2, "int64"), (0.5, "fp64"), (1j, "complex128"), (True, "bool")]))
def test_a_number_promotes_as_a_python_number_does(dtype: str, kind: tuple[complex, str]) -> None:
    number, recorded = kind
    expected = torch.result_type(made(dtype, (4,)), number)
    assert getattr(torch, OURS[promoted([tensor(dtype, 4), tensor(recorded)])]) == expected


SHAPES = st.lists(
    st.sampled_from([(), (1,), (5,), (4, 1), (4, 5), (3, 1, 5), (1, 4, 1), (3, 4, 5), (0, 1), (0, 5)]),
    min_size=1,
    max_size=4,
)


@QUICK
@given(SHAPES)
def test_shapes_stretch_as_pytorch_s_do(shapes: list[tuple[int, ...]]) -> None:
    try:
        expected = torch.broadcast_shapes(*shapes)
    except RuntimeError:
        return
    assert broadcast(shapes) == tuple(expected)

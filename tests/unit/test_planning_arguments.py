"""From what a profiler recorded of a call to the arguments of a plan."""

from __future__ import annotations

import json
import math
from itertools import product
from typing import Any

import pytest

from warplens.planning.arguments import CallBuilder, NotReplayable, build, choose
from warplens.planning.fills import fill_of
from warplens.planning.recorded import Recorded, RecordedTensor, TracedCall, contiguous, from_arguments, from_spec
from warplens.planning.schemas import overloads, parse_schema
from warplens_run.formats.replay_plan import Argument, Fill


def recorded(*values: tuple[Any, str, str]) -> tuple[Recorded, ...]:
    """Of (shape, type, concrete) triples, as Kineto writes them."""
    shapes, types, concrete = (list(part) for part in zip(*values, strict=True))
    return from_spec(json.dumps(shapes), json.dumps(types), "", json.dumps(concrete))


def tensor(*shape: int, dtype: str = "float") -> tuple[Any, str, str]:
    return list(shape), dtype, ""


def number(text: str) -> tuple[Any, str, str]:
    return [], "Scalar", text


NOTHING: tuple[Any, str, str] = ([], "", "")


def built(
    op: str, *values: tuple[Any, str, str], kernels: tuple[str, ...] = ()
) -> tuple[str, list[Argument], CallBuilder]:
    found = recorded(*values)
    schema = choose(op, "", found)
    given = {parameter.name: value for parameter, value in zip(schema.parameters, found, strict=False)}
    call = CallBuilder(op.partition("::")[2], given, kernels)
    return schema.overload, list(build(schema, found, call)), call


@pytest.mark.parametrize(
    ("op", "values", "overload"),
    [
        ("aten::add", (tensor(2, 3), tensor(2, 3), number("1")), "Tensor"),
        ("aten::add", (tensor(2, 3), number("2.5"), number("1")), "Scalar"),
        ("aten::mm", (tensor(2, 3), tensor(3, 4)), ""),
        ("aten::mm", (tensor(2, 3), tensor(3, 4), tensor(2, 4)), "out"),
        ("aten::sum", (tensor(2, 3), ([], "ScalarList", "[0]"), number("False"), NOTHING), "dim_IntList"),
        ("aten::sum", (tensor(2, 3), NOTHING), ""),
        ("aten::_foreach_add_", (([[2], [3]], "TensorList", ""), ([[2], [3]], "TensorList", ""), number("1")), "List"),
        ("aten::_foreach_add_", (([[2], [3]], "TensorList", ""), number("1")), "Scalar"),
        ("aten::copy_", (tensor(4), tensor(4), number("False")), ""),
        ("aten::pow", (tensor(4), number("2")), "Tensor_Scalar"),
        ("aten::where", (tensor(4, dtype="bool"), tensor(4), tensor(4)), "self"),
    ],
)
def test_the_overload_is_the_one_that_fits(op: str, values: tuple[Any, ...], overload: str) -> None:
    assert built(op, *values, kernels=("some_kernel<float>",))[0] == overload


def test_arguments_stand_in_the_order_of_the_schema_with_defaults_where_nothing_is_recorded() -> None:
    _, found, call = built("aten::addmm", tensor(4), tensor(2, 3), tensor(3, 4), number("1"), number("1"))
    assert [argument.kind for argument in found] == ["tensor", "tensor", "tensor", "int", "int"]
    assert [storage.bytes for storage in call.storages] == [16, 24, 48]
    _, found, _ = built("aten::softmax", tensor(2, 3), number("1"), NOTHING)
    assert [argument.kind for argument in found] == ["tensor", "int", "none"]


def test_a_text_that_is_not_recorded_becomes_a_choice() -> None:
    _, found, _ = built("aten::gelu", tensor(4), NOTHING)
    assert [item.value for item in found[1].items] == ["none", "tanh"]
    assert found[1].kind == "choice"


def test_a_number_in_a_tensor_is_tried_on_both_sides() -> None:
    """A 0-dim tensor may be on the host: then PyTorch passes it to the kernel as a number."""
    add = (tensor(2, 3), tensor(dtype="double"), number("1"))
    host_first = built("aten::add", *add, kernels=("vectorized_elementwise_kernel<CUDAFunctorOnSelf_add<float>>",))
    places = [item.tensor.storage for item in host_first[1][1].items if item.tensor]
    assert [host_first[2].storages[place].device for place in places] == ["cpu", "cuda"]
    gpu_first = built("aten::add", *add, kernels=("vectorized_elementwise_kernel<CUDAFunctor_add<float>>",))
    places = [item.tensor.storage for item in gpu_first[1][1].items if item.tensor]
    assert [gpu_first[2].storages[place].device for place in places] == ["cuda", "cpu"]


@pytest.mark.parametrize(
    ("kernel", "devices", "pinned"),
    [
        ("Memcpy HtoD (Pageable -> Device)", ["cuda", "cpu"], [False, False]),
        ("Memcpy HtoD (Pinned -> Device)", ["cuda", "cpu"], [False, True]),
        ("Memcpy DtoH (Device -> Pageable)", ["cpu", "cuda"], [False, False]),
        ("CopyHostToDevice", ["cuda", "cpu"], [False, False]),
        ("Memcpy DtoD (Device -> Device)", ["cuda", "cuda"], [False, False]),
    ],
)
def test_a_copy_goes_where_its_memcpy_says(kernel: str, devices: list[str], pinned: list[bool]) -> None:
    _, _, call = built("aten::copy_", tensor(4), tensor(4), number("False"), kernels=(kernel,))
    assert [storage.device for storage in call.storages] == devices
    assert [storage.pinned for storage in call.storages] == pinned
    assert [storage.written for storage in call.storages] == [True, False]


def test_lists_take_their_dtype_from_the_kernel() -> None:
    lists = ([[2], [3]], "TensorList", "")
    kernel = "void multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpListAlphaFunctor<c10::BFloat16, 2>>"
    _, found, call = built("aten::_foreach_add_", lists, lists, number("1"), kernels=(kernel,))
    assert {storage.dtype for storage in call.storages} == {"bfloat16"}
    assert call.notes == ["the dtype of a list is derived from the kernel's name"]
    assert [len(argument.items) for argument in found] == [2, 2, 0]


@pytest.mark.parametrize(
    ("op", "values", "reason"),
    [
        ("aten::_foreach_mul_", (([], "TensorList", ""), number("0.9")), "more than 30 tensors"),
        ("aten::index", (tensor(4, 4), NOTHING), "'indices' are not recorded"),
        ("mine::secret", (tensor(4),), "the schema of mine::secret is not known"),
        ("aten::mm", (tensor(4), number("1")), "match no overload of aten::mm"),
    ],
)
def test_what_cannot_be_rebuilt_says_why(op: str, values: tuple[Any, ...], reason: str) -> None:
    with pytest.raises(NotReplayable, match=reason):
        built(op, *values)


def node(schema: str, inputs: list[Any], shapes: list[Any], types: list[str], strides: list[Any]) -> TracedCall:
    return TracedCall(schema, *map(json.dumps, (inputs, shapes, types, strides)), kernel_file="", tensor_range="")


def test_an_execution_trace_gives_storages_offsets_devices_and_texts() -> None:
    row = node(
        "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
        [[5, 9, 4, 6, 4, "cuda:0"], [6, 9, 0, 6, 4, "cuda:0"], 1],
        [[2, 3], [2, 3], []],
        ["Tensor(float)", "Tensor(float)", "Int"],
        [[3, 1], [3, 1], []],
    )
    found = from_arguments(row, ())
    schema = parse_schema(row.schema)
    assert schema is not None
    call = CallBuilder("add_", {}, ())
    arguments = build(schema, found, call)
    assert len(call.storages) == 1
    assert call.storages[0].bytes == (4 + 6) * 4
    assert call.storages[0].written
    assert [argument.tensor.offset for argument in arguments if argument.tensor] == [4, 0]


def test_numbers_keep_the_digits_that_only_kineto_has() -> None:
    row = node("", [0.707107, [0.063198]], [[], []], ["Double", "GenericList[Double]"], [[], []])
    spec = (Recorded("scalar", "0.70710678118654757"), Recorded("scalars", "[0.0631976]"))
    assert [value.text for value in from_arguments(row, spec)] == ["0.70710678118654757", "[0.0631976]"]


def test_undefined_tensors_and_missing_ones_are_told_apart() -> None:
    types = ["Tensor(nullptr (uninitialized))", "None", "Device", "String", "GenericList[None,Tensor(long int)]"]
    row = node("", [[1, 0, 0, 0, 0, ""], "<None>", "cuda:0", "tanh", ["<None>", [1, 2, 0, 3, 8, "cuda:0"]]],
               [[], [], [], [], [[], [3]]], types, [[], [], [], [], [[], [1]]])  # fmt: skip
    found = from_arguments(row, ())
    assert [value.kind for value in found] == ["undefined", "unknown", "device", "text", "tensors"]
    assert [item is None for item in found[4].tensors] == [True, False]


SPARSE = ([[7, 0, 0, 0, 0, ""]], [[6, 6]], ["Tensor(float)"], [[0, 0]])
QUANTISED = ([[7, 8, 0, 36, 1, "cuda:0"]], [[6, 6]], ["Tensor(c10::quint8)"], [[6, 1]])


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (from_arguments(node("", *SPARSE), ()), "'self' cannot be rebuilt: a tensor that is sparse, or"),
        (from_spec("[[6,6]]", '["float"]', "[[]]", '[""]'), "'self' cannot be rebuilt: a tensor that is sparse, or"),
        (from_arguments(node("", *QUANTISED), ()), "'self' cannot be rebuilt: a tensor of type quint8"),
        (
            from_spec("[[6,6]]", '["c10::quint8"]', "[[6,1]]", '[""]'),
            "'self' cannot be rebuilt: a tensor of type quint8",
        ),
    ],
)
def test_tensors_that_cannot_be_rebuilt_are_refused_and_not_left_out(found: Any, reason: str) -> None:
    schema = parse_schema("aten::dequantize.self(Tensor? self) -> Tensor")
    assert schema is not None
    with pytest.raises(NotReplayable, match=reason):
        build(schema, found, CallBuilder("dequantize", {}, ()))


@pytest.mark.parametrize(
    ("op", "argument", "given", "fill"),
    [
        ("embedding", "indices", {"weight": (50257, 768)}, Fill("integers", 0, 50257)),
        ("nll_loss_forward", "target", {"self": (64, 1000)}, Fill("integers", 0, 1000)),
        ("mm", "self", {}, Fill("integers", 0, 2)),
    ],
)
def test_indices_stay_in_bounds(op: str, argument: str, given: dict[str, tuple[int, ...]], fill: Fill) -> None:
    known = {
        name: Recorded("tensor", tensors=(RecordedTensor(shape, "float32", tuple(1 for _ in shape)),))
        for name, shape in given.items()
    }
    assert fill_of(op, argument, RecordedTensor((8,), "int64", (1,)), known) == fill


def test_an_index_takes_the_side_its_dim_names() -> None:
    known = {
        "self": Recorded("tensor", tensors=(RecordedTensor((7, 9), "float32", (9, 1)),)),
        "dim": Recorded("scalar", "1"),
    }
    index = RecordedTensor((3,), "int64", (1,))
    assert fill_of("index_select", "index", index, known).high == 9
    assert fill_of("index", "indices", index, known, position=0).high == 7


def held(*shape: int, dtype: str = "float32") -> RecordedTensor:
    return RecordedTensor(shape, dtype, contiguous(shape))


def one(*shape: int, dtype: str = "float32") -> Recorded:
    return Recorded("tensor", tensors=(held(*shape, dtype=dtype),))


def true_values(op: str, given: dict[str, Recorded], mask: RecordedTensor, argument: str = "indices") -> int:
    """How many values of the mask the fill makes true, as the runner does: below zero is true, zero is not."""
    fill = fill_of(op, argument, mask, given)
    assert (fill.kind, fill.high, fill.step) == ("ramp", 0, 1)
    return sum(min(fill.low + place, 0) != 0 for place in range(math.prod(mask.shape)))


def test_a_mask_is_true_as_often_as_there_are_values_for_it() -> None:
    mask = held(6, 5, dtype="bool")
    listed = Recorded("tensors", tensors=(mask,))
    assert true_values("index_put_", {"self": one(6, 5), "indices": listed, "values": one(11)}, mask) == 11
    assert true_values("masked_scatter_", {"source": one(9)}, mask, "mask") == 9
    beside = Recorded("tensors", tensors=(mask, held(4, dtype="int64")))
    assert true_values("index", {"self": one(6, 5, 7), "indices": beside}, mask) == 4
    for values in (one(), one(1), one(1, 1)):  # one value for all: any number of them will do
        given = {"self": one(6, 5), "indices": listed, "values": values}
        assert fill_of("index_put_", "indices", mask, given) == Fill("integers", 0, 2)


def test_a_mask_takes_as_many_sides_as_it_has() -> None:
    index = held(4, dtype="int64")
    listed = Recorded("tensors", tensors=(held(6, 5, dtype="bool"), index))
    assert fill_of("index", "indices", index, {"self": one(6, 5, 7), "indices": listed}, position=1).high == 7


def test_sequence_lengths_add_up_to_the_rows_there_are() -> None:
    totals = held(4, dtype="int32")
    for query in (one(100, 8, 64), one(1, 100, 8, 64)):
        fill = fill_of(
            "_flash_attention_forward", "cum_seq_q", totals, {"query": query, "max_q": Recorded("scalar", "60")}
        )
        assert [min(place * fill.step, fill.high) for place in range(4)] == [0, 34, 68, 100]


@pytest.mark.parametrize(("first", "second", "ends"), [
    ((100, 64), (4, 64, 32), [32, 64, 96, 100]),  # rows of the first: each group has its own second operand
    ((64, 40), (40, 32), [10, 20, 30, 40]),  # the inner side, too short for groups of 16
    ((4, 8, 64), (64, 128), [32, 64, 96, 128]),  # columns of the second
])  # fmt: skip
def test_groups_of_a_product_follow_each_other_up_to_its_end(
    first: tuple[int, ...], second: tuple[int, ...], ends: list[int]
) -> None:
    given = {"self": one(*first), "mat2": one(*second)}
    fill = fill_of("_grouped_mm", "offs", held(4, dtype="int32"), given)
    assert [min(fill.low + place * fill.step, fill.high) for place in range(4)] == ends


@pytest.mark.parametrize(
    ("op", "argument", "dtype", "low", "high"),
    [
        ("binary_cross_entropy", "target", "float32", 0, 1),
        ("binary_cross_entropy_backward", "self", "float32", 0, 1),
        ("poisson", "self", "float32", 0, 2),
        ("remainder", "other", "int64", 1, 10),
        ("floor_divide", "other", "int32", 1, 10),
    ],
)
def test_values_that_an_op_would_refuse_are_not_given(
    op: str, argument: str, dtype: str, low: float, high: float
) -> None:
    fill = fill_of(op, argument, held(8, dtype=dtype), {})
    assert low <= fill.low < fill.high <= high


def test_values_that_must_be_positive_are() -> None:
    variance = fill_of("cudnn_batch_norm", "running_var", RecordedTensor((8,), "float32", (1,)), {})
    assert variance.kind == "uniform"
    assert variance.low > 0


def test_every_listed_schema_is_understood() -> None:
    """Each line of the table parses, and none of PyTorch's common ops is missing."""
    for name in ("aten::mm", "aten::addmm", "aten::_cudnn_attention_forward", "aten::_fused_adamw_", "aten::cat"):
        assert overloads(name)
    from importlib.resources import files

    lines = files("warplens.planning").joinpath("op_schemas.txt").read_text().splitlines()
    unread = [line for line in lines if not line.startswith("#") and parse_schema(line) is None]
    assert unread == []
    assert len(lines) > 3000


@pytest.mark.parametrize("stride", [(8 * 16, 16, 4, 1), (8 * 16, 1, 8 * 4, 8)], ids=["contiguous", "channels last"])
def test_pooled_indices_lie_in_their_own_windows(stride: tuple[int, ...]) -> None:
    """Of a plane of 9 × 8, pooled to 4 × 4, eight channels: window (row, column) begins at (2 row, 2 column)."""
    pooled = RecordedTensor((2, 8, 9, 8), "float32", (576, 72, 8, 1))
    indices = RecordedTensor((2, 8, 4, 4), "int64", stride)
    fill = fill_of(
        "max_pool2d_with_indices_backward", "indices", indices, {"self": Recorded("tensor", tensors=(pooled,))}
    )
    triples = list(zip(fill.digits[::3], fill.digits[1::3], fill.digits[2::3], strict=True))
    for sample, channel, row, column in product(range(2), range(8), range(4), range(4)):
        place = sum(at * step for at, step in zip((sample, channel, row, column), stride, strict=True))
        assert sum(place // step % size * by for step, size, by in triples) == 2 * row * 8 + 2 * column

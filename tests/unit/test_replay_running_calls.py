"""Arguments of every kind reach the op they were recorded for; what does not fit is told in one line."""

from __future__ import annotations

from typing import Any

import pytest

from replay_plans import choice, listed, storage, tensor, unit, value
from warplens_run.formats.replay_plan import Argument, Fill, Unit

torch = pytest.importorskip("torch")

from warplens_run.replay.calls import OpCall, bind, combinations, resolve  # noqa: E402 - they load PyTorch
from warplens_run.replay.faults import BadUnit, UnitRefused  # noqa: E402
from warplens_run.replay.inputs import Inputs  # noqa: E402
from warplens_run.replay.values import value_of  # noqa: E402

CPU = torch.device("cpu")
RAMP = Fill("ramp", 0, 1000, 1)


def bound(made: Unit) -> OpCall:
    inputs = Inputs.build(made, CPU, 0)
    return bind(resolve(made.op, made.overload), combinations(made)[0], inputs, CPU)


def called(op: str, *arguments: Argument, storages: tuple[Any, ...] = ()) -> Any:
    call = bound(unit(op, arguments, storages))
    return call.function(*call.args, **call.named)


def test_positional_arguments_and_named_ones_reach_the_op() -> None:
    ramp = storage(4, fill=RAMP)
    found = called("aten::add.Tensor", tensor(0, 4), tensor(1, 4), value("int", 3), storages=(ramp, ramp))
    assert found.tolist() == [0.0, 4.0, 8.0, 12.0]


def test_what_a_plan_leaves_out_keeps_its_default() -> None:
    ramp = storage(3, fill=RAMP)
    assert called("aten::add.Tensor", tensor(0, 3), tensor(0, 3), storages=(ramp,)).tolist() == [0.0, 2.0, 4.0]


def test_lists_of_tensors_and_of_numbers() -> None:
    ramp = storage(2, fill=RAMP)
    joined = called("aten::cat", listed(tensor(0, 2), tensor(1, 2)), value("int", 0), storages=(ramp, ramp))
    assert joined.tolist() == [0.0, 1.0, 0.0, 1.0]
    turned = called("aten::permute", tensor(0, 1, 2), listed(value("int", 1), value("int", 0)), storages=(ramp,))
    assert turned.shape == (2, 1)


def test_lists_of_tensors_that_may_be_missing() -> None:
    arguments = (tensor(0, 2, 3), listed(value("none"), tensor(1, 2, dtype="int64")))
    storages = (storage(6, fill=RAMP), storage(2, "int64", Fill("ramp", 1, 2, 1)))
    assert called("aten::index.Tensor", *arguments, storages=storages).tolist() == [[1.0, 2.0], [4.0, 5.0]]


def test_an_undefined_tensor_is_none_to_the_op() -> None:
    out, *_ = called(
        "aten::native_layer_norm",
        tensor(0, 2, 4),
        listed(value("int", 4)),
        value("undefined"),
        value("none"),
        value("float", 1e-5),
        storages=(storage(8, fill=RAMP),),
    )
    assert abs(float(out.mean())) < 1e-6


def test_an_undefined_tensor_in_a_list_of_masks() -> None:
    arguments = (
        tensor(0, 1, 1, 2, 2), tensor(0, 1, 1, 2, 2), tensor(1, 1, 1, 1, 1), value("none"),
        listed(value("int", 1), value("int", 1)), listed(value("int", 0), value("int", 0)),
        listed(value("int", 1), value("int", 1)), value("bool", False), listed(value("int", 0), value("int", 0)),
        value("int", 1), listed(value("bool", True), value("bool", True), value("bool", False)),
    )  # fmt: skip
    grads = called("aten::convolution_backward", *arguments, storages=(storage(4, fill=RAMP), storage(1, fill=RAMP)))
    assert grads[1].shape == (1, 1, 1, 1)


def test_dtype_layout_device_and_memory_format() -> None:
    made = called(
        "aten::empty.memory_format",
        listed(*(value("int", side) for side in (1, 2, 3, 4))),
        value("dtype", "bfloat16"),
        value("layout", "strided"),
        value("device", "cuda:3"),
        value("bool", False),
        value("memory_format", "channels_last"),
    )
    assert made.dtype == torch.bfloat16
    assert made.device.type == "cpu", "which device is the runner's choice"
    assert made.stride() == (24, 1, 8, 2)


def test_texts_reach_the_op() -> None:
    one = (storage(1, fill=Fill("constant", 1)),)
    exact, rough = (
        float(called("aten::gelu", tensor(0, 1), value("str", how), storages=one)) for how in ("none", "tanh")
    )
    assert exact == pytest.approx(0.84134, abs=1e-5)
    assert rough == pytest.approx(0.84119, abs=1e-5)


def test_numbers_of_every_kind() -> None:
    inputs = Inputs.build(unit("aten::neg"), CPU, 0)

    def read(kind: str, given: Any) -> Any:
        return value_of(value(kind, given), inputs, CPU)

    assert read("float", "inf") == float("inf")
    assert read("float", 2) == 2.0
    assert isinstance(read("float", 2), float)
    assert read("complex", [1, "-inf"]) == complex(1, float("-inf"))
    assert read("bool", True) is True
    assert read("memory_format", "torch.preserve_format") is torch.preserve_format
    assert read("device", "cpu") == CPU


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        ("int", 1.5, "not a whole number: 1.5"),
        ("int", True, "not a whole number: True"),
        ("float", "two", "not a number: 'two'"),
        ("bool", 1, "not true or false: 1"),
        ("str", 3, "not a text: 3"),
        ("complex", [1], r"not a complex number: \[1\]"),
        ("layout", "__dict__", "no layout: '__dict__'"),
        ("memory_format", None, "no memory format: None"),
        ("device", "xpu:0", "no device: 'xpu:0'"),
    ],
)
def test_a_value_that_is_not_of_its_kind_is_one_line_with_its_place(kind: str, given: Any, words: str) -> None:
    with pytest.raises(BadUnit, match=rf"argument 0 \(self\): {words}"):
        bound(unit("aten::neg", (value(kind, given),)))


@pytest.mark.parametrize(
    ("op", "words"),
    [
        ("aten::foo.bar", "this PyTorch has no aten::foo.bar"),
        ("aten::add.nosuch", "this PyTorch has no aten::add.nosuch"),
        ("aten::name", "this PyTorch has no aten::name"),
    ],
)
def test_an_unknown_op_is_one_line(op: str, words: str) -> None:
    name, _, overload = op.partition(".")
    with pytest.raises(BadUnit, match=words):
        resolve(name, overload)


@pytest.mark.parametrize("op", ["aten::from_file", "aten::save", "prim::Print", "c10d::allreduce_", "debugprims::x"])
def test_no_plan_reaches_files_or_other_processes(op: str) -> None:
    with pytest.raises((UnitRefused, BadUnit)) as caught:
        resolve(op, "")
    if op != "aten::save":  # which the dispatcher does not have
        assert isinstance(caught.value, UnitRefused)


def test_too_many_arguments_are_one_line() -> None:
    with pytest.raises(BadUnit, match="aten::neg takes 1 arguments, the plan has 2"):
        bound(unit("aten::neg", (value("none"), value("none"))))


def test_choices_are_combined_in_order() -> None:
    made = unit("aten::x", (choice(value("int", 1), value("int", 2)), listed(choice(value("str", "a"), value("none")))))
    found = [(first.value, second.items[0].value) for first, second in combinations(made)]
    assert found == [(1, "a"), (1, None), (2, "a"), (2, None)]


def test_no_more_than_32_combinations_are_tried_however_many_there_are() -> None:
    many = listed(*(choice(value("int", 0), value("int", 1)) for _ in range(60)))
    assert len(combinations(unit("aten::x", (many, many)))) == 32


def test_an_op_without_arguments_has_one_combination() -> None:
    assert combinations(unit("aten::x")) == [()]

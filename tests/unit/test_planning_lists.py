"""Lists of more than 30 tensors in plain traces: rebuilt from the gradients where their launches agree, else refused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import warplens
from support import ROOT, SHARED, Opened, ends, kernel, launch, op
from warplens.planning import make_plan
from warplens.planning.multi_tensor import ListLaunches
from warplens.planning.recorded import RecordedTensor
from warplens.planning.shards import Sharding
from warplens_run.formats.replay_plan import READY, Argument, ReplayPlan, Unit

SCALE = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
    "TensorListMetadata<{lists}>, at::native::(anonymous namespace)::BinaryOpScalarFunctor<{dtype}, 1, 1, 0>, "
    "std::multiplies<float>, float>(…)"
)
MATRIX, BIAS = (512, 256), (512,)
LAYERS = [shape for _ in range(20) for shape in (BIAS, MATRIX)]
"""Gradients of twenty layers in the order of a backward pass."""


def plan_of(profile: Any, path: Path | None = None) -> ReplayPlan:
    return make_plan(profile.workspace, path or Path(profile.meta.source))


def accumulated(shapes: Sequence[tuple[int, ...]], start: float = 0, dtype: str = "float") -> list[dict[str, Any]]:
    return [
        op("torch::autograd::AccumulateGrad", start + place, 0.5, **{
            "Input Dims": [list(shape)], "Input type": [dtype], "Input Strides": [[1] * len(shape)],
            "Concrete Inputs": [""],
        })
        for place, shape in enumerate(shapes)
    ]  # fmt: skip


def scaling(
    grids: Sequence[int], start: float = 1000, dtype: str = "float", name: str = "aten::_foreach_mul_"
) -> list[dict[str, Any]]:
    events = [op(name, start, 100, **{
        "Input Dims": [[], []], "Input type": ["TensorList", "Scalar"], "Input Strides": [[], []],
        "Concrete Inputs": ["", "0.5"],
    })]  # fmt: skip
    for number, blocks in enumerate(grids):
        correlation = int(start) + number
        events += [
            launch(start + 1 + number, 0.5, correlation),
            kernel(SCALE.format(lists=1, dtype=dtype), start + 200 + 20 * number, 10, correlation,
                   grid=[blocks, 1, 1], block=[512, 1, 1]),
        ]  # fmt: skip
    return events


def first_list(unit: Unit) -> list[tuple[int, ...]]:
    return [item.tensor.shape for item in unit.arguments[0].items if item.tensor is not None]


def elements(argument: Argument) -> int:
    return sum(math.prod(item.tensor.shape) for item in argument.items if item.tensor is not None)


@pytest.mark.parametrize("trace", [
    ROOT / "samples" / "replay" / "gpt2_compiled",
    SHARED / "traces" / "replay" / "gpt2_train",
    SHARED / "traces" / "replay" / "resnet50_train",
], ids=lambda path: path.name)  # fmt: skip
def test_a_plain_trace_gives_the_lists_that_its_execution_trace_has(trace: Path) -> None:
    path = trace.with_name(f"{trace.name}.json.gz")
    if not path.exists():
        pytest.skip("the shared traces are not beside the checkout")
    exact_profile = warplens.open(path, execution_trace=trace.with_name(f"{trace.name}.et.json.gz"))
    plain, exact = plan_of(warplens.open(path), path), plan_of(exact_profile, path)
    rebuilt = {unit.id: unit for unit in plain.units if any(note.startswith("approximate") for note in unit.notes)}
    recorded = {unit.id: unit for unit in exact.units if "_foreach_" in unit.op or "::_fused_" in unit.op}
    assert len(recorded) == len(rebuilt) >= 2
    for mine, truth in zip(rebuilt.values(), recorded.values(), strict=True):
        assert (mine.op, mine.overload, mine.status) == (truth.op, truth.overload, READY)
        assert [(len(one.items), elements(one)) for one in mine.arguments] == [
            (len(one.items), elements(one)) for one in truth.arguments
        ]
        assert sum(storage.bytes for storage in mine.storages) == sum(storage.bytes for storage in truth.storages)
        assert {storage.dtype for storage in mine.storages} == {storage.dtype for storage in truth.storages}


def test_lists_are_rebuilt_where_the_grids_agree_and_marked(opened: Opened) -> None:
    [unit] = plan_of(opened([*accumulated(LAYERS), *scaling([60])])).units
    assert (unit.status, len(first_list(unit))) == (READY, 40)
    assert first_list(unit)[:2] == [MATRIX, BIAS]
    assert unit.notes == (
        "approximate: its lists of 40 tensors are rebuilt from the gradients in the trace, with which its grids agree",
    )


@pytest.mark.parametrize(("events", "reason"), [
    (scaling([60]), "no backward pass in the trace accumulates gradients"),
    ([*accumulated(LAYERS), *scaling([61])], "the gradients in the trace would have other grids"),
    ([*accumulated([(1 << 14, 1 << 10)] * 31), *scaling([320] * 24 + [256])],
     "more bytes than the GPU reads in that time"),
])  # fmt: skip
def test_lists_that_nothing_agrees_with_are_refused_with_the_reason(
    opened: Opened, events: list[dict[str, Any]], reason: str
) -> None:
    header = {"deviceProperties": [{"id": 0, "name": "NVIDIA H200"}]}
    [unit] = plan_of(opened(events, header)).units
    assert unit.status == "refused"
    assert "a list of more than 30 tensors" in unit.reason
    assert reason in unit.reason


def scattered(group_size: int) -> dict[str, Any]:
    """The reduce-scatter of a backward pass."""
    return op("record_param_comms", 900, 5, **{
        "Collective name": "_reduce_scatter_base", "Group size": group_size, "Process Group Name": "0",
        "In msg nelems": 8, "Out msg nelems": 8 // group_size, "dtype": "Float",
    })  # fmt: skip


def test_shards_are_rebuilt_where_gradients_are_scattered(opened: Opened) -> None:
    """FSDP divides each parameter along its first side: its matrices have two blocks each instead of eight."""
    events = [*accumulated([(512,), (512, 1024)] * 20), scattered(4), *scaling([60])]
    [unit] = plan_of(opened(events)).units
    assert unit.status == READY, unit.reason
    assert first_list(unit) == [(128, 1024), (128,)] * 20
    assert "from the gradients in the trace, divided over 4 ranks, with which its grids agree" in unit.notes[0]
    [alone] = plan_of(opened([*accumulated([(512,), (512, 1024)] * 20), *scaling([60])])).units
    assert "would have other grids" in alone.reason, "nothing in the trace divides them"


def test_shards_of_other_grids_are_refused_with_both_reasons(opened: Opened) -> None:
    [unit] = plan_of(opened([*accumulated(LAYERS), scattered(4), *scaling([61])])).units
    assert "the gradients in the trace, whole or divided over 4 ranks, would have other grids" in unit.reason


def test_a_rank_of_uneven_shards_has_what_is_left() -> None:
    tensors = [RecordedTensor(shape, "float32", ()) for shape in ((10, 3), (4,), ())]
    shapes = [[tensor.shape for tensor in Sharding(4, rank).shards(tensors)] for rank in range(4)]
    assert shapes == [[(3, 3), (1,)], [(3, 3), (1,)], [(3, 3), (1,)], [(1, 3), (1,)]]


def test_passes_that_accumulate_before_one_step_count_once(opened: Opened) -> None:
    events = [*accumulated(LAYERS), *accumulated(LAYERS, 100), *accumulated(LAYERS, 200), *scaling([60])]
    assert len(first_list(plan_of(opened(events)).units[0])) == 40


def test_a_step_before_any_backward_pass_takes_the_gradients_after_it(opened: Opened) -> None:
    events = [*scaling([60], 500), *accumulated(LAYERS, 2000), *scaling([60], 3000)]
    [unit] = plan_of(opened(events)).units
    assert (unit.count, unit.status) == (2, READY)


@pytest.mark.parametrize(("grid", "shape"), [(80, MATRIX), (40, BIAS)])
def test_a_group_of_the_parameters_is_found_by_its_grid(opened: Opened, grid: int, shape: tuple[int, ...]) -> None:
    [unit] = plan_of(opened([*accumulated(LAYERS * 2), *scaling([grid])])).units
    assert first_list(unit) == [shape] * 40


def test_parameters_of_another_dtype_are_lists_of_their_own(opened: Opened) -> None:
    events = [
        *accumulated([MATRIX] * 40, dtype="c10::BFloat16"),
        *accumulated([BIAS] * 35, 100),
        *scaling([80], dtype="c10::BFloat16"),
        *scaling([35], 5000),
    ]
    units = {unit.storages[0].dtype: unit for unit in plan_of(opened(events)).units}
    assert first_list(units["bfloat16"]) == [MATRIX] * 40
    assert first_list(units["float32"]) == [BIAS] * 35


def test_one_number_for_each_parameter_is_a_list_too(opened: Opened) -> None:
    [unit] = plan_of(opened([*accumulated([MATRIX] * 130), *scaling([110, 20])])).units
    assert first_list(unit) == [()] * 130


def test_weights_come_before_biases_where_the_launches_show_it(opened: Opened) -> None:
    """A launch holds 110 tensors: whether its last is a weight or a bias shows in its blocks."""
    backward = [shape for _ in range(100) for shape in (MATRIX, BIAS)] + [(7,)]
    launches = ListLaunches(1, 110, ())
    registered = [(7,), *(shape for _ in range(100) for shape in (MATRIX, BIAS))]
    grids = launches.grids_of([math.prod(shape) for shape in registered])
    assert grids != launches.grids_of([math.prod(shape) for shape in reversed(backward)])
    [unit] = plan_of(opened([*accumulated(backward), *scaling(grids)])).units
    assert first_list(unit) == registered
    assert "order" not in unit.notes[0]


def test_another_order_is_noted_where_only_the_blocks_add_up(opened: Opened) -> None:
    backward = [shape for _ in range(75) for shape in (BIAS, MATRIX)]
    [unit] = plan_of(opened([*accumulated(backward), *scaling([180, 45])])).units
    assert unit.status == READY
    assert unit.notes[0].endswith("; their order is not that of the trace")


def test_a_list_of_scalars_is_as_long_as_its_tensors(opened: Opened) -> None:
    name = SCALE.replace("TensorListMetadata<{lists}>", "TensorListScalarListMetadata<float, 1>").format(dtype="float")
    events = [
        *accumulated(LAYERS),
        op("aten::_foreach_div_", 1000, 100, **{
            "Input Dims": [[], []], "Input type": ["TensorList", ""], "Input Strides": [[], []],
            "Concrete Inputs": ["", ""],
        }),
        launch(1001, 1, 7),
        kernel(name, 1200, 10, 7, grid=[60, 1, 1], block=[512, 1, 1]),
    ]  # fmt: skip
    [unit] = plan_of(opened(events)).units
    assert (unit.overload, [len(argument.items) for argument in unit.arguments]) == ("ScalarList", [40, 40])


def test_gradients_of_any_size_are_compared_in_no_time(opened: Opened) -> None:
    """As many launches as the largest of them would have are not counted one by one."""
    with ends("comparing huge gradients", 20):
        [unit] = plan_of(opened([*accumulated([(1 << 31, 1 << 31)] * 40), *scaling([60])])).units
    assert "other grids" in unit.reason

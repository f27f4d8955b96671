"""Triton kernels that a program launches itself: units of a plan that run again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import user_kernels
import warplens
from launch_bundles import bundle, product, recorded, scale, seen_by_gpu, softmax
from support import kernel, launch, op
from triton_stub import stubbed
from warplens.planning import make_plan
from warplens.readers.bundle.launches import MOST_VARIANTS
from warplens_lab.planning.launched_units import NOT_CERTAIN, touched_by
from warplens_run.formats import replay_plan as plan_file
from warplens_run.formats import replay_result as result_file
from warplens_run.formats.bundle_files import LAUNCHES, MANIFEST
from warplens_run.formats.replay_plan import READY, REFUSED, Fill, ReplayPlan, Unit
from warplens_run.replay.inputs import Inputs
from warplens_run.replay.launched_units import candidate
from warplens_run.replay.options import RunOptions
from warplens_run.replay.source_files import written
from warplens_run.replay.supervisor import run_plan
from warplens_run.replay.triton_passing import Passing, passing_of

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")


def plan_of(path: Path) -> ReplayPlan:
    profile = warplens.open(path, cache=False)
    assert isinstance(profile, warplens.Profile)
    return make_plan(profile.workspace, path)


def mixed() -> None:
    scale(num_warps=8)
    softmax()
    product(64, user_kernels.positive)
    product(128)
    scale(num_warps=8)


def values(unit: Unit) -> list[Any]:
    return [argument.value for argument in unit.arguments if argument.tensor is None]


def test_each_launch_with_its_arguments_is_a_unit(tmp_path: Path) -> None:
    plan = plan_of(bundle(tmp_path / "run", recorded(mixed, warm=mixed)))
    assert plan.rest == ()
    units = {(unit.op, *values(unit)): unit for unit in plan.units}
    assert {unit.status for unit in plan.units} == {READY}
    assert {unit.api for unit in plan.units} == {"Triton source"}
    assert units["scale_shift", 1000, 2.0, 128].count == 2
    shifted = units["scale_shift", 1000, 2.0, 128].triton
    assert shifted is not None
    assert (shifted.grid, shifted.config["num_warps"]) == ((8, 1, 1), 8)
    depths = [unit.arguments[5].value for unit in plan.units if unit.op == "product"]
    assert sorted(depths) == [64, 128], "one grid, two inner sizes"
    assert [argument.kind for argument in units["product", 64, 32, 64, "positive", 32, "float32"].arguments[6:]] == [
        "function", "int", "dtype",
    ]  # fmt: skip
    plan_file.save(tmp_path / "plan.json", plan)
    assert plan_file.load(tmp_path / "plan.json") == plan_file.with_id(plan)


def test_what_a_kernel_writes_and_reads_is_known_from_its_code(tmp_path: Path) -> None:
    plan = plan_of(bundle(tmp_path / "run", recorded(lambda: product(64))))
    [unit] = plan.units
    assert [storage.written for storage in unit.storages] == [False, False, True]
    assert [storage.reuse_bytes for storage in unit.storages] == [0, None, None], "b is a model's parameter by its name"


def test_without_code_every_tensor_may_be_written() -> None:
    assert touched_by("", 2).written == {0, 1}
    assert touched_by("module {\n}", 2).written == {0, 1}


def test_indices_stay_between_those_that_were_seen(tmp_path: Path) -> None:
    def program() -> None:
        table = torch.ones(16, 100)
        for index in (torch.tensor([3, 1, 15, 7]), torch.tensor([0, 4, 8, 12])):
            user_kernels.gather[(4,)](table[: int(index[2])], index, torch.empty(4, 100), 100, block=128)
            user_kernels.gather[(4,)](table, index, torch.empty(4, 100), 99, block=128)

    first, second = plan_of(bundle(tmp_path / "run", recorded(program, warm=program))).units
    assert {first.storages[1].fill, second.storages[1].fill} == {Fill("integers", 1, 16)}
    rising = torch.tensor([0, 4, 8, 12])

    def offsets() -> None:
        user_kernels.gather[(4,)](torch.ones(16, 100), rising, torch.empty(4, 100), 100, block=128)

    [unit] = plan_of(bundle(tmp_path / "offsets", recorded(offsets, warm=offsets))).units
    assert unit.storages[1].fill == Fill("ramp", 0, 12, 4)
    rising = torch.tensor([3, 1, 0, 2])
    [permuted] = plan_of(bundle(tmp_path / "permuted", recorded(offsets, warm=offsets))).units
    assert permuted.storages[1].fill == Fill("permutation", 0, 4)
    [unseen] = plan_of(bundle(tmp_path / "unseen", recorded(offsets))).units
    assert unseen.notes == ("values of index are not known: the launch was first seen while it was recorded",)


def test_where_the_orders_differ_name_grid_and_threads_decide(tmp_path: Path) -> None:
    recorder = recorded(mixed, warm=mixed)
    kernels = seen_by_gpu(recorder)
    plan = plan_of(bundle(tmp_path / "more", recorder, [*kernels, kernels[0]]))
    assert plan.rest == ()
    shifted = next(unit for unit in plan.units if unit.op == "scale_shift")
    assert (shifted.count, shifted.notes) == (3, ()), "there is one such launch only"
    plan = plan_of(bundle(tmp_path / "unclear", recorder, [*kernels, kernels[2]]))
    [products] = [unit for unit in plan.units if unit.op == "product"]
    assert (products.count, products.notes) == (3, (NOT_CERTAIN,))
    other = ("scale_shift", (9, 1, 1), 256)
    assert [rest.count for rest in plan_of(bundle(tmp_path / "other", recorder, [*kernels, other])).rest] == [1]


def test_a_value_that_always_changes_is_one_unit(tmp_path: Path) -> None:
    def program() -> None:
        x, out = torch.ones(2048), torch.empty(2048)
        for count in range(MOST_VARIANTS + 2):
            user_kernels.scale_shift[(16,)](x, out, 2001 + 2 * count, 2.0, block=128)

    [unit] = plan_of(bundle(tmp_path / "run", recorded(program))).units
    assert (unit.count, unit.notes) == (MOST_VARIANTS + 2, (NOT_CERTAIN,))


def test_a_kernel_inside_an_op_stays_the_ops(tmp_path: Path) -> None:
    spec = {"Input Dims": [[4]], "Input type": ["float"], "Input Strides": [[1]], "Concrete Inputs": [""]}
    place = {"grid": [8, 1, 1], "block": [128, 1, 1]}
    inside = [op("aten::neg", 1000, 10, **spec), launch(1001, 2, 99), kernel("scale_shift", 1020, 3, 99, **place)]
    graph = [launch(2000, 2, 98, name="cudaGraphLaunch"), kernel("scale_shift", 2020, 3, 98, **place)]
    plan = plan_of(bundle(tmp_path / "run", recorded(scale), None, *inside, *graph))
    assert sorted((unit.op, unit.count) for unit in plan.units) == [("aten::neg", 1), ("scale_shift", 1)]
    assert [rest.reason for rest in plan.rest] == ["launched by a graph: its ops ran at capture, not in this trace"]


def test_a_kernel_without_a_source_of_its_own_has_the_reason(tmp_path: Path) -> None:
    reader = user_kernels.table_reader((1.0,))
    recorder = recorded(lambda: scale())
    recorder.launches[0] = replace(recorder.launches[0], arguments=[{"kind": "strange", "value": "Widget"}] * 5)
    [unit] = plan_of(bundle(tmp_path / "odd", recorder)).units
    assert (unit.status, unit.reason) == (REFUSED, "its argument 'x' cannot be rebuilt: a Widget")
    assert reader is not None
    path = bundle(tmp_path / "none", recorded(scale))
    content = json.loads((path / LAUNCHES).read_text())
    content["kernels"][0] |= {"source": "", "reason": "its source does not stand alone: it reads x"}
    (path / LAUNCHES).write_text(json.dumps(content))
    assert plan_of(path).units[0].reason == "its source does not stand alone: it reads x"


@pytest.mark.parametrize("text", ["{", '{"order": [4]}', '{"launches": [{"kernel": 1, "grid": [1]}]}', "[]"])
def test_a_damaged_record_is_as_good_as_none(text: str, tmp_path: Path) -> None:
    path = bundle(tmp_path / "run", recorded(scale))
    (path / LAUNCHES).write_text(text)
    plan = plan_of(path)
    assert (len(plan.units), [rest.reason[:20] for rest in plan.rest]) == (0, ["the trace has no ops"])
    assert (path / MANIFEST).exists()


def test_a_parameter_with_the_name_of_an_option_is_passed_as_it_was(tmp_path: Path) -> None:
    def program() -> None:
        user_kernels.staged[(1,)](torch.ones(128), 4, 128)
        user_kernels.staged[(1,)](torch.ones(128), num_stages=5, block=128)

    by_place, by_name = sorted(
        plan_of(bundle(tmp_path / "run", recorded(program))).units, key=lambda unit: unit.arguments[1].value
    )
    names = ["x", "num_stages", "block"]
    assert passing_of(by_place, names) == Passing(False, {"num_warps": 4, "num_ctas": 1})
    assert passing_of(by_name, names) == Passing(True, {"num_warps": 4, "num_ctas": 1})


def test_a_kernel_is_named_as_in_the_trace(tmp_path: Path) -> None:
    """Its own function may name it by its block size, which is not a part of its source."""
    plan = plan_of(bundle(tmp_path / "run", recorded(lambda: user_kernels.staged[(1,)](torch.ones(128), 4, 128))))
    [unit] = plan.units
    assert (unit.op, unit.kernels[0].name) == ("staged_of_128", "staged_of_128")
    assert unit.triton is not None
    assert unit.triton.kernel == "staged"
    [source] = plan.sources.values()
    with stubbed() as launched:
        call = candidate(unit, written(source, tmp_path), torch.device("cpu"))
        call(Inputs.build(unit, torch.device("cpu"), 0))()
    assert [(name, grid) for name, grid, _ in launched] == [("staged_of_128", (1, 1, 1))]


def test_units_and_kernels_are_listed_as_triton_sources(tmp_path: Path) -> None:
    profile = warplens.open(bundle(tmp_path / "run", recorded(mixed, warm=mixed)), cache=False)
    assert isinstance(profile, warplens.Profile)
    assert set(profile.table("units").to_polars()["api"]) == {"Triton source"}
    assert set(profile.table("unique_kernels").to_polars()["api"]) == {"Triton source"}
    assert profile.table("units").notes == ()


def test_the_units_run_again_on_another_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the interpreter on the CPU, in a process that has no module of the program."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("PYTHONPATH", "")
    plan = plan_of(bundle(tmp_path / "run", recorded(mixed, warm=mixed)))
    plan_file.save(tmp_path / "plan.json", plan)
    options = RunOptions(device="cpu", energy=False, allow_source=True, max_repeats=2, min_repeats=1)
    result = run_plan(tmp_path / "plan.json", tmp_path / "result.json", options, lambda _: None, fresh=True)
    assert [(unit.status, unit.reason) for unit in result.units] == [(result_file.DONE, "")] * len(plan.units)

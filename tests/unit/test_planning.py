"""Units of a trace, their plan, and what a plan edited by hand is told."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import warplens
from support import ROOT, SAMPLES, SHARED, Opened, kernel, launch, op
from warplens.analyses.units.calls import unit_calls
from warplens.planning import make_plan
from warplens.planning.arguments import CallBuilder, build
from warplens.planning.families import with_families
from warplens.planning.recorded import TracedCall, from_arguments
from warplens.planning.reuse import by_storage, reuse_distances
from warplens.planning.schemas import parse_schema
from warplens.planning.triton_units import index_bound
from warplens.planning.units import with_reuse
from warplens.readers.kineto.triton_calls import triton_calls
from warplens_run.formats import records
from warplens_run.formats import replay_plan as plan_file
from warplens_run.formats.replay_plan import READY, Argument, Kernel, ReplayPlan, Storage, TensorView, Times, Unit

INPUTS = {
    "Input Dims": [[4, 8], [8, 2]],
    "Input type": ["float", "float"],
    "Input Strides": [[8, 1], [2, 1]],
    "Concrete Inputs": ["", ""],
}
GEOMETRY = {"grid": [3, 1, 1], "block": [128, 1, 1]}
REPLAY = ROOT / "samples" / "replay"


def product(start: float, number: int, dur: float = 5) -> list[dict[str, Any]]:
    return [
        op("aten::mm", start, 10, **INPUTS),
        launch(start + 1, 2, number),
        kernel("gemm", start + 20, dur, number, **GEOMETRY),
    ]


def plan_of(profile: warplens.Profile, **options: Any) -> ReplayPlan:
    return make_plan(profile.workspace, Path(profile.meta.source), **options)


@cache
def plan_of_file(path: Path) -> ReplayPlan:
    return plan_of(warplens.open(path))


def test_calls_with_the_same_inputs_and_kernels_are_one_unit(opened: Opened) -> None:
    events = [*product(0, 1, 4), *product(100, 2, 6), *product(200, 3, 8)]
    [unit] = plan_of(opened(events)).units
    assert (unit.op, unit.count, unit.times.total_ns, unit.times.median_ns) == ("aten::mm", 3, 18_000, 6_000)
    assert [(each.name, each.grid, each.block) for each in unit.kernels] == [("gemm", (3, 1, 1), (128, 1, 1))]
    assert [argument.tensor.shape for argument in unit.arguments if argument.tensor] == [(4, 8), (8, 2)]


def test_another_grid_is_another_unit(opened: Opened) -> None:
    other = product(100, 2)
    other[2]["args"]["grid"] = [5, 1, 1]
    assert [unit.kernels[0].grid for unit in plan_of(opened([*product(0, 1), *other])).units] == [(3, 1, 1), (5, 1, 1)]


def test_a_call_takes_what_its_inner_ops_launch_where_it_launches_itself(opened: Opened) -> None:
    """The outer op launches a kernel of its own, so replaying it replays the inner op's too."""
    events = [
        op("aten::mm", 0, 50, **INPUTS),
        op("aten::fill_", 5, 10, **INPUTS),
        launch(6, 2, 1),
        launch(30, 2, 2),
        kernel("fill", 60, 3, 1, **GEOMETRY),
        kernel("gemm", 70, 5, 2, **GEOMETRY),
    ]
    [unit] = plan_of(opened(events)).units
    assert (unit.op, [each.name for each in unit.kernels]) == ("aten::mm", ["fill", "gemm"])


def test_an_op_that_only_calls_others_is_no_unit(opened: Opened) -> None:
    events = [op("aten::linear", -5, 40, **INPUTS), *product(0, 1)]
    assert [unit.op for unit in plan_of(opened(events)).units] == ["aten::mm"]


def test_all_time_is_in_units_or_has_a_reason(opened: Opened) -> None:
    events = [
        *product(0, 1),
        launch(50, 2, 9),
        kernel("outside", 70, 7, 9, **GEOMETRY),
        kernel("unlaunched", 90, 11),
        op("MulBackward0", 100, 10),
        launch(101, 2, 10),
        kernel("in a node of autograd", 120, 13, 10),
    ]
    plan = plan_of(opened(events))
    assert {rest.kernel: rest.reason for rest in plan.rest} == {
        "outside": "launched outside any op",
        "unlaunched": "its launch is not in the trace",
        "in a node of autograd": "launched by MulBackward0, which is not a callable op",
    }
    assert sum(unit.times.total_ns for unit in plan.units) + sum(rest.total_ns for rest in plan.rest) == plan.gpu_ns


def test_a_trace_without_ops_has_that_reason_and_what_to_record(opened: Opened) -> None:
    """Not the program launched outside ops, but the profiler recorded none; nor would a recorded launch help."""
    plan = plan_of(opened([launch(0, 2, 1), kernel("gemm", 20, 5, 1), kernel("unlaunched", 30, 5)]))
    assert {rest.reason for rest in plan.rest} == {
        "the trace has no ops: record with ProfilerActivity.CPU and record_shapes=True, as warplens profile does"
    }


def test_cover_and_match_mark_what_they_leave_out(opened: Opened) -> None:
    small = [op("aten::relu", 300, 10, **{key: value[:1] for key, value in INPUTS.items()}),
             launch(301, 2, 5), kernel("relu", 320, 1, 5, **GEOMETRY)]  # fmt: skip
    profile = opened([*product(0, 1, 9), *small])
    assert [unit.status for unit in plan_of(profile, cover=0.5).units] == ["ready", "left out"]
    matched = plan_of(profile, match=["op=aten::re*"]).units
    assert [(unit.status, unit.reason) for unit in matched] == [
        ("left out", "not matched by the patterns"),
        ("ready", ""),
    ]
    with pytest.raises(warplens.UsageError, match="no unit matches"):
        plan_of(profile, match=["op=nothing"])
    with pytest.raises(warplens.UsageError, match="not a valid pattern"):
        plan_of(profile, match=["shape=3"])
    with pytest.raises(warplens.UsageError, match="not a valid share"):
        plan_of(profile, cover=2)


def test_a_trace_without_shapes_is_refused_unit_by_unit(opened: Opened) -> None:
    events = [op("aten::mm", 0, 10), launch(1, 2, 1), kernel("gemm", 20, 5, 1)]
    [unit] = plan_of(opened(events)).units
    assert unit.status == "refused"
    assert "no shapes" in unit.reason


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_a_plan_survives_being_written(path: Path, tmp_path: Path) -> None:
    plan = plan_of_file(path)
    plan_file.save(tmp_path / "plan.json", plan)
    found = plan_file.load(tmp_path / "plan.json")
    assert found == plan_file.with_id(plan)
    assert sum(unit.times.total_ns for unit in plan.units) + sum(rest.total_ns for rest in plan.rest) == plan.gpu_ns


def call_on_meta(unit: Unit) -> None:
    """Calls the unit's op with tensors that have no data: wrong overloads and arguments raise."""
    import torch

    def value(argument: Argument) -> Any:
        if argument.tensor is not None:
            made = argument.tensor
            room = torch.empty(plan_file.extent(made) + 1, dtype=getattr(torch, made.dtype), device="meta")
            return room.as_strided(made.shape, made.stride, made.offset)
        if argument.kind == "list":
            return [value(item) for item in argument.items]
        if argument.kind == "choice":
            return value(argument.items[0])
        if argument.kind in ("dtype", "memory_format", "layout"):
            return getattr(torch, argument.value)
        return torch.device("meta") if argument.kind == "device" else argument.value

    name, function = unit.op.split("::")
    overload = getattr(getattr(getattr(torch.ops, name), function), unit.overload or "default")
    positional, named = [], {}
    for parameter, argument in zip(overload._schema.arguments, unit.arguments, strict=True):
        if parameter.kwarg_only:
            named[parameter.name] = value(argument)
        else:
            positional.append(value(argument))
    overload(*positional, **named)


NO_META = ("no fake impl or Meta kernel", "cannot be called on meta tensors", "Could not run")


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_every_ready_unit_calls_an_op_that_takes_its_arguments(path: Path) -> None:
    torch = pytest.importorskip("torch")
    called = 0
    for unit in plan_of_file(path).units:
        if unit.status != READY or unit.triton is not None:
            continue
        try:
            call_on_meta(unit)
            called += 1
        except (RuntimeError, NotImplementedError) as error:
            assert any(text in str(error) for text in NO_META), f"{unit.id} {unit.op}.{unit.overload}: {error}"
    assert called or "cudagraph" in path.name or "cpu" in path.name, torch.__version__


COVERED = {
    # share of the GPU time in units that can be rebuilt, at least
    "replay/bloom560m_infer": 99.5,
    "replay/gpt2_train": 99,
    "replay/resnet50_train": 99,
    "replay/gpt2_compiled": 95,
    "h200/bloom560m_infer": 99,
    "h200/vicuna7b_infer": 99,
    "h200/resnet50_train": 99,
    "h200/gpt2_train_eager": 99,
}


def share_ready(plan: ReplayPlan) -> float:
    return 100 * sum(unit.times.total_ns for unit in plan.units if unit.status == READY) / plan.gpu_ns


@pytest.mark.parametrize("name", COVERED)
def test_real_traces_are_covered(name: str) -> None:
    path = SHARED / "traces" / f"{name}.json.gz"
    if not path.exists():
        pytest.skip("the shared traces are not beside the checkout")
    nodes, files = (
        path.with_name(path.name.replace(".json", ".et.json")),
        path.with_name("gpt2_compiled.kernel_files.tar.gz"),
    )
    profile = warplens.open(path, execution_trace=nodes if nodes.exists() else "")
    assert isinstance(profile, warplens.Profile)
    plan = make_plan(profile.workspace, path, kernel_files=files if "compiled" in name else None)
    assert share_ready(plan) >= COVERED[name]


def test_unique_kernels_are_counted_by_each_definition() -> None:
    """BLOOM-560M's kernels as another program counted them."""
    path = SHARED / "traces" / "h200" / "bloom560m_infer.json.gz"
    if not path.exists():
        pytest.skip("the shared traces are not beside the checkout")
    profile = warplens.open(path)
    counts = [row["unique"] for row in profile.table("unique").to_dicts()]
    assert counts[:5] == [67, 87, 234, 245, 255]
    total = sum(row["total_us"] for row in profile.table("unique_kernels").to_dicts())
    assert total == pytest.approx(sum(row["total_us"] for row in profile.table("kernels").to_dicts()))


def test_generated_kernels_come_with_their_source_and_configuration() -> None:
    trace = REPLAY / "gpt2_compiled.json.gz"
    profile = warplens.open(trace, execution_trace=REPLAY / "gpt2_compiled.et.json.gz")
    assert isinstance(profile, warplens.Profile)
    bare = make_plan(profile.workspace, trace)
    assert share_ready(bare) < 80
    plan = make_plan(profile.workspace, trace, kernel_files=REPLAY / "gpt2_compiled.kernel_files.tar.gz")
    assert share_ready(plan) >= 95
    unit = next(unit for unit in plan.units if unit.op == "triton_red_fused_sum_view_13")
    assert unit.triton is not None
    assert unit.triton.config["num_warps"] * 32 == unit.kernels[0].block[0]
    assert "def triton_red_fused_sum_view_13(" in plan.sources[unit.triton.source].text
    assert [storage.written for storage in unit.storages] == [False, True]
    optimizer = next(unit for unit in plan.units if unit.op == "aten::_fused_adamw_")
    assert optimizer.status == READY
    assert len(optimizer.arguments[0].items) > 30


def test_launches_of_generated_kernels_are_found_in_damaged_text() -> None:
    text = b'..."args": {"External id": 7, "kernel_backend": "triton", "kernel_kwargs": "XBLOCK=64,R0_BLOCK=8", "num_warps": 4, "kernel_name": "k", "kernel_file": "a/b/c.py"}},{"kernel_backend": "triton"'
    [(external, call)] = triton_calls(text).items()
    assert (external, call.kernel, call.file) == (7, "k", "c.py")
    assert call.config == {"XBLOCK": 64, "R0_BLOCK": 8, "num_warps": 4}


def test_lookups_stay_below_the_bound_that_the_source_asserts() -> None:
    assert index_bound("tl.device_assert(((0 <= tmp8) & (tmp8 < 50257)) | ~xmask, 'index')\nx < 3") == 50257
    assert index_bound("x < 3") is None


def shaped(identity: str, *shapes: tuple[int, ...]) -> Unit:
    times = Times(1, 1, 1, 1, 1, 1)
    arguments = tuple(Argument("tensor", tensor=TensorView(0, shape, shape, "float32")) for shape in shapes)
    return Unit(identity, "aten::bmm", (Kernel("k", "kernel", times),), 1, times, "", arguments=arguments)


def test_growing_shapes_are_a_family_and_layers_are_not() -> None:
    cache = [shaped(f"u{n}", (16, 1, n), (16, n, 64)) for n in (9, 10, 11)]
    layers = [shaped(f"v{n}", (8, n)) for n in (64, 128, 512)]
    families = [unit.family for unit in with_families([*cache, *layers])]
    assert len(set(families[:3])) == 1
    assert "[16, 1, *] [16, *, 64]" in families[0]
    assert families[3:] == ["", "", ""]


def test_reuse_distance_is_what_was_touched_since() -> None:
    profile = warplens.open(REPLAY / "gpt2_compiled.json.gz", execution_trace=REPLAY / "gpt2_compiled.et.json.gz")
    assert isinstance(profile, warplens.Profile)
    found = unit_calls(profile.workspace)
    distances = reuse_distances(profile.trace, found)
    plan = make_plan(profile.workspace, REPLAY / "gpt2_compiled.json.gz")
    head = next(unit for unit in plan.units if unit.op == "aten::mm" and unit.arguments[1].tensor.shape == (768, 50264))  # type: ignore[union-attr]
    hidden = head.storages[head.arguments[0].tensor.storage]  # type: ignore[union-attr]
    # The head's weight is padded right before the product, the hidden states lie a little further back.
    assert hidden.reuse_bytes is not None
    assert 0 < hidden.reuse_bytes < 1 << 30
    assert all(distance >= 0 for places in distances.values() for distance in places.values())


def test_what_relu_left_is_half_zero_and_what_others_wrote_is_not() -> None:
    folder = SHARED / "traces" / "replay"
    trace, recorded = folder / "resnet50_train.json.gz", folder / "resnet50_train.et.json.gz"
    if not trace.exists():
        pytest.skip("the shared traces are not beside the checkout")
    profile = warplens.open(trace, execution_trace=recorded)
    assert isinstance(profile, warplens.Profile)
    plan = make_plan(profile.workspace, trace)

    def kinds(op: str, argument: int) -> set[str]:
        tensors = [unit.arguments[argument].tensor for unit in plan.units if unit.op == f"aten::{op}"]
        units = [unit for unit in plan.units if unit.op == f"aten::{op}"]
        return {unit.storages[each.storage].fill.kind for unit, each in zip(units, tensors, strict=True) if each}

    # BatchNorm's output is what the ReLU gets; the first convolution gets an image.
    assert kinds("clamp_min_", 0) == {"normal"}
    assert kinds("cudnn_convolution", 0) == {"normal", "rectified"}
    assert kinds("cudnn_convolution", 1) == {"normal"}
    assert kinds("threshold_backward", 1) == {"rectified"}
    assert kinds("cudnn_batch_norm_backward", 1) == {"masked"}


def a_plan() -> dict[str, Any]:
    times = Times(1000, 1000, 1000, 1000, 1000, 1000)
    unit = Unit(
        "u1", "aten::relu", (Kernel("k", "kernel", times, grid=(1, 1, 1)),), 1, times, "ATen op",
        arguments=(Argument("tensor", tensor=TensorView(0, (4,), (1,), "float32")),), storages=(Storage(16, "float32"),),
    )  # fmt: skip
    return plan_file.to_json(ReplayPlan("t.json", "", 1000, 1000, (unit,)))


def changed(path: str, value: Any) -> dict[str, Any]:
    plan = json.loads(json.dumps(a_plan()))
    *steps, last = path.split(".")
    place: Any = plan
    for step in steps:
        place = place[int(step) if step.isdigit() else step]
    place[int(last) if last.isdigit() else last] = value
    return plan


def nested(depth: int) -> dict[str, Any]:
    return {"kind": "list", "items": [nested(depth - 1)] if depth else []}


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (changed("version", 99), "of version 99"),
        (changed("version", "1"), "without a version"),
        (changed("format", "x"), "not a replay plan"),
        (changed("units.0.count", "many"), r"units\[0\].count: not a whole number"),
        (changed("units.0.count", 0), r"units\[0\].count: not a count"),
        (changed("units.0.status", "maybe"), r"units\[0\].status: not one of"),
        (changed("units.0.op", "__import__('os')"), r"units\[0\].op: not the name of an op"),
        (changed("units.0.code", "print()"), r"units\[0\]: unknown key 'code'"),
        (changed("units.0.storages.0.dtype", "float9"), "no dtype"),
        (changed("units.0.id", "\x1b[2J"), r"units\[0\].id: not a name"),
        (changed("units.0.times.median_ns", "nan"), r"units\[0\].times: a time that is negative or not finite"),
        (changed("units.0.storages.0.fill", {"low": "inf"}), r"storages\[0\].fill: a number that is not finite"),
        (changed("units.0.arguments.0", nested(300)), "nested too deep"),
        (changed("units.0.storages.0.bytes", 8), "extends beyond its storage"),
        (changed("units.0.arguments.0.tensor.storage", 5), "no storage 5"),
        (changed("units.0.arguments.0.tensor.shape", [4, 4]), "do not fit together"),
        (changed("units.0.arguments.0.tensor.shape", [-4]), "not a valid size or stride"),
        (changed("units.0.arguments.0.kind", "code"), "not one of tensor"),
        (changed("units.0.arguments.0", {"kind": "int", "value": "1"}), "not a whole number"),
        (changed("units.0.triton", {"source": "a.py", "kernel": "k"}), "needs a source that the plan does not contain"),
        (changed("sources", {"a.py": {"text": "x", "sha256": "0"}}), "SHA-256 differs"),
    ],
)
def test_an_edited_plan_is_told_what_is_wrong(plan: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    with pytest.raises(warplens.FormatError, match=message):
        plan_file.load(path)


@pytest.mark.parametrize("text", ["", "[", "[1]", "null", '{"format": "warplens-replay-plan"}', "[" * 100_000])
def test_something_else_is_no_plan(text: str, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(warplens.FormatError):
        plan_file.load(tmp_path / "plan.json")


def test_what_never_ends_is_not_read() -> None:
    with pytest.raises(warplens.FormatError, match="not a file"):
        plan_file.load(Path("/dev/zero"))


def test_what_unpacks_to_more_than_any_plan_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_BYTES", 1000)
    (tmp_path / "plan.json").write_bytes(gzip.compress(b" " * 100_000))
    with pytest.raises(warplens.FormatError, match="larger than any plan"):
        plan_file.load(tmp_path / "plan.json")


def test_reuse_is_told_of_the_right_storage_where_one_lies_in_host_memory() -> None:
    """A copy to the host: its first storage is no part of what the GPU touched."""
    schema = "aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)"
    inputs = '[[1, 7, 0, 4, 4, "cpu"], [2, 8, 0, 4, 4, "cuda:0"], false]'
    types = '["Tensor(float)", "Tensor(float)", "Bool"]'
    row = TracedCall(schema, inputs, "[[4], [4], []]", types, "[[1], [1], []]", kernel_file="", tensor_range="")
    known = parse_schema(schema)
    assert known is not None
    call = CallBuilder("copy_", {}, ())
    arguments = build(known, from_arguments(row, ()), call)
    storages = with_reuse(call, arguments, by_storage({0: 64}, inputs), None)
    assert [(each.device, each.reuse_bytes) for each in storages] == [("cpu", None), ("cuda", 64)]


def test_a_copy_between_gpus_is_refused(opened: Opened) -> None:
    event = kernel("Memcpy PtoP (Device -> Device)", 20, 5, 1) | {"cat": "gpu_memcpy"}
    [unit] = plan_of(opened([op("aten::copy_", 0, 10, **INPUTS), launch(1, 2, 1), event])).units
    assert (unit.status, unit.reason) == ("refused", "a copy between two GPUs")


def test_an_op_that_replaces_memory_is_refused_when_the_plan_is_made(opened: Opened) -> None:
    [unit] = plan_of(opened([op("aten::set_data", 0, 10, **INPUTS), launch(1, 2, 1), kernel("k", 20, 5, 1)])).units
    assert (unit.status, unit.reason) == ("refused", "it replaces the memory of a tensor")


def test_two_units_of_one_name_are_refused(tmp_path: Path) -> None:
    plan = plan_file.parse(a_plan())
    plan_file.save(tmp_path / "plan.json", replace(plan, units=plan.units * 2))
    with pytest.raises(warplens.FormatError, match="two units have the id"):
        plan_file.load(tmp_path / "plan.json")


def test_numbers_that_json_has_no_words_for_survive(tmp_path: Path) -> None:
    plan = plan_file.parse(a_plan())
    unit = replace(plan.units[0], arguments=(Argument("float", float("-inf")),))
    plan_file.save(tmp_path / "plan.json", replace(plan, units=(unit,)))
    assert plan_file.load(tmp_path / "plan.json").units[0].arguments[0].value == float("-inf")


def test_switches_and_variables_of_the_run_are_in_the_plan(tmp_path: Path) -> None:
    """As a capture bundle's environment.json has them; nothing else of the environment."""
    import shutil

    from warplens.planning.context import context_of

    bundle = tmp_path / "run.warplens"
    bundle.mkdir()
    shutil.copy(REPLAY / "gpt2_compiled.json.gz", bundle / "trace.json.gz")
    (bundle / "environment.json").write_text(json.dumps({
        "torch": {"settings": {"backends.cuda.matmul.allow_tf32": True}},
        "variables": {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "CUDA_HOME": "/usr/local/cuda"},
        "packages": {"torch": "2.11.0"},
    }))  # fmt: skip
    (bundle / "manifest.json").write_text(json.dumps({"format": "warplens-bundle"}))
    found = context_of(bundle)
    assert found.settings == {"backends.cuda.matmul.allow_tf32": True, "variables.CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    assert found.versions == {"torch": "2.11.0"}


def test_a_plan_sets_no_variable_but_those_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    from warplens_run.replay.settings import restore_variables

    for name in ("CUBLAS_WORKSPACE_CONFIG", "NVIDIA_TF32_OVERRIDE", "LD_PRELOAD"):
        monkeypatch.delenv(name, raising=False)
    restore_variables({
        "variables.CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "variables.NVIDIA_TF32_OVERRIDE": "1; rm -rf /",
        "variables.LD_PRELOAD": "evil.so",
    })  # fmt: skip
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert not {"NVIDIA_TF32_OVERRIDE", "LD_PRELOAD"} & set(os.environ)
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")

"""What experiments run after the change: units with other tensors, and why some findings have none."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import warplens
from replay_plans import listed, storage, tensor, unit, value
from support import ROOT, Opened, kernel, launch, op
from warplens.advice.held_memory import MEMORY_RULES
from warplens.advice.rank_rules import JOB_RULES
from warplens.advice.rules import CHECKS
from warplens.profiles.what_if import members
from warplens.proof.experiments import make_proof_plan
from warplens.proof.experiments.call_runs import CallRun
from warplens.proof.experiments.chains import _keep_one_type
from warplens.proof.experiments.changed_units import ChangedUnits
from warplens.proof.experiments.finding_units import UnitInStep
from warplens.proof.experiments.optimizer_step import fused_step, optimizer_at_once
from warplens.proof.experiments.rules import MAKE_VARIANTS, NO_EXPERIMENT, NOT_RUN, unaligned_sides
from warplens.proof.experiments.unit_edits import (
    NoExperiment,
    padded,
    retyped,
    tensors_of,
    with_channels_last,
    with_pinned_memory,
)
from warplens_run.base.errors import FormatError
from warplens_run.formats import proof_plan as plan_file
from warplens_run.formats.proof_plan import ProofPlan
from warplens_run.formats.replay_plan import Argument, Unit
from warplens_run.proof.sequence_calls import from_text

FAULTS = ROOT / "samples" / "faults"


def planned(path: Path) -> ProofPlan:
    profile = warplens.open(path, cache=False)
    assert isinstance(profile, warplens.Profile)
    return make_proof_plan(profile.workspace, path, profile.findings(), members(profile.workspace, profile.table))


def product(*, transposed: bool = False) -> Unit:
    """`(10, 6) @ (6, 7)` in bf16, the second operand as it is or transposed."""
    second = tensor(1, 6, 7, dtype="bfloat16", stride=(1, 6) if transposed else ())
    storages = (storage(60, "bfloat16"), storage(42, "bfloat16"))
    return unit("aten::mm", (tensor(0, 10, 6, dtype="bfloat16"), second), storages)


def test_sides_are_padded_in_every_tensor_and_keep_their_order_in_memory() -> None:
    wide = padded(product(transposed=True), "wide", {6: 8, 7: 64})
    assert [(view.shape, view.stride) for view in tensors_of(wide)] == [((10, 8), (8, 1)), ((8, 64), (1, 8))]
    assert [own.bytes for own in wide.storages] == [160, 1024]
    assert (wide.id, wide.op) == ("aten::mm.wide", "aten::mm")


def test_only_sides_along_which_memory_is_contiguous_count_as_unaligned() -> None:
    assert [side for side, _ in unaligned_sides(product())] == [6, 7]
    # The result's rows are 7 long whatever the second operand's layout.
    assert [side for side, _ in unaligned_sides(product(transposed=True))] == [6, 7]
    aligned = unit("aten::mm", (tensor(0, 9, 8, dtype="bfloat16"), tensor(1, 8, 16, dtype="bfloat16")),
                   (storage(72, "bfloat16"), storage(128, "bfloat16")))  # fmt: skip
    assert list(unaligned_sides(aligned)) == []


def test_of_convolutions_only_channels_are_padded() -> None:
    image, weight = tensor(0, 2, 30, 7, 9, dtype="float16"), tensor(1, 50, 30, 3, 3, dtype="float16")
    storages = (storage(3780, "float16"), storage(13500, "float16"))
    assert list(unaligned_sides(unit("aten::convolution", (image, weight), storages))) == [(30, "float16")]
    square = tensor(0, 2, 30, 30, 30, dtype="float16")
    alike = unit("aten::convolution", (square, weight), (storage(54000, "float16"), storages[1]))
    assert list(unaligned_sides(alike)) == []


def test_a_view_with_gaps_is_not_padded() -> None:
    sliced = unit("aten::mm", (tensor(0, 4, 3, stride=(8, 1)), tensor(1, 3, 4)), (storage(32), storage(12)))
    with pytest.raises(NoExperiment, match="gaps"):
        padded(sliced, "wide", {3: 4})


def test_tensors_that_share_memory_are_not_changed_one_by_one() -> None:
    halves = unit("aten::mm", (tensor(0, 2, 3), tensor(0, 3, 2, offset=6)), (storage(12),))
    with pytest.raises(NoExperiment, match="share memory"):
        padded(halves, "wide", {3: 4})


def test_another_dtype_needs_less_memory() -> None:
    narrow = retyped(unit("aten::mm", (tensor(0, 2, 3), tensor(1, 3, 2)), (storage(6), storage(6))), "bf16",
                     {"float32": "bfloat16"})  # fmt: skip
    assert {view.dtype for view in tensors_of(narrow)} == {"bfloat16"}
    assert [own.bytes for own in narrow.storages] == [12, 12]


def test_statistics_of_a_norm_keep_their_dtype() -> None:
    backward = unit(
        "aten::_fused_rms_norm_backward",
        (tensor(0, 4, 5), tensor(1, 4, 5), value("list"), tensor(2, 4, 1), Argument("none"), value("list")),
        (storage(20), storage(20), storage(4)),
    )
    schema = (
        "aten::_fused_rms_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor rstd, "
        "Tensor? weight, bool[2] output_mask) -> (Tensor, Tensor)"
    )
    backward = replace(backward, schema=schema)
    narrow = retyped(backward, "bf16", {"float32": "bfloat16"})
    assert [view.dtype for view in tensors_of(narrow)] == ["bfloat16", "bfloat16", "float32"]
    assert narrow.storages[2] == backward.storages[2]


def test_the_layout_of_images_spreads_to_all_that_works_on_them() -> None:
    plan = planned(FAULTS / "nchw_conv.before.json.gz")
    units = {own.id: own for own in plan.replay.units}
    (variant,) = plan.experiments[0].variants
    ops = {units[swap.before[0].unit].op for swap in variant.swaps}
    assert {"aten::cudnn_convolution", "aten::convolution_backward", "aten::clamp_min", "aten::mse_loss"} <= ops


def test_a_product_reads_what_the_copy_before_it_read() -> None:
    plan = planned(FAULTS / "slow_transpose.before.json.gz")
    units = {own.id: own for own in plan.replay.units}
    (swap,) = plan.experiments[0].variants[0].swaps
    copy, follower = (units[calls.unit] for calls in swap.before)
    (after,) = (units[calls.unit] for calls in swap.after)
    assert (copy.op, follower.op, after.op) == ("aten::copy_", "aten::mm", "aten::mm")
    assert tensors_of(after)[0].stride == tensors_of(copy)[1].stride != tensors_of(follower)[0].stride
    assert swap.reference == follower.id


def test_images_and_weights_have_their_channels_last() -> None:
    image = unit("aten::convolution", (tensor(0, 2, 3, 4, 5), tensor(1, 6)), (storage(120), storage(6)))
    last = with_channels_last(image, "last")
    assert [view.stride for view in tensors_of(last)] == [(60, 1, 15, 3), (1,)]


def test_a_copy_from_the_host_is_pinned_and_does_not_block() -> None:
    schema = "aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)"
    copy = unit("aten::copy_", (tensor(0, 4), tensor(1, 4), value("bool", False)),
                (storage(4), storage(4, device="cpu")))  # fmt: skip
    pinned = with_pinned_memory(replace(copy, schema=schema), "pinned")
    assert [own.pinned for own in pinned.storages] == [False, True]
    assert pinned.arguments[2].value is True
    with pytest.raises(NoExperiment, match="no memory of the host"):
        with_pinned_memory(copy, "pinned")


def test_the_fused_step_has_every_parameter_once() -> None:
    updates = [
        UnitInStep(
            unit("aten::addcdiv_", (tensor(0, 3, 4), tensor(1, 3, 4), tensor(2, 3, 4)), (storage(12),) * 3), 2.0
        ),
        UnitInStep(unit("aten::addcdiv_", (tensor(0, 5), tensor(1, 5), tensor(2, 5)), (storage(5),) * 3), 1.0),
        UnitInStep(unit("aten::lerp_.Scalar", (tensor(0, 5), tensor(1, 5)), (storage(5),) * 2), 1.0),
    ]
    fused = fused_step(updates)
    shapes = [item.tensor.shape for item in fused.arguments[0].items if item.tensor is not None]
    assert shapes == [(3, 4), (3, 4), (5,)]
    assert sum(own.written for own in fused.storages) == 3 * len(shapes)  # all but gradients and counts
    with pytest.raises(NoExperiment, match="Adam"):
        fused_step(updates[2:])


def test_a_step_that_is_foreach_already_is_only_fused() -> None:
    one, lists = tensor(0, 3, 4), (storage(12),) * 3
    loop = UnitInStep(unit("aten::addcdiv_", (one, one, one), lists), 40.0)
    foreach = UnitInStep(unit("aten::_foreach_addcdiv_.Scalar", (listed(one), listed(one), listed(one)), lists), 1.0)
    assert [variant.name for variant in optimizer_at_once([loop])[0]] == ["fused", "foreach"]
    assert [variant.name for variant in optimizer_at_once([foreach])[0]] == ["fused"]


def test_a_plain_trace_with_a_foreach_optimizer_has_its_experiment() -> None:
    plan = planned(ROOT / "samples" / "kineto" / "gpt2_train_step.json.gz")
    experiment = next(one for one in plan.experiments if one.finding == "WL208")
    assert [variant.name for variant in experiment.variants] == ["fused"]
    assert experiment.variants[0].notes[0].startswith("approximate: its lists of 148 tensors")
    after = experiment.variants[0].swaps[0].after[0].unit
    fused = next(own for own in plan.replay.units if own.id == after)
    assert [len(argument.items) for argument in fused.arguments[:6]] == [148, 148, 148, 148, 0, 148]
    assert sum(math.prod(item.tensor.shape) for item in fused.arguments[0].items if item.tensor) == 124_439_808


@pytest.mark.parametrize(("fault", "code", "variants"), [
    ("odd_vocab", "WL201", ["padded 32001 to 32008", "padded 32001 to 32064"]),
    ("fp32_matmul", "WL202", ["TF32", "bf16, with its casts"]),
    ("unfused_attention", "WL204", ["fused", "fused, flash", "fused, memory-efficient", "fused, cuDNN"]),
    ("pointwise_chain", "WL205", ["torch.compile"]),
    ("cast_pingpong", "WL206", ["all in bfloat16", "torch.compile"]),
    ("nchw_conv", "WL207", ["channels_last"]),
    ("slow_transpose", "WL211", ["read as it was"]),
    ("recompute", "WL212", ["without recomputation"]),
    ("pageable_copy", "WL302", ["pinned memory"]),
    ("item_sync", "WL301", []),
    ("straggler_step", "WL305", []),
])  # fmt: skip
def test_a_planted_fault_has_its_experiment_or_the_reason_why_not(fault: str, code: str, variants: list[str]) -> None:
    plan = planned(FAULTS / f"{fault}.before.json.gz")
    experiment = next(one for one in plan.experiments if one.finding == code)
    assert [variant.name for variant in experiment.variants] == variants
    assert bool(experiment.reason) == (not variants)
    units = {own.id: own for own in plan.replay.units}
    for variant in experiment.variants:
        before_ns = sum(
            calls.calls * units[calls.unit].times.median_ns for swap in variant.swaps for calls in swap.before
        )
        assert before_ns >= 0.9 * experiment.traced_ns


def test_only_casts_between_floating_point_types_are_left_out() -> None:
    """A mask that is made from numbers is no reason to compute in booleans."""

    def cast(target: str, name: str) -> Unit:
        given = (tensor(0, 4, dtype=target), tensor(1, 4))
        return unit("aten::copy_", given, (storage(4, target), storage(4)), id=name)

    changed = ChangedUnits()
    run = CallRun(
        (
            cast("bool", "mask"),
            cast("bool", "other"),
            cast("bfloat16", "narrow"),
            unit("aten::neg", (tensor(0, 4),), (storage(4),)),
        ),
        1.0,
    )
    _keep_one_type(changed, [run])
    (variant,) = changed.variants
    assert variant.name == "all in bfloat16"
    assert [swap.before[0].unit for swap in variant.swaps if not swap.after] == ["narrow"]


def test_a_step_of_many_launches_is_one_graph() -> None:
    """The calls run one by one before, and as a graph after: other units of the same content."""
    plan = planned(FAULTS / "launch_bound.before.json.gz")
    experiment = next(one for one in plan.experiments if one.finding == "WL104")
    (variant,) = experiment.variants
    assert (variant.name, variant.timer) == ("as one graph", "graph")
    units = {own.id: own for own in plan.replay.units}
    calls, graph = (units[side[0].unit] for side in (variant.swaps[0].before, variant.swaps[0].after))
    assert (calls.arguments, calls.storages) == (graph.arguments, graph.storages)
    order = from_text(calls.arguments[1].value).order
    assert len(order) > 200
    assert len(set(order)) < 40


def test_a_step_without_ops_is_not_captured_for_the_reason_that_most_of_its_work_has(opened: Opened) -> None:
    events = [
        event
        for number in range(200)
        for event in (launch(20 * number, 2, number), kernel(f"k{number % 3}", 20 * number + 5, 2, number))
    ]
    profile = opened(events)
    plan = make_proof_plan(
        profile.workspace, Path(profile.meta.source), profile.findings(), members(profile.workspace, profile.table)
    )
    (reason,) = (one.reason for one in plan.experiments if one.finding == "WL104")
    assert reason.startswith("too few of the step's calls can be run again; the trace has no ops: record")


def test_what_is_run_of_a_finding_is_noted_where_it_is_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warplens.proof.experiments.changed_units.MOST_UNITS", 1)
    plan = planned(FAULTS / "odd_vocab.before.json.gz")
    (note,) = plan.experiments[0].variants[0].notes
    assert re.fullmatch(r"4\d % of its GPU time is run", note)


def test_a_plan_is_read_as_it_was_written_and_faults_are_named(tmp_path: Path) -> None:
    plan = planned(FAULTS / "odd_vocab.before.json.gz")
    path = tmp_path / "proof.plan.json"
    plan_file.save(path, plan)
    assert plan_file.load(path).experiments == plan.experiments
    value = plan_file.to_json(plan)
    value["experiments"][0]["variants"][0]["swaps"][0]["after"][0]["unit"] = "u999"
    with pytest.raises(FormatError, match=r"experiments\[0\]: no unit 'u999'"):
        plan_file.parse(value)
    with pytest.raises(FormatError, match="not a proof plan"):
        plan_file.parse({"format": "something"})


def test_every_finding_has_an_experiment_or_its_own_reason_to_have_none() -> None:
    assert set(MAKE_VARIANTS) | set(NOT_RUN) == {*CHECKS, *MEMORY_RULES.codes, *JOB_RULES.codes}
    assert not set(MAKE_VARIANTS) & set(NOT_RUN)
    assert NO_EXPERIMENT not in NOT_RUN.values()


def test_long_stalls_have_no_experiment_and_the_plan_gives_the_reason(opened: Opened) -> None:
    """Calls of 30 ms in one place: a graph of the step would still wait for them."""
    events: list[dict[str, Any]] = []
    for number in range(4):
        start = 100_000 * number
        events += [op("aten::mm", start, 50), launch(start + 10, 5, number), kernel("gemm", start + 20, 60_000, number)]
        events.append(op("warmup::search", start + 61_000, 38_000))
    profile = opened(events)
    plan = make_proof_plan(
        profile.workspace, Path(profile.meta.source), profile.findings(), members(profile.workspace, profile.table)
    )
    (experiment,) = (one for one in plan.experiments if one.finding == "WL107")
    assert experiment.variants == ()
    assert experiment.reason.startswith("its gaps are long stalls of the host")

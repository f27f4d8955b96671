"""Experiments on a CPU: what runs, what fails, and how far outputs differ."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from proof_runs import OPTIONS, experiment, ran
from replay_plans import plan as replay_plan
from replay_plans import storage, tensor, unit, value
from warplens.analyses.workspace import Workspace
from warplens.model.finding import Finding
from warplens.model.trace import empty_trace
from warplens.proof.experiments.attention import fused_attention
from warplens.proof.experiments.call_runs import RecordedCalls
from warplens.proof.experiments.changed_units import ChangedUnits
from warplens.proof.experiments.finding_units import FindingUnits, UnitInStep, merged, most_of
from warplens.proof.experiments.rules import use_whole_optimizer
from warplens.proof.experiments.unit_edits import padded, retyped
from warplens_run.base.errors import UsageError
from warplens_run.formats import proof_plan as plan_file
from warplens_run.formats import proof_result as result_file
from warplens_run.formats.proof_plan import Experiment, ProofPlan, Swap, UnitCalls, Variant
from warplens_run.formats.replay_plan import Unit
from warplens_run.formats.replay_result import Time, Traced, UnitResult
from warplens_run.proof.compared_outputs import compare_outputs
from warplens_run.proof.supervisor import ranks_of_units, run_proof, units_by_settings, units_to_meter
from warplens_run.replay.options import Progress

PRODUCT = unit("aten::mm", (tensor(0, 10, 6), tensor(1, 6, 7)), (storage(60), storage(42)), id="u1")
WIDE = padded(PRODUCT, "wide", {6: 8, 7: 64})
NARROW = retyped(PRODUCT, "bf16", {"float32": "bfloat16"})
SUM = unit("aten::add.Tensor", (tensor(0, 10, 6), tensor(1, 10, 6)), (storage(60), storage(60)), id="u2")
BROKEN = replace(SUM, id="u2.broken", op="aten::no_such_op")


def swap(before: Unit, *after: Unit, calls: float = 2.0) -> Swap:
    return Swap((UnitCalls(before.id, calls),), tuple(UnitCalls(own.id, calls) for own in after), before.id)


def test_times_and_outputs_before_and_after(tmp_path: Path) -> None:
    experiments = (
        experiment("WL201", Variant("padded", (swap(PRODUCT, WIDE),)), Variant("bf16", (swap(PRODUCT, NARROW),))),
        experiment("WL212", Variant("not at all", (Swap((UnitCalls("u2", 1.0),)),))),
        experiment("WL203", Variant("broken", (swap(SUM, BROKEN),))),
        Experiment("WL301", "", "a sync", reason="it is simulated"),
    )
    units = (PRODUCT, WIDE, NARROW, SUM, BROKEN)
    first, second, third, fourth = ran(tmp_path, *experiments, units=units).experiments
    wide, narrow = first.variants
    assert (wide.status, wide.difference.is_equal if wide.difference else None) == ("done", True)
    assert wide.before_ns > 0 < wide.after_ns
    assert narrow.difference is not None
    assert not narrow.difference.is_equal
    assert 1e-4 < narrow.difference.relative < 0.05
    assert narrow.difference.absolute > narrow.difference.relative
    assert (second.variants[0].after_ns, second.variants[0].difference) == (0.0, None)
    assert (third.variants[0].status, third.best) == ("failed", None)
    assert "no_such_op" in third.variants[0].failures[0]
    assert (fourth.reason, fourth.variants) == ("it is simulated", ())


def test_a_plan_without_experiments_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "proof.plan.json"
    plan_file.save(path, ProofPlan(replay_plan(), (Experiment("WL301", "", "a sync", reason="it is simulated"),)))
    with pytest.raises(UsageError, match="no experiment to run"):
        run_proof(path, tmp_path / "proof.json", OPTIONS, lambda state: None)
    assert list(tmp_path.iterdir()) == [path]


def test_units_run_under_the_switches_of_their_variant() -> None:
    quick = Variant("TF32", (swap(PRODUCT, WIDE),), {"backends.cuda.matmul.allow_tf32": True})
    plan = ProofPlan(replay_plan(PRODUCT, WIDE, NARROW), (
        experiment("WL202", quick, Variant("bf16", (swap(PRODUCT, NARROW),))),
    ))  # fmt: skip
    recorded, changed = units_by_settings(plan)
    assert (recorded.settings, recorded.units) == ({}, {"u1", NARROW.id})
    assert (changed.settings, changed.units) == (quick.settings, {WIDE.id})


def test_energy_is_measured_of_the_units_that_take_most_of_each_side() -> None:
    short, failed = replace(SUM, id="u3"), replace(SUM, id="u4")
    plan = ProofPlan(replay_plan(PRODUCT, WIDE, SUM, short, failed), (
        experiment("WL201", Variant("padded", (swap(PRODUCT, WIDE), swap(short, failed, calls=1.0)))),
        experiment("WL212", Variant("not at all", (swap(SUM, calls=1.0),))),
    ))  # fmt: skip
    timed = {own.id: timed_result(own, ns) for own, ns in ((PRODUCT, 90.0), (WIDE, 20.0), (SUM, 7.0), (short, 10.0))}
    assert units_to_meter(plan, timed) == (PRODUCT.id, WIDE.id, SUM.id)
    timed[short.id] = timed_result(short, 900.0)
    assert units_to_meter(plan, timed) == (short.id, WIDE.id, SUM.id)


def timed_result(of: Unit, ns: float) -> UnitResult:
    return UnitResult(of.id, of.op, 1, Traced(9, 9.0, 9.0, 9.0), "done", time=Time(ns, ns, ns, ns, ns, 20, 0.01))


@pytest.mark.usefixtures("warm_runner")
def test_an_interrupted_run_goes_on_with_what_is_left(tmp_path: Path) -> None:
    path, output = tmp_path / "proof.plan.json", tmp_path / "proof.json"
    plan_file.save(path, ProofPlan(replay_plan(PRODUCT, WIDE), (
        experiment("WL201", Variant("padded", (swap(PRODUCT, WIDE),))),
    )))  # fmt: skip
    reached: list[str] = []

    def stop_at_second(state: Progress) -> None:
        reached.append(state.unit)
        if len(reached) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_proof(path, output, OPTIONS, stop_at_second)
    assert not output.exists()
    again: list[str] = []
    run_proof(path, output, OPTIONS, lambda state: again.append(state.unit))
    assert reached[0] not in again
    assert reached[1] in again


def test_a_run_with_a_limit_of_seconds_says_what_it_left_out_and_goes_on(tmp_path: Path) -> None:
    first = experiment("WL201", Variant("padded", (swap(PRODUCT, WIDE),)))
    second = experiment("WL203", Variant("again", (swap(SUM, SUM),)))
    path, output = tmp_path / "proof.plan.json", tmp_path / "proof.json"
    plan_file.save(path, ProofPlan(replay_plan(PRODUCT, WIDE, SUM), (first, second)))
    result = run_proof(path, output, replace(OPTIONS, seconds=1e-6), lambda state: None)
    assert result == result_file.load(output)
    assert result.notes[-1] == "not reached within 1e-06 s: 3 of 3 units (of WL201, WL203)"
    assert all("not reached within" in each.variants[0].failures[0] for each in result.experiments)
    whole = run_proof(path, output, replace(OPTIONS, seconds=600), lambda state: None)
    assert [each.variants[0].status for each in whole.experiments] == ["done", "done"]
    assert not any("not reached" in note for note in whole.notes)
    assert not (tmp_path / "proof.json.runs").exists()


def test_the_first_variant_of_each_finding_comes_first_and_compilers_last() -> None:
    """Findings come with the largest gain first; what several variants need counts for the first of them."""
    compiled = replace(SUM, id="compiled", op="warplens::compiled_chain")
    first = experiment("WL206", Variant("compile", (swap(SUM, compiled),)), Variant("bf16", (swap(PRODUCT, NARROW),)))
    second = experiment("WL201", Variant("padded", (swap(PRODUCT, WIDE),)))
    plan = ProofPlan(replay_plan(PRODUCT, SUM, compiled, NARROW, WIDE), (first, second))
    ranks = ranks_of_units(plan)
    assert sorted(ranks, key=lambda name: (ranks[name], name)) == [
        "u1", WIDE.id, NARROW.id, "compiled", "u2",
    ]  # fmt: skip


def test_what_ends_the_comparing_process_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers once and ends: the second swap has no answer, the third one of a new process has."""
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho \'{"reason": "asked"}\'\nexit 3\n')
    python.chmod(0o755)
    monkeypatch.setattr("warplens_run.processes.child.sys.executable", str(python))
    swaps = (swap(PRODUCT, WIDE), swap(PRODUCT, NARROW), swap(SUM, SUM))
    plan = ProofPlan(replay_plan(PRODUCT, WIDE, NARROW, SUM), (experiment("WL201", Variant("padded", swaps)),))
    seen: list[str] = []
    outputs = compare_outputs(tmp_path / "proof.plan.json", plan.compared(), OPTIONS, seen.append)
    assert [outputs[own].reason for own in swaps] == ["asked", "its process ended with status 3", "asked"]
    assert seen == [WIDE.id, NARROW.id, SUM.id, ""]


def in_step(op: str, *shapes: tuple[int, ...], calls: float = 1.0) -> UnitInStep:
    arguments = tuple(tensor(number, *shape) for number, shape in enumerate(shapes))
    number = len(shapes) + sum(map(sum, shapes))
    storages = tuple(storage(math.prod(shape)) for shape in shapes)
    return UnitInStep(unit(op, arguments, storages, id=f"{op.partition('::')[2]}{number}"), calls)


def test_units_that_differ_in_numbers_alone_are_one() -> None:
    """Adam's factors change with every step."""
    steps = [in_step("aten::addcdiv_", (3, 4), (3, 4), (3, 4), calls=1.0) for _ in range(3)]
    numbered = [
        replace(
            step, unit=replace(step.unit, id=f"u{number}", arguments=(*step.unit.arguments, value("float", number)))
        )
        for number, step in enumerate(steps)
    ]
    other = in_step("aten::addcdiv_", (5,), (5,), (5,), calls=1.0)
    assert [(member.unit.id, member.calls) for member in merged([*numbered, other])] == [
        ("u0", 3.0),
        (other.unit.id, 1.0),
    ]
    assert most_of([*numbered, other], 0.5) == numbered[:2]


@pytest.mark.usefixtures("warm_runner")
def test_attention_in_parts_and_fused_give_the_same(tmp_path: Path) -> None:
    """The recorded parts are stand-ins of the same shapes: what they compute is not what is compared."""
    scores = (2, 3, 8, 8)
    parts = [
        in_step("aten::bmm", (6, 8, 4), (6, 4, 8)),
        in_step("aten::relu", scores),
        in_step("aten::bmm", (6, 8, 8), (6, 8, 5)),
    ]
    recorded = [*parts, *(replace(parts[1], unit=replace(parts[1].unit, op=op, id=op[6:])) for op in SOFTMAX)]
    variants, units = fused_attention(recorded)
    assert [calls.calls for calls in variants[0].swaps[0].after] == [1.0]
    shown = [view.tensor.shape for view in units[1].arguments[:4] if view.tensor is not None]
    assert shown == [(2, 3, 8, 4), (2, 3, 8, 4), (2, 3, 8, 5), (2, 3, 8, 5)]
    before = tuple(UnitCalls(part.unit.id, 1.0) for part in parts)
    variant = replace(variants[0], swaps=(replace(variants[0].swaps[0], before=before),))
    own = tuple(part.unit for part in parts)
    result = ran(tmp_path, experiment("WL204", variant), units=(*own, *units)).experiments[0].variants[0]
    assert (result.status, result.swaps[0].no_difference) == ("done", "")
    assert result.difference is not None
    assert result.difference.relative < 1e-5


SOFTMAX = ("aten::_softmax", "aten::_softmax_backward_data")


@pytest.mark.usefixtures("warm_runner")
def test_an_optimizer_at_once_does_what_its_parts_do(tmp_path: Path) -> None:
    members = (in_step("aten::addcdiv_", (3, 4), (3, 4), (3, 4), calls=2.0),)
    changed = ChangedUnits()
    finding = Finding(code="WL208", title="", evidence="", advice="")
    no_calls = RecordedCalls(Workspace(empty_trace()), {})
    about = FindingUnits(finding, members, 1e6, (), np.zeros(0, bool), no_calls)
    use_whole_optimizer(about, changed)
    units = (members[0].unit, *changed.units.values())
    results = ran(tmp_path, experiment("WL208", *changed.variants), units=units).experiments[0].variants
    assert [result.name for result in results] == ["fused", "foreach"]
    for result in results:
        assert (result.status, result.swaps[0].no_difference) == ("done", "")
        assert result.difference is not None
        assert result.difference.relative < 1e-5

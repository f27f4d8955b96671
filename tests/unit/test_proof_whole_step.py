"""A change within its whole step: which units run, and what counts as saved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import warplens
from proof_runs import experiment, ran
from replay_plans import storage, tensor, unit
from warplens.proof.applying import with_proofs
from warplens.proof.experiments.captured_step import can_be_captured
from warplens.proof.experiments.sequences import SEQUENCE, sequence_unit
from warplens.proof.experiments.unit_edits import padded
from warplens.proof.experiments.whole_step import BEFORE, with_change
from warplens_run.formats.proof_plan import ProofPlan, Swap, UnitCalls, Variant
from warplens_run.formats.proof_result import DONE, ExperimentResult, ProofResult, Side, SwapResult, VariantResult
from warplens_run.formats.replay_plan import Unit
from warplens_run.proof.sequence_calls import from_text
from warplens_run.proof.supervisor import units_by_settings

FAULTS = Path(__file__).resolve().parents[2] / "samples" / "faults"

PRODUCT = unit("aten::mm", (tensor(0, 10, 6), tensor(1, 6, 7)), (storage(60), storage(42)), id="u1")
SUM = unit("aten::add.Tensor", (tensor(0, 10, 6), tensor(1, 10, 6)), (storage(60), storage(60)), id="u2")
TANH = unit("aten::tanh", (tensor(0, 10, 6),), (storage(60),), id="u3")
WIDE = padded(PRODUCT, "wide", {6: 8, 7: 64})
KNOWN = {own.id: own for own in (PRODUCT, SUM, TANH, WIDE)}


def swap(before: dict[str, float], after: dict[str, float]) -> Swap:
    sides = [tuple(UnitCalls(name, calls) for name, calls in side.items()) for side in (before, after)]
    return Swap(sides[0], sides[1])


def changed(step: list[Unit], *swaps: Swap, timer: str = "") -> list[str]:
    return [own.id for own in with_change(step, Variant("changed", swaps, timer=timer), KNOWN)]


def test_what_runs_after_the_change_stands_where_the_first_of_before_was() -> None:
    step = [PRODUCT, SUM, TANH, PRODUCT, SUM, TANH]
    assert changed(step, swap({"u1": 2}, {WIDE.id: 2})) == [WIDE.id, WIDE.id, "u2", "u3", "u2", "u3"]
    assert changed(step, swap({"u2": 2, "u3": 2}, {"u3": 2})) == ["u1", "u3", "u3", "u1"]
    assert changed(step, swap({"u2": 1}, {})) == ["u1", "u3", "u1", "u2", "u3"]


def test_a_step_without_what_is_changed_is_not_run() -> None:
    assert changed([TANH], swap({"u1": 1}, {WIDE.id: 1})) == []
    assert changed([PRODUCT], swap({"u1": 1}, {"unknown": 1})) == []
    assert changed([PRODUCT], swap({"u1": 1}, {WIDE.id: 1}), timer="graph") == []


def test_a_graph_holds_numbers_of_the_host_but_no_copies_from_it() -> None:
    number = replace(storage(1), device="cpu")
    add = replace(SUM, storages=(storage(60), number))
    assert can_be_captured(add)
    assert not can_be_captured(replace(add, op="aten::copy_"))
    assert not can_be_captured(replace(add, storages=(storage(60), replace(storage(60), device="cpu"))))


def planned(fault: str) -> ProofPlan:
    from warplens.proof.experiments import make_proof_plan

    path = FAULTS / f"{fault}.before.json.gz"
    profile = warplens.open(path, cache=False)
    assert isinstance(profile, warplens.Profile)
    assert profile.model_of_gains is not None
    return make_proof_plan(profile.workspace, path, profile.findings(), profile.model_of_gains.members)


def test_a_step_that_keeps_the_gpu_busy_is_planned_whole() -> None:
    """Three products, each followed by twelve elementwise ops, which become one call."""
    plan = planned("pointwise_chain")
    variant = next(one for one in plan.experiments if one.finding == "WL205").variants[0]
    assert variant.whole_step is not None
    units = {own.id: own for own in plan.replay.units}
    before, after = (units[side[0].unit] for side in (variant.whole_step.before, variant.whole_step.after))
    recorded, compiled = (from_text(own.arguments[1].value).in_order() for own in (before, after))
    assert before.id == BEFORE
    assert len(recorded) == 39
    assert [call.op for call in compiled].count("aten::mm") == 3
    assert [call.op for call in compiled].count("warplens::compiled_chain") == 3
    assert len(compiled) == 6
    assert ("sustained", {before.id, after.id}) in [(group.timer, group.units) for group in units_by_settings(plan)]


def test_a_step_that_waits_for_the_host_is_not() -> None:
    plan = planned("item_sync")
    assert all(variant.whole_step is None for one in plan.experiments for variant in one.variants)


@pytest.mark.usefixtures("warm_runner")
def test_both_steps_run_and_their_difference_is_what_is_saved(tmp_path: Path) -> None:
    before = sequence_unit(BEFORE, SEQUENCE, [PRODUCT, SUM, TANH])
    after = sequence_unit("step.changed0", SEQUENCE, [WIDE, SUM, TANH])
    step = Swap((UnitCalls(before.id, 1.0),), (UnitCalls(after.id, 1.0),))
    variant = Variant("padded", (swap({"u1": 1}, {WIDE.id: 1}),), whole_step=step)
    result = (
        ran(tmp_path, experiment("WL201", variant), units=(PRODUCT, WIDE, before, after)).experiments[0].variants[0]
    )
    assert result.whole_step is not None
    assert result.whole_step.before.ns > 0 < result.whole_step.after.ns
    assert result.saved_ns == result.whole_step.saved_ns
    assert result.saved_alone_ns == sum(own.saved_ns for own in result.swaps)


@pytest.mark.usefixtures("warm_runner")
def test_a_step_that_cannot_run_is_noted_and_the_calls_alone_count(tmp_path: Path) -> None:
    broken = sequence_unit(BEFORE, SEQUENCE, [PRODUCT, replace(SUM, op="aten::no_such_op")])
    after = sequence_unit("step.changed0", SEQUENCE, [WIDE])
    step = Swap((UnitCalls(broken.id, 1.0),), (UnitCalls(after.id, 1.0),))
    variant = Variant("padded", (swap({"u1": 1}, {WIDE.id: 1}),), whole_step=step)
    result = (
        ran(tmp_path, experiment("WL201", variant), units=(PRODUCT, WIDE, broken, after)).experiments[0].variants[0]
    )
    assert result.whole_step is None
    assert "no_such_op" in result.notes[0].removeprefix("not run within the whole step: ")
    assert result.saved_ns == result.saved_alone_ns


def test_less_saved_in_the_step_than_alone_is_said() -> None:
    path = FAULTS / "pointwise_chain.before.json.gz"
    profile = warplens.open(path, cache=False)
    assert isinstance(profile, warplens.Profile)
    finding = next(one for one in profile.findings() if one.code == "WL205")
    alone = SwapResult(Side(3.4e6), Side(0.3e6), traced_ns=3.4e6)
    step = SwapResult(Side(7.6e6), Side(5.0e6), traced_ns=7.6e6)

    def proved(whole_step: SwapResult | None) -> tuple[float, str]:
        best = VariantResult("torch.compile", DONE, (alone,), whole_step=whole_step)
        result = ExperimentResult("WL205", finding.place, finding.title, (best,), traced_ns=3.4e6)
        proof = ProofResult("", "", "", "NVIDIA H200", (result,))
        (found,) = with_proofs([finding], proof, profile.model_of_gains)
        assert found.proved_gain_ms is not None
        return found.proved_gain_ms, found.proof

    gain_ms, text = proved(step)
    assert gain_ms == pytest.approx(2.6, rel=0.03)
    assert "7.60 → 5.00 ms for all calls a step, one after the other (less is saved than alone" in text
    gain_ms, text = proved(None)
    assert gain_ms == pytest.approx(3.1, rel=0.03)
    assert "all calls" not in text

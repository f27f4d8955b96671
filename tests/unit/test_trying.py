"""Fixes that are switched on and off in turns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import warm_python
import warplens
from support import ROOT
from warplens.errors import UsageError, WarplensError
from warplens.proof.trying.fixes import ChannelsLast, FusedOptimizers, Switches, fixes_for
from warplens.proof.trying.trial import SETTLING_STEPS, DeviceHooks, Trial, TrialOver, TrialPlan, result_of
from warplens.proof.trying.watched import begin_watching, take_watched


class FakeFix:
    """A step takes 3 ms with it, 5 ms without; the machine grows slower all the while."""

    name = "a fix"

    def __init__(self) -> None:
        self.is_on = False
        self.switches: list[bool] = []
        self.steps = 0

    def switch(self, on: bool) -> None:
        self.is_on = on
        self.switches.append(on)


def run(plan: TrialPlan, fix: FakeFix, drift: float = 0.0) -> Trial:
    now = 0.0
    trial = Trial([fix], plan, DeviceHooks(clock=lambda: now))
    for number in range(10_000):
        now += (0.003 if fix.is_on else 0.005) + drift * number
        warplens.watch("loss", float(number))
        try:
            trial.step()
        except TrialOver:
            return trial
    raise AssertionError("it never ends")


def test_turns_alternate_and_drift_favours_neither_side() -> None:
    plan, fix = TrialPlan(steps=4, rounds=4, warm_up=3), FakeFix()
    trial = run(plan, fix, drift=1e-6)
    assert [turn.is_on for turn in trial.turns] == [False, True, True, False, False, True, True, False]
    assert fix.switches == [True, False, True, False]
    assert trial.steps_seen == plan.all_steps + 1
    result = result_of(trial.turns, [fix], "cpu")
    assert result is not None
    assert result.gain_ms == pytest.approx(2.0, abs=0.02)
    assert result.low_ms < result.gain_ms < result.high_ms
    assert (result.rounds, result.fixes) == (4, ("a fix",))


def test_only_timed_steps_count() -> None:
    begin_watching()
    plan = TrialPlan(steps=2, rounds=1, warm_up=3)
    trial = run(plan, FakeFix())
    first = plan.warm_up + SETTLING_STEPS
    assert trial.turns[0].watched == {"loss": first + 0.5}
    assert [round(turn.step_ms, 6) for turn in trial.turns] == [5.0, 3.0]
    assert take_watched() != {}  # the step after the last turn


def test_a_program_that_ends_too_soon_has_no_result_or_fewer_rounds() -> None:
    trial = Trial([FakeFix()], TrialPlan(steps=2, rounds=3, warm_up=1), DeviceHooks())
    for _ in range(4):
        trial.step()
    assert result_of(trial.turns, [], "cpu") is None
    for _ in range(10):
        trial.step()
    result = result_of(trial.turns, [], "cpu")
    assert result is not None
    assert result.rounds == 1


def test_switches_of_pytorch_go_on_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)
    (fix,) = fixes_for(["WL203", "WL203"], torch)
    assert isinstance(fix, Switches)
    for on in (True, False, True, False):
        fix.switch(on)
        assert torch.backends.cudnn.benchmark is on


def test_an_optimizer_keeps_its_state_whichever_step_it_takes() -> None:
    def trained(switching: bool) -> tuple[Any, list[Any]]:
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 3)
        optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
        fix, seen = FusedOptimizers(torch), []
        for number in range(6):
            if switching:
                fix.switch(number % 2 == 1)
            seen.append((optimizer.param_groups[0]["fused"], optimizer.param_groups[0]["foreach"]))
            optimizer.zero_grad()
            model(torch.ones(2, 4)).square().sum().backward()
            optimizer.step()
        if switching:
            fix.switch(False)
            seen.append((optimizer.param_groups[0]["fused"], optimizer.param_groups[0]["foreach"]))
        return model.weight.detach(), seen

    (plain, _), (switched, seen) = trained(False), trained(True)
    torch.testing.assert_close(plain, switched)
    assert seen == [(None, True), (True, False)] * 3 + [(None, True)]


def test_weights_of_convolutions_change_their_layout_and_back() -> None:
    layer = torch.nn.Conv2d(3, 8, 3)
    before = layer.weight.detach().clone()
    fix = ChannelsLast(torch)
    fix.switch(True)
    assert layer.weight.is_contiguous(memory_format=torch.channels_last)
    assert layer(torch.randn(2, 3, 9, 9)).is_contiguous(memory_format=torch.channels_last)
    fix.switch(False)
    assert layer.weight.is_contiguous()
    assert torch.equal(layer.weight, before)


def test_what_cannot_be_switched_is_refused_before_anything_runs() -> None:
    with pytest.raises(UsageError, match="WL201 cannot be tried: sizes are part of the program"):
        fixes_for(["WL202", "WL201"], torch)

    class Impossible(FakeFix):
        def switch(self, on: bool) -> None:
            raise WarplensError("there is nothing to switch")

    trial = Trial([Impossible()], TrialPlan(steps=1, rounds=1, warm_up=1), DeviceHooks())
    with pytest.raises(TrialOver):
        for _ in range(9):
            trial.step()
    assert str(trial.refusal) == "there is nothing to switch"


PROGRAM = """
import sys, torch, warplens
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.Adam(model.parameters())
for step in range(1000):
    optimizer.zero_grad()
    loss = model(torch.ones(2, 4)).square().mean()
    loss.backward()
    warplens.watch("loss", loss)
    print("step", optimizer.param_groups[0]["fused"], file=sys.stderr)
    if sys.argv[1:] and step == int(sys.argv[1]):
        raise ValueError("boom")
    optimizer.step()
print("the end")
"""


def tried(folder: Path, *words: str) -> Any:
    (folder / "train.py").write_text(PROGRAM)
    command = ["-m", "warplens", "try", "--fix", "wl208", "--steps", "2", "--rounds", "2", *words]
    return warm_python.run(command, folder, {"PYTHONPATH": str(ROOT / "src"), "CUDA_VISIBLE_DEVICES": ""})


def test_a_program_runs_until_its_turns_are_done(tmp_path: Path) -> None:
    done = tried(tmp_path, "--json", "train.py")
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)
    assert (result["rounds"], result["fixes"], result["device"]) == (2, ["fused optimizer"], "cpu")
    assert set(result["watched"]) == {"loss"}
    fused = [line.split()[1] for line in done.stderr.splitlines() if line.startswith("step")]
    assert fused == ["None"] * 9 + ["True"] * 8 + ["None"] * 5
    assert "the end" not in done.stdout


def test_a_failing_variant_ends_with_its_traceback_and_keeps_the_rounds_before(tmp_path: Path) -> None:
    done = tried(tmp_path, "train.py", "14")
    assert done.returncode == 1
    assert "ValueError: boom" in done.stderr
    assert "note: the program crashed while the fixes were on after 1 round of 2" in done.stderr
    assert "in 1 round of 2 steps" in done.stdout

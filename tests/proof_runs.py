"""Proof plans run on a CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay_plans import plan as replay_plan
from warplens.proof import plan_file, result_file
from warplens.proof.plan_file import Experiment, ProofPlan, Variant
from warplens.proof.running.supervisor import run_proof
from warplens.replay.plan_file import Unit
from warplens.replay.running.options import Progress, RunOptions

OPTIONS = RunOptions(device="cpu", min_repeats=2, max_repeats=2)


def experiment(code: str, *variants: Variant) -> Experiment:
    return Experiment(code, "train.py:3", "some title", variants, traced_ns=1e6)


def ran(folder: Path, *experiments: Experiment, units: tuple[Unit, ...]) -> result_file.ProofResult:
    path = folder / "proof.plan.json"
    plan_file.save(path, ProofPlan(replay_plan(*units), experiments))
    seen: list[Progress] = []
    result = run_proof(path, folder / "proof.json", OPTIONS, seen.append)
    assert seen[-1].share == pytest.approx(1.0)
    assert result_file.load(folder / "proof.json") == result
    assert not (folder / "proof.json.runs").exists()
    return result

"""Proof plans run on a CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay_plans import plan as replay_plan
from warplens_run.formats import proof_plan as plan_file
from warplens_run.formats import proof_result as result_file
from warplens_run.formats.proof_plan import Experiment, ProofPlan, Variant
from warplens_run.formats.replay_plan import Unit
from warplens_run.proof.supervisor import run_proof
from warplens_run.replay.options import Progress, RunOptions

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

"""Plans that Warplens 0.1.0 wrote, shortened. Bundles, results, facts and kernel traces of it are among the samples."""

from __future__ import annotations

from pathlib import Path

from warplens.cli import main
from warplens_run.formats import proof_plan, replay_plan

DATA = Path(__file__).with_name("data")


def test_a_replay_plan_opens_and_a_unit_of_it_becomes_a_script(tmp_path: Path) -> None:
    path, script = DATA / "replay_plan_0.1.0.json", tmp_path / "unit.py"
    plan = replay_plan.load(path)
    assert plan.id == "20a038e66e9b9e08"
    assert [(unit.op, unit.status) for unit in plan.units] == [
        ("aten::mm", "ready"), ("aten::_log_softmax", "ready"), ("aten::fill_", "ready"),
    ]  # fmt: skip
    assert main(["replay", "script", str(path), "--unit", plan.units[0].id, "-o", str(script)]) == 0
    compile(script.read_text(), script, "exec")


def test_a_proof_plan_opens() -> None:
    plan = proof_plan.load(DATA / "proof_plan_0.1.0.json")
    [experiment] = plan.experiments
    assert (experiment.finding, experiment.variants[0].name) == ("WL202", "TF32")
    assert experiment.variants[0].settings["get_float32_matmul_precision"] == "high"
    assert [unit.id for unit in plan.replay.units] == ["u1", "u1.tf32.1"]

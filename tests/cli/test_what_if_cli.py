"""`warplens what-if` on the command line."""

from __future__ import annotations

import json

import pytest

from support import ROOT
from warplens.cli import main

pytestmark = pytest.mark.usefixtures("one_cache")
TRACE = str(ROOT / "samples" / "kineto" / "gpt2_train_step.json.gz")
Captured = pytest.CaptureFixture[str]


def test_changes_are_simulated_one_by_one_and_together(capsys: Captured) -> None:
    assert main(["what-if", TRACE, "--scale", "category=GEMM", "0.5", "--host", "2", "--graph", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["fixes"] for row in rows] == [
        "", "category=GEMM × 0.5", "host × 2", "graph", "category=GEMM × 0.5; host × 2; graph",
    ]  # fmt: skip
    assert list(rows[0]) == ["fixes", "step_ms", "gain_ms", "low_ms", "high_ms", "step_low_ms", "step_high_ms"]
    assert rows[1]["gain_ms"] > 0 > rows[2]["gain_ms"]


def test_findings_are_fixed_one_after_the_other_or_as_chosen(capsys: Captured) -> None:
    assert main(["what-if", TRACE, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert main(["what-if", TRACE, "--fix", "all", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == rows
    assert [len(row["fixes"].split("; ")) for row in rows[1:]] == list(range(1, len(rows)))
    assert main(["what-if", TRACE]) == 0
    first, second = (row["fixes"] for row in rows[1:3])
    shown = [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()]
    assert shown[3:5] == [first, f"+ {second.removeprefix(f'{first}; ')}"]
    assert main(["what-if", TRACE, "--fix", rows[1]["fixes"], "--graph", "--json"]) == 0
    chosen = json.loads(capsys.readouterr().out)
    assert [row["fixes"] for row in chosen] == ["", rows[1]["fixes"], "graph", f"{rows[1]['fixes']}; graph"]
    assert chosen[1] == rows[1]


def test_the_step_without_the_profiler_is_what_the_changes_are_compared_with(capsys: Captured) -> None:
    assert main(["show", TRACE, "bounds", "--json"]) == 0
    recorded = json.loads(capsys.readouterr().out)[0]["step_ms"]
    assert main(["what-if", TRACE, "--step-time", f"{1.2 * recorded:.3f}ms", "--graph", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["step_ms"] == pytest.approx(1.2 * recorded, rel=0.01)


@pytest.mark.parametrize(("words", "message"), [
    (["--fix", "WL999"], "no finding WL999 with a change that can be simulated"),
    (["--scale", "gemm", "0.5"], "not a valid selection: 'gemm'"),
    (["--scale", "op=aten::mm", "half"], "not a valid factor: 'half'"),
    (["--host", "half"], "not a valid factor: 'half'"),
    (["--host", "nan"], "not a valid factor: nan"),
    (["--host=-1"], "not a valid factor: -1"),
    (["--scale", "op=no such op", "1"], "no op matches 'no such op'"),
    (["--graph", "--step-time", "20"], "'20' is not a duration"),
])  # fmt: skip
def test_a_change_that_cannot_be_made_is_one_line(words: list[str], message: str, capsys: Captured) -> None:
    assert main(["what-if", TRACE, *words]) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")


def test_a_profile_without_times_has_no_step_to_simulate(capsys: Captured) -> None:
    path = ROOT / "samples" / "proton" / "scopes.hatchet.gz"
    assert main(["what-if", str(path), "--graph"]) == 1
    assert "timeline" in capsys.readouterr().err

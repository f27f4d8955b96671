"""The Answer: one record for everything that can be opened. That no screen contradicts it is in test_screens_agree."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import warplens
from support import ROOT, RunInside
from warplens.model.answer import CERTAINTIES
from warplens.outputs.summary import render_summary

SAMPLES = ROOT / "samples"
KINDS = {
    "kineto/gpt2_train_step.json.gz": "trace",
    "ranks/nccl4": "job",
    "memory/gpt_expandable_oom.pickle.gz": "memory",
    "proton/scopes.hatchet.gz": "sums",
    "kernels/slow_softmax.facts.json": "kernel",
    "kernels/slow_softmax.wkt": "kernel",
}


@pytest.mark.parametrize("path", KINDS)
def test_every_kind_has_an_answer_and_its_outputs_have_the_same(
    path: str, tmp_path: Path, run_inside: RunInside
) -> None:
    opened = warplens.open(SAMPLES / path)
    answer = opened.answer()
    assert (answer.kind, answer.verdict) == (KINDS[path], opened.verdict())
    assert answer.certainty in CERTAINTIES
    text = run_inside("report", SAMPLES / path, "-o", tmp_path / "x.json", "-o", tmp_path / "x.md").stdout
    written = json.loads((tmp_path / "x.json").read_text())["answer"]
    assert written["verdict"] == answer.verdict
    assert len(written["findings"]) == len(answer.findings)
    assert answer.verdict[:40] in text
    assert answer.verdict.split()[0] in (tmp_path / "x.md").read_text()


def test_a_comparison_has_an_answer_too() -> None:
    path = SAMPLES / "faults" / "launch_bound.before.json.gz"
    assert warplens.diff(path, path).answer().kind == "diff"


def test_the_first_screen_fits_a_terminal() -> None:
    profile = warplens.open(SAMPLES / "kineto" / "gpt2_train_step.json.gz")
    lines = render_summary(profile.document(), width=100).lines
    assert len(lines) <= 40
    assert max(len(text) for text, _ in lines) <= 100


def test_proposed_commands_can_be_run_as_they_stand(run_inside: RunInside) -> None:
    for path in (
        "faults/launch_bound.before.json.gz",
        "memory/gpt_expandable_oom.pickle.gz",
        "proton/scopes.hatchet.gz",
    ):
        for command in warplens.open(SAMPLES / path).answer().next:
            name, *words = command.split()
            assert name == "warplens"
            assert run_inside(*words).returncode == 0, command

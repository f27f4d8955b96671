"""The Answer: one record for everything that can be opened. That no screen contradicts it is in test_screens_agree."""

from __future__ import annotations

import json
import re
from math import inf
from pathlib import Path

import pytest

import warplens
from support import ROOT, RunInside, real_traces
from warplens.advice.gains import kind_of_change
from warplens.cli.traces.advise import advice_text
from warplens.model.answer import CANNOT_TELL, CERTAINTIES, Answer
from warplens.outputs.answer_text import finding_text, part_text, step_text
from warplens.outputs.markdown import escape, markdown_bytes
from warplens.outputs.summary import render_summary

SAMPLES = ROOT / "samples"
JOBS = ("fsdp4_gpu", "gloo4", "nccl4", "pp4_uneven_stage")
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


def test_markdown_has_the_whole_answer() -> None:
    opened = warplens.open(SAMPLES / "kineto" / "gpt2_train_compiled.json.gz")
    assert isinstance(opened, warplens.Profile)
    answer, page = opened.answer(), markdown_bytes(opened.document()).decode()
    assert answer.clock is not None and answer.limits
    texts = [answer.verdict, step_text(answer.clock), *answer.warnings, *answer.limits]
    texts += [finding_text(finding) for finding in answer.findings] + [part_text(part) for part in answer.parts]
    for text in texts:
        assert escape(text) in page
    assert all(command in page for command in answer.next)


def test_a_comparison_has_an_answer_too() -> None:
    path = SAMPLES / "faults" / "launch_bound.before.json.gz"
    assert warplens.diff(path, path).answer().kind == "diff"


FAULTS = sorted((SAMPLES / "faults").glob("*.json.gz"))


@pytest.fixture(scope="module", params=[*real_traces(), *FAULTS], ids=lambda path: f"{path.parent.name}/{path.name}")
def profile(request: pytest.FixtureRequest) -> warplens.Profile:
    opened = warplens.open(request.param)
    if isinstance(opened, warplens.Profile):
        return opened
    pytest.skip("no timeline")


@pytest.fixture
def answer(profile: warplens.Profile) -> Answer:
    return profile.answer()


def test_no_gain_exceeds_what_its_kind_of_change_saves_at_most(profile: warplens.Profile) -> None:
    saved = {saving.of: saving.at_most_ms for saving in profile.answer().savings}
    for finding in profile.findings():
        assert finding.gain_low_ms <= finding.gain_ms <= finding.gain_high_ms
        assert finding.gain_high_ms <= saved.get(kind_of_change(finding), inf), finding


def test_every_output_prints_the_same_gains(profile: warplens.Profile) -> None:
    answer, table = profile.answer(), profile.table("findings").to_dicts()
    advice = " ".join(" ".join(text.split()) for text, _ in advice_text(profile, 120).lines)
    assert [row["code"] for row in table] == [finding.code for finding in answer.findings]
    assert [row["gain_ms"] for row in table] == pytest.approx(
        [finding.gain_ms for finding in answer.findings], abs=1e-6
    )
    for row, finding in zip(table, answer.findings, strict=True):
        assert finding.gain in advice
        assert not row["bound"] or row["gain_ms"] == row["gain_high_ms"]


def test_the_verdict_has_its_word_of_certainty(answer: Answer) -> None:
    assert answer.certainty in answer.verdict.lower() or answer.certainty == CANNOT_TELL
    assert not re.search(r"\((recorded|given)\)", answer.verdict)


@pytest.mark.parametrize("path", ["proton/scopes.hatchet.gz", "replay/gpt2_compiled.result.json.gz"])
def test_sums_and_replays_say_that_they_are_measured(path: str) -> None:
    assert "(measured)" in warplens.open(SAMPLES / path).verdict()


@pytest.mark.parametrize("path", ["kineto/gpt2_train_step.json.gz", *(f"ranks/{name}" for name in JOBS)])
def test_the_first_screen_fits_a_terminal(path: str) -> None:
    profile = warplens.open(SAMPLES / path)
    lines = render_summary(profile.document(), width=100).lines
    assert len(lines) <= 40
    assert max(len(text) for text, _ in lines) <= 100


def test_one_rank_of_a_job_does_not_show_what_of_its_communication_is_waiting() -> None:
    job = SAMPLES / "ranks" / "fsdp4_gpu"
    note, *_ = warplens.open(job / "fsdp4_gpu.rank1.json.gz").answer().limits
    assert note == (
        "exposed communication, 85 % of the step, is transfers and waits for other ranks; one rank does not show how "
        "much of each: record every rank, and open their folder"
    )
    alone = warplens.open(SAMPLES / "kineto" / "gpt2_train_step.json.gz")
    for answer in (warplens.open(job).answer(), alone.answer()):
        assert "record every rank" not in " ".join(answer.limits)


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

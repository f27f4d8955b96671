"""The Answer: one record for everything that can be opened, which no screen contradicts."""

from __future__ import annotations

import json
import re
from math import inf
from pathlib import Path

import pytest

import warplens
from support import ROOT, RunInside, real_traces
from warplens.advice.gains import kind_of_change
from warplens.cli.explaining.topics import TOPICS
from warplens.cli.traces.advise import advice_text
from warplens.model.answer import CANNOT_TELL, CERTAINTIES, Answer
from warplens.model.clock import SOURCES
from warplens.outputs.answer_text import finding_text, part_text, step_text
from warplens.outputs.markdown import escape, markdown_bytes
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
FAULTS = sorted((SAMPLES / "faults").glob("*.json.gz"))


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


@pytest.fixture(scope="module", params=[*real_traces(), *FAULTS], ids=lambda path: f"{path.parent.name}/{path.name}")
def profile(request: pytest.FixtureRequest) -> warplens.Profile:
    opened = warplens.open(request.param)
    if isinstance(opened, warplens.Profile):
        return opened
    pytest.skip("no timeline")


@pytest.fixture
def answer(profile: warplens.Profile) -> Answer:
    return profile.answer()


def test_no_screen_contradicts_itself(answer: Answer) -> None:
    clock = answer.clock
    if clock is None:
        assert not answer.parts and not answer.savings
        return
    assert sum(part.time_ms for part in answer.parts) == pytest.approx(clock.step_ms, rel=1e-6)
    assert clock.low_ms <= clock.step_ms <= clock.high_ms
    for saving in answer.savings:
        assert saving.at_most_ms <= clock.high_ms * (1 + 1e-9)
    for finding in answer.findings:
        assert finding.high_ms is None or finding.high_ms <= clock.high_ms * (1 + 1e-9), finding
    named = re.search(r"-bound(?:: |\. )(.+?) takes? (\S+) ", answer.verdict)
    if named is not None:
        first = answer.largest[0]
        assert named[2] in clock.of_step(first.time_ms), "the first row of the table is named"
        assert first.part != "GPU busy" or named[1] in (first.cause, "Kernels of no known category")
    of_step = re.search(r" of ([\d.]+) ms a step \(", answer.verdict)
    if of_step is not None:
        assert f"{of_step[1]} ms" == clock.of_step(clock.step_ms)


def test_every_gain_is_an_interval_or_a_bound(answer: Answer) -> None:
    for finding in answer.findings:
        words = r"|≤ .+|[\d.,]+ \S+ \([\d.,]+ to [\d.,]+\)|no gain in step time \(GPU-side .+\)"
        assert re.fullmatch(words, finding.gain), finding.gain
        assert finding.certainty in CERTAINTIES
        if finding.low_ms is not None and finding.gain_ms:
            assert finding.high_ms is not None and finding.low_ms < finding.high_ms, "an interval has a width"


def test_no_gain_exceeds_what_its_kind_of_change_saves_at_most(profile: warplens.Profile) -> None:
    saved = {saving.of: saving.at_most_ms for saving in profile.answer().savings}
    for finding in profile.findings():
        assert finding.gain_low_ms <= finding.gain_ms <= finding.gain_high_ms
        assert finding.gain_high_ms <= saved.get(kind_of_change(finding), inf), finding


def test_every_output_prints_the_same_gains(profile: warplens.Profile) -> None:
    answer, table = profile.answer(), profile.table("findings").to_dicts()
    advice = " ".join(" ".join(text.split()) for text, _ in advice_text(profile, profile.findings(), 120).lines)
    assert [(row["code"], row["gain_ms"]) for row in table] == [
        (finding.code, round(finding.gain_ms, 6)) for finding in answer.findings
    ]
    for row, finding in zip(table, answer.findings, strict=True):
        assert finding.gain in advice
        assert not row["bound"] or row["gain_ms"] == row["gain_high_ms"]


def test_explain_knows_what_the_answer_prints(answer: Answer) -> None:
    words = {part.part for part in answer.parts} | {part.cause for part in answer.parts}
    words |= {answer.certainty} | ({answer.clock.source} if answer.clock else set())
    words |= {finding.code for finding in answer.findings}
    for word in words:
        assert any(line for topic in TOPICS for line in topic(word)), word


def test_the_verdict_has_its_word_of_certainty(answer: Answer) -> None:
    assert answer.certainty in answer.verdict.lower() or answer.certainty == CANNOT_TELL
    assert not re.search(r"\((recorded|given)\)", answer.verdict)


@pytest.mark.parametrize("path", ["proton/scopes.hatchet.gz", "replay/gpt2_compiled.result.json.gz"])
def test_sums_and_replays_say_that_they_are_measured(path: str) -> None:
    assert "(measured)" in warplens.open(SAMPLES / path).verdict()


def test_what_cannot_be_told_says_so_in_the_verdict(answer: Answer) -> None:
    if answer.certainty == CANNOT_TELL:
        assert "annot tell" in answer.verdict or answer.clock is None
    assert answer.clock is None or answer.clock.source in SOURCES


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

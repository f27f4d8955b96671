"""`--phase`, and the tables of served models, on the command line."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from support import ROOT, RunInside
from warplens.cli import main

pytestmark = pytest.mark.usefixtures("one_cache")
SAMPLE = str(ROOT / "samples" / "serving" / "bloom_tokens.json.gz")


def rows(run_inside: RunInside, *words: str) -> list[dict[str, object]]:
    done = run_inside(*words, "--json")
    assert done.returncode == 0, done.stderr
    parsed: list[dict[str, object]] = json.loads(done.stdout)
    return parsed


def test_prefill_against_decode_is_one_command(run_inside: RunInside) -> None:
    phases = rows(run_inside, "show", SAMPLE, "serving_phases")
    assert [(row["phase"], row["iterations"], row["prefill_tokens"]) for row in phases] == [
        ("prefill", 1, 32),
        ("decode", 3, 0),
        ("all", 4, 32),
    ]


def test_every_verb_of_a_trace_takes_a_phase(run_inside: RunInside) -> None:
    whole = sum(row["count"] for row in rows(run_inside, "show", SAMPLE, "kernels"))  # type: ignore[misc]
    parts = 0
    for phase in ("prefill", "decode"):
        [row] = rows(run_inside, "sql", SAMPLE, "select sum(count) as n from kernels", "--phase", phase)
        parts += row["n"]  # type: ignore[operator]
    assert 0 < whole - parts < 50  # the few events before the first pass
    for words in (["report", SAMPLE], ["tree", SAMPLE], ["advise", SAMPLE], ["diff", SAMPLE, SAMPLE]):
        done = run_inside(*words, "--phase", "decode")
        assert done.returncode == 0, done.stderr
    done = run_inside("report", SAMPLE, "--phase", "decode")
    assert "only iterations that are decode, 3 of 4" in " ".join(done.stdout.split())


def test_what_is_proposed_next_is_of_the_same_phase(run_inside: RunInside) -> None:
    done = run_inside("report", SAMPLE, "--phase", "decode")
    assert "token_latency --phase decode" in done.stdout


@pytest.mark.parametrize("topic", ["iterations", "serving_phases.mbu_percent", "slow_iterations", "MBU", "host busy"])
def test_words_of_serving_are_explained(run_inside: RunInside, topic: str) -> None:
    assert run_inside("explain", topic).stdout


def test_a_phase_that_is_not_there_is_an_error_with_a_hint(run_inside: RunInside) -> None:
    done = run_inside("show", SAMPLE, "kernels", "--phase", "mixed")
    assert done.returncode == 2
    assert "no iteration of this trace is mixed" in done.stderr
    assert "decode and prefill" in done.stderr


def test_the_commands_of_the_guide_print_what_it_shows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "docs" / "guides" / "serving.md").read_text("utf-8")
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("COLUMNS", raising=False)
    commands = re.findall(r"^warplens (.*samples/.+)$", text, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["report", *["show"] * 3, "advise", *["show"] * 2]
    for command in commands:
        assert main(shlex.split(command)) == 0
        printed = capsys.readouterr().out.strip()
        if command.startswith("show"):
            assert printed in text, command
        for title in re.findall(r"^\d\. (WL\d+)  (.*)$", printed, re.MULTILINE):
            assert " ".join(title) in text
    verdict = re.findall(r"\*(Decode .*?)\*", " ".join(text.split()))[0]
    assert main(["advise", *shlex.split(commands[0])[1:]]) == 0
    assert verdict in " ".join(capsys.readouterr().out.split())


def test_the_made_up_sample_is_what_its_script_makes() -> None:
    import gzip
    import runpy

    made = runpy.run_path(str(ROOT / "samples" / "serving" / "make_served.py"))["served"]()
    with gzip.open(ROOT / "samples" / "serving" / "served.json.gz") as stream:
        assert json.load(stream) == json.loads(json.dumps(made))

"""`--phase`, and the tables of served models, on the command line."""

from __future__ import annotations

import json

from support import ROOT, RunInside

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


def test_a_phase_that_is_not_there_is_an_error_with_a_hint(run_inside: RunInside) -> None:
    done = run_inside("show", SAMPLE, "kernels", "--phase", "mixed")
    assert done.returncode == 2
    assert "no iteration of this trace is mixed" in done.stderr
    assert "decode and prefill" in done.stderr

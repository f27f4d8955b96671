"""`warplens prove` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support import ROOT
from warplens.cli import main

TRACE = str(ROOT / "samples" / "faults" / "odd_vocab.before.json.gz")
HEALTHY = str(ROOT / "samples" / "faults" / "healthy_infer.after.json.gz")
Captured = pytest.CaptureFixture[str]


def test_a_plan_says_what_it_will_run_and_what_not(tmp_path: Path, capsys: Captured) -> None:
    plan = tmp_path / "proof.plan.json"
    assert main(["prove", "plan", TRACE, "-o", str(plan)]) == 0
    printed = capsys.readouterr()
    assert "    padded 32001 to 32064: 3 changes to run" in printed.out.splitlines()
    assert "not run: how many blocks a kernel has is decided by its source" in printed.out
    assert f"next, on a host with a GPU and PyTorch: warplens prove run {plan}" in printed.err
    assert json.loads(plan.read_text())["format"] == "warplens-proof-plan"
    assert main(["prove", "plan", TRACE, "-o", str(plan)]) == 2
    assert "exists" in capsys.readouterr().err


def test_a_healthy_trace_has_nothing_to_prove(tmp_path: Path, capsys: Captured) -> None:
    assert main(["prove", HEALTHY, "-o", str(tmp_path / "proof.json"), "--device", "cpu"]) == 0
    assert capsys.readouterr().out == "no findings: there is nothing to prove\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("words", "message"), [
    (["prove", "run", "{plan}"], "not a proof plan"),
    (["prove", "show", "{plan}"], "not a proof"),
    (["advise", TRACE, "--proof", "{plan}"], "not a proof"),
])  # fmt: skip
def test_another_file_is_one_line(words: list[str], message: str, tmp_path: Path, capsys: Captured) -> None:
    other = tmp_path / "other.json"
    other.write_text("{}")
    assert main([word.format(plan=other) for word in words]) == 1
    assert message in capsys.readouterr().err


def test_what_was_measured_is_shown_as_text_and_rows(tmp_path: Path, capsys: Captured) -> None:
    from warplens.proof import result_file
    from warplens.proof.result_file import Difference, ExperimentResult, ProofResult, Side, SwapResult, VariantResult

    swaps = (SwapResult(Side(15.4e6, 5.1), Side(2.94e6, 1.0), Difference(False, 0.5, 1e-3)),)
    variants = (
        VariantResult("TF32", "done", swaps),
        VariantResult("bf16", "failed", failures=("aten::mm: no memory",)),
    )
    result = ProofResult("id", "trace.json", "hash", "NVIDIA H200", (
        ExperimentResult("WL202", "train.py:3", "fp32 products", variants),
        ExperimentResult("WL301", "", "a sync", reason="it is simulated"),
    ))  # fmt: skip
    path = tmp_path / "proof.json"
    result_file.save(path, result)
    assert main(["prove", "show", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "on NVIDIA H200, per step",
        "WL202  fp32 products",
        "    TF32: 15.400 → 2.940 ms, 5.1 → 1 J, outputs differ by up to 0.001 of the largest",
        "    bf16: could not be run",
        "        failed: aten::mm: no memory",
        "WL301  a sync",
        "    not run: it is simulated",
    ]
    assert main(["prove", "show", str(path), "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["gpu_ms_before"], first["joules_after"], first["largest_difference"]) == (15.4, 1.0, 1e-3)
    assert (second["status"], second["gpu_ms_after"]) == ("failed", None)


def test_a_plan_or_a_proof_is_not_a_profile(tmp_path: Path, capsys: Captured) -> None:
    for name, words in (
        ("warplens-proof-plan", "a proof plan, not a profile"),
        ("warplens-proof", "a proof, not a profile"),
    ):
        path = tmp_path / "file.json"
        path.write_text(json.dumps({"format": name}))
        assert main(["report", str(path)]) == 1
        assert words in capsys.readouterr().err

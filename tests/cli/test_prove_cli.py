"""`warplens prove` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import warplens
from support import ROOT
from warplens.cli import main
from warplens_run.formats.proof_result import DONE, ExperimentResult, ProofResult, Side, SwapResult, VariantResult, save

TRACE = str(ROOT / "samples" / "faults" / "odd_vocab.before.json.gz")
HEALTHY = str(ROOT / "samples" / "faults" / "healthy_infer.after.json.gz")
Captured = pytest.CaptureFixture[str]
pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")


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


@pytest.mark.parametrize(("after_ns", "said"), [(2e6, "10.9 ms (8.7 to 13.2)"), (14e6, "does not help")])
def test_a_report_says_what_was_proved(tmp_path: Path, capsys: Captured, after_ns: float, said: str) -> None:
    profile = warplens.open(TRACE)
    finding = next(one for one in profile.findings() if one.code == "WL201")
    swap = SwapResult(Side(13e6), Side(after_ns), traced_ns=12.9e6)
    variant = VariantResult("padded 32001 to 32064", DONE, (swap,))
    experiment = ExperimentResult("WL201", finding.place, finding.title, (variant,), traced_ns=12.9e6)
    save(tmp_path / "proof.json", ProofResult("", "", profile.meta.content_hash, "NVIDIA H200", (experiment,)))
    assert main(["report", TRACE, "--proof", str(tmp_path / "proof.json")]) == 0
    lines = capsys.readouterr().out.splitlines()
    (proved,) = (number for number, line in enumerate(lines) if line.startswith("       proved on NVIDIA H200: "))
    assert lines[proved].endswith(said)
    assert any("unaligned size 32001" in line for line in lines[:proved])


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
    from warplens_run.formats import proof_result as result_file
    from warplens_run.formats.proof_result import (
        Difference,
        ExperimentResult,
        ProofResult,
        Side,
        SwapResult,
        VariantResult,
    )

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


@pytest.fixture(scope="module")
def own_kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of a program that launches a Triton kernel with more threads than its tile has elements."""
    pytest.importorskip("triton")
    from launch_bundles import bundle, recorded, scale

    card = {"id": 0, "name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0, "numSms": 132}
    target = tmp_path_factory.mktemp("own_kernel") / "mine.warplens"
    return bundle(target, recorded(lambda: scale(num_warps=8)), devices=[card])


@pytest.mark.nightly
@pytest.mark.usefixtures("warm_compiler", "warm_runner")
def test_what_the_kernel_lab_suggests_is_planned_run_and_advised(
    own_kernel: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, proof = tmp_path / "proof.plan.json", tmp_path / "proof.json"
    assert main(["prove", "plan", str(own_kernel), "-o", str(plan), "--allow-source"]) == 0
    printed = capsys.readouterr()
    title = "WK110  scale_shift: the tile is too small or too large"
    lines = printed.out.splitlines()
    assert lines[lines.index(title) + 1] == "    num_warps 8 → 4: 1 change to run"
    assert printed.err.splitlines()[-1].endswith(f"warplens prove run {plan} --allow-source")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    words = ["prove", "run", str(plan), "-o", str(proof), "--device", "cpu", "--max-repeats", "2"]
    assert main(words) == 1
    assert "source" in capsys.readouterr().err
    assert main([*words, "--allow-source", "--fresh"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[lines.index(title) + 1].startswith("    num_warps 8 → 4: ")
    assert lines[lines.index(title) + 1].endswith("ms, outputs equal")
    assert main(["advise", str(own_kernel), "--proof", str(proof)]) == 0
    advice = " ".join(capsys.readouterr().out.split())
    assert title.replace("  ", " ") in advice
    assert "num_warps 8 → 4: outputs equal" in advice
    again = tmp_path / "again.plan.json"
    assert main(["prove", "plan", str(own_kernel), "--proof", str(proof), "-o", str(again)]) == 0
    assert "WK110" not in capsys.readouterr().out  # without leave to compile


def test_without_leave_to_run_sources_or_without_triton_a_plan_says_what_it_lacks(
    own_kernel: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["prove", "plan", str(own_kernel), "-o", str(tmp_path / "proof.plan.json"), "--force"]
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "note: suggestions of the kernel lab were not looked for: compiling runs the sources of the trace's Triton "
        "kernels, which --allow-source allows"
    )
    monkeypatch.setattr("warplens_lab.compiling.triton_version.PACKAGES", ())
    assert main([*words, "--allow-source"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("note: suggestions of the kernel lab were not looked for: compiling a kernel needs Triton")

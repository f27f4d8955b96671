"""Findings with what was measured of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import warplens
from support import ROOT
from warplens.model.finding import Finding
from warplens.proof.applying import with_proofs
from warplens_run.base.errors import UsageError
from warplens_run.formats import proof_result as result_file
from warplens_run.formats.proof_result import Difference, ExperimentResult, ProofResult, Side, SwapResult, VariantResult

TRACE = ROOT / "samples" / "faults" / "fp32_matmul.before.json.gz"
H200 = "NVIDIA H200"


def opened(**options: str) -> warplens.Profile:
    profile = warplens.open(TRACE, cache=False, **options)  # type: ignore[arg-type]
    assert isinstance(profile, warplens.Profile)
    return profile


def variant(
    name: str, before_ms: float, after_ms: float, *, relative: float = 0.0, joules: bool = True
) -> VariantResult:
    sides = (Side(ms * 1e6, ms / 4 if joules else None, ("aten::mm",)) for ms in (before_ms, after_ms))
    return VariantResult(name, "done", (SwapResult(*sides, Difference(relative == 0, 2 * relative, relative)),))


def proved(tmp_path: Path, *variants: VariantResult, device: str = H200, **facts: object) -> Finding:
    """The finding of fp32 products, with an experiment of these variants."""
    plain = opened()
    finding = next(one for one in plain.findings() if one.code == "WL202")
    result = ExperimentResult(finding.code, finding.place, finding.title, variants, traced_ns=14.7e6)
    proof = ProofResult("id", TRACE.name, plain.meta.content_hash, device, (replace(result, **facts),))  # type: ignore[arg-type]
    result_file.save(tmp_path / "proof.json", proof)
    return next(one for one in opened(proof=str(tmp_path / "proof.json")).findings() if one.code == "WL202")


def test_the_measured_times_go_into_the_step(tmp_path: Path) -> None:
    finding = proved(tmp_path, variant("TF32", 14.6, 2.6, relative=8e-4), variant("bf16", 14.6, 4.0))
    step = opened().clock
    assert finding.proved_gain_ms == pytest.approx(12.0, rel=0.02)
    assert finding.proved_gain_low_ms < finding.proved_gain_ms < finding.proved_gain_high_ms
    assert step is not None
    assert (finding.proved_gpu_ms_before, finding.proved_gpu_ms_after) == (14.6, 2.6)
    assert (finding.proved_joules_before, finding.proved_joules_after) == (3.65, 0.65)
    assert (finding.largest_difference, finding.proved_on) == (8e-4, H200)
    assert finding.proof == (
        "measured on NVIDIA H200: TF32: 14.60 → 2.60 ms on the GPU, 12.0 ms (9.6 to 14.4) a step (simulated), "
        f"3.65 → 0.65 J ({3e3 / step.high_ms:.3g} to {3e3 / step.low_ms:.3g} kWh in 1,000 GPU hours); "
        "outputs differ by up to 0.0008 of the largest; bf16 14.60 → 4.00 ms on the GPU"
    )


def test_what_does_not_help_says_so_and_drops_in_rank(tmp_path: Path) -> None:
    finding = proved(tmp_path, variant("TF32", 14.6, 14.9, joules=False))
    assert finding.proof.startswith("does not help, measured on NVIDIA H200: TF32: 14.60 → 14.90 ms on the GPU")
    assert finding.proof.endswith("; outputs equal")
    assert (finding.proved_gain_ms, finding.known_gain_ms) == (0.0, 0.0)
    assert finding.gain_ms > 10
    assert finding.proved_joules_before is None


CASTS = ROOT / "samples" / "faults" / "cast_pingpong.before.json.gz"
"""Casts of 5.2 ms, all of which they are expected to save, and ops between them of 2.7 ms, which should save half."""


@pytest.mark.parametrize(("after_ms", "gain_ms", "how"), [
    (3.4, 6.25, "(simulated)"),
    (2.3, 7.35, "(simulated)"),
    (0.9, 7.85, "(simulated, of the finding's own ops)"),
])  # fmt: skip
def test_a_saving_is_divided_over_the_findings_ops_up_to_all_of_their_time(
    after_ms: float, gain_ms: float, how: str
) -> None:
    """The casts cannot save more than all of their time: the ops between them save the rest, and what was saved of
    ops around them is not the finding's."""
    profile = warplens.open(CASTS, cache=False)
    assert isinstance(profile, warplens.Profile)
    finding = next(one for one in profile.findings() if one.code == "WL206")
    result = ExperimentResult("WL206", finding.place, finding.title, (variant("torch.compile", 9.65, after_ms),))
    proof = ProofResult("id", CASTS.name, profile.meta.content_hash, H200, (result,))
    (measured,) = with_proofs([finding], proof, profile.model_of_gains)
    assert measured.proved_gain_ms == pytest.approx(gain_ms, abs=0.06)
    assert f"a step {how}, " in measured.proof


def test_a_cpu_proves_nothing_but_the_outputs(tmp_path: Path) -> None:
    finding = proved(tmp_path, variant("TF32", 14.6, 2.6), device="cpu")
    assert finding.proved_gain_ms is None
    assert finding.proof == "ran on a CPU, whose times say nothing about a GPU; TF32: outputs equal"


def test_an_experiment_that_failed_or_was_not_run_leaves_the_estimate(tmp_path: Path) -> None:
    failed = VariantResult("TF32", "failed", failures=("aten::mm: out of memory",))
    finding = proved(tmp_path, failed)
    assert (finding.proved_gain_ms, finding.proof) == (None, "could not be run on NVIDIA H200: aten::mm: out of memory")
    assert proved(tmp_path, reason="nothing to run").proof == ""


def test_a_proof_of_another_trace_is_refused(tmp_path: Path) -> None:
    result_file.save(tmp_path / "proof.json", ProofResult("id", "other.json", "another", H200, ()))
    with pytest.raises(UsageError, match=r"proof for another trace \(other.json\)"):
        opened(proof=str(tmp_path / "proof.json"))


def test_what_saves_no_time_is_listed_last_by_the_energy_it_saves() -> None:
    from warplens.outputs.advice_text import AdviceScope, render_advice

    def finding(code: str, gain_ms: float, joules: float) -> Finding:
        return Finding(code=code, title="x", gain_ms=gain_ms, gain_percent=gain_ms, gpu_gain_ms=9.0, evidence="", advice="",
                       proved_joules_before=joules, proved_joules_after=1.0)  # fmt: skip

    findings = [finding("WL1", 0.0, 2.0), finding("WL2", 0.0, 5.0), finding("WL3", 5.0, 2.0)]
    text = render_advice(findings, ["", "", ""], AdviceScope("", per_step=True, min_gain_percent=1.0), width=100)
    titles = [line.split()[1] for line, _ in text.lines if line[:2] in ("1.", "2.", "3.")]
    assert titles == ["WL3", "WL2", "WL1"]


def suggestion_proved(tmp_path: Path, before_ms: float, after_ms: float, *, device: str = H200) -> list[Finding]:
    """The findings with an experiment for what the kernel lab suggests for the longest kernel of the trace."""
    plain = opened()
    kernel = plain.table("kernels").frame.sort("total_us", descending=True).row(0, named=True)
    traced_ns = kernel["total_us"] * 1e3 / plain.trace.steps.height  # of other launches of it too
    swap = SwapResult(
        Side(before_ms * 1e6, 2.0, kernels=(kernel["kernel"],)), Side(after_ms * 1e6, 1.0), Difference(True, 0.0, 0.0)
    )
    variants = (VariantResult("num_warps 4 → 8", "done", (swap,)), VariantResult("tile 64 → 32", "failed"))
    experiments = (
        ExperimentResult("WK108", "mine", "mine: few warps fit", variants, traced_ns, "", "16 of 64", "use 8"),
        ExperimentResult("WK106", "mine", "mine: bank conflicts", reason="it names no single change"),
    )
    proof = ProofResult("id", TRACE.name, plain.meta.content_hash, device, experiments)
    result_file.save(tmp_path / "proof.json", proof)
    return opened(proof=str(tmp_path / "proof.json")).findings()


def test_a_measured_suggestion_of_the_kernel_lab_is_a_finding(tmp_path: Path) -> None:
    findings = suggestion_proved(tmp_path, 0.412, 0.206)
    assert [one.code for one in findings if one.code.startswith("WK")] == ["WK108"]
    found = next(one for one in findings if one.code == "WK108")
    assert (found.place, found.evidence, found.advice) == ("mine", "16 of 64", "use 8")
    assert found.proof.startswith("measured on NVIDIA H200: num_warps 4 → 8: 0.412 → 0.206 ms on the GPU")
    assert "2 → 1 J" in found.proof and found.proof.endswith("outputs equal")
    assert found.gain_ms == found.proved_gain_ms == pytest.approx(0.206, rel=0.05)
    assert found.gain_percent > 0


def test_a_page_explains_a_measured_suggestion(tmp_path: Path) -> None:
    suggestion_proved(tmp_path, 0.412, 0.206)
    extras = opened(proof=str(tmp_path / "proof.json")).document().extras
    assert extras is not None
    assert "few warps fit on a multiprocessor" in extras().explanations["WK108"]


def test_a_suggestion_that_does_not_help_says_so_and_wins_nothing(tmp_path: Path) -> None:
    findings = suggestion_proved(tmp_path, 0.412, 0.5)
    assert findings[-1].code == "WK108"
    assert findings[-1].proof.startswith("does not help, measured on NVIDIA H200: num_warps 4 → 8: 0.412 → 0.5 ms")
    assert (findings[-1].gain_ms, findings[-1].proved_gain_ms, findings[-1].edits) == (0.0, 0.0, ())


def test_a_suggestion_that_ran_on_a_cpu_has_its_outputs_only(tmp_path: Path) -> None:
    found = next(one for one in suggestion_proved(tmp_path, 0.4, 0.2, device="cpu") if one.code == "WK108")
    assert (found.proved_gain_ms, found.gain_ms, found.edits) == (None, 0.0, ())
    assert found.proof.endswith("num_warps 4 → 8: outputs equal")

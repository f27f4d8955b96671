"""Findings with what experiments measured of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import inf
from typing import Final

from warplens.analyses.graph.what_if import Gain, StepModel
from warplens.model.edits import (
    GRAPH_PAUSE_NS,
    CaptureGraph,
    Edit,
    ScaleWork,
    StepChange,
    WorkOfRows,
    with_measured_saving,
)
from warplens.model.finding import Finding, proved_gain_text, ranked
from warplens.proof.measured_edits import edited_work, share_of_expected
from warplens_run.formats.proof_plan import OF_KERNEL_LAB
from warplens_run.formats.proof_result import Difference, ExperimentResult, ProofResult, SwapResult, VariantResult

CPU: Final = "cpu"
LESS_IN_STEP: Final = 0.95
HELPS_FROM: Final = 0.02
"""A smaller share of the time saved is within what is measured again and again."""


RowsOfKernels = Callable[[Sequence[str]], WorkOfRows]
"""The GPU events of kernels, by their names."""


def with_proofs(
    findings: Iterable[Finding], proof: ProofResult, model: StepModel | None, rows_of: RowsOfKernels | None = None
) -> list[Finding]:
    """The findings, those with an experiment with its result; what is measured decides their order.

    Suggestions of the kernel lab are not among them: those that were measured are added. Without `rows_of` the step is
    not simulated with them.
    """
    waiting = list(proof.experiments)
    proved = []
    for finding in findings:
        result = next((one for one in waiting if (one.finding, one.place) == (finding.code, finding.place)), None)
        if result is None:
            proved.append(finding)
            continue
        waiting.remove(result)
        proved.append(_proved(finding, result, proof, model))
    return ranked([*proved, *(_suggested(result, proof, model, rows_of) for result in waiting if _is_measured(result))])


def _is_measured(result: ExperimentResult) -> bool:
    return result.finding.startswith(OF_KERNEL_LAB) and result.best is not None


def _suggested(
    result: ExperimentResult, proof: ProofResult, model: StepModel | None, rows_of: RowsOfKernels | None
) -> Finding:
    """A finding of the kernel lab's: what was measured is its only figure."""
    best = result.best
    assert best is not None
    kernels = list(dict.fromkeys(kernel for swap in best.swaps for kernel in swap.before.kernels))
    is_timed = proof.device != CPU and result.traced_ns > 0
    edits: tuple[Edit, ...] = ()
    if is_timed and rows_of is not None and best.saved_ns > 0:
        edits = (ScaleWork(rows_of(kernels), 1 - best.saved_ns / result.traced_ns),)
    finding = Finding(
        code=result.finding,
        title=result.title,
        place=result.place,
        evidence=result.evidence,
        advice=result.advice,
        gpu_gain_ms=max(0.0, best.saved_ns / 1e6) if is_timed else 0.0,
        edits=edits,
    )
    finding = _proved(finding, result, proof, model)
    gain_ms = finding.proved_gain_ms or 0.0
    percent = 100 * gain_ms / model.step_ms if model is not None and model.step_ms else 0.0
    low_ms, high_ms = (
        gain_ms if end is None else end for end in (finding.proved_gain_low_ms, finding.proved_gain_high_ms)
    )
    return replace(finding, gain_ms=gain_ms, gain_low_ms=low_ms, gain_high_ms=high_ms, gain_percent=percent)


def _proved(finding: Finding, result: ExperimentResult, proof: ProofResult, model: StepModel | None) -> Finding:
    best = result.best
    if best is None:
        failures = [failure for variant in result.variants for failure in variant.failures]
        return replace(finding, proof=f"could not be run on {proof.device}: {failures[0]}") if failures else finding
    if proof.device == CPU:
        text = f"ran on a CPU, whose times say nothing about a GPU; {best.name}: {outputs_text(best.difference)}"
        return replace(finding, proof=text, largest_difference=_relative(best.difference))
    gain = _gain(finding, best, model)
    gain_ms = max(0.0, best.saved_ns / 1e6 if gain is None else gain.gain_ms)
    finding = replace(
        finding,
        proved_gain_ms=gain_ms,
        proved_gain_low_ms=None if gain is None else max(0.0, gain.low_ms),
        proved_gain_high_ms=None if gain is None else max(0.0, gain.high_ms),
    )
    joules = best.joules
    return replace(
        finding,
        proof=_text(finding, result, proof, gain_ms, model),
        proved_gpu_ms_before=best.before_ns / 1e6,
        proved_gpu_ms_after=best.after_ns / 1e6,
        proved_joules_before=joules[0] if joules is not None else None,
        proved_joules_after=joules[1] if joules is not None else None,
        largest_difference=_relative(best.difference),
        proved_on=proof.device,
    )


def _relative(difference: Difference | None) -> float | None:
    return None if difference is None else difference.relative


def _gain(finding: Finding, best: VariantResult, model: StepModel | None) -> Gain | None:
    """What the measured saving wins of the step; None where the step cannot be simulated: the saving itself."""
    if model is None or not finding.edits:
        return None
    saved_ms = best.saved_ns / 1e6
    share = share_of_expected(saved_ms, edited_work(finding, model)) if finding.gpu_gain_ms > 0 else 1.0
    edits = tuple(_measured_edit(edit, share, best) for edit in finding.edits)
    return model.gain_of([StepChange(finding.code, edits)])


def _measured_edit(edit: Edit, share: float, best: VariantResult) -> Edit:
    """With the saving that was measured; in a graph, with the time that its kernels took besides the usual pauses."""
    if not isinstance(edit, CaptureGraph):
        return with_measured_saving(edit, share)
    launches = sum(swap.before.launches for swap in best.swaps)
    return CaptureGraph(max(0.0, best.after_ns - launches * GRAPH_PAUSE_NS) / best.before_ns)


def _text(
    finding: Finding, result: ExperimentResult, proof: ProofResult, gain_ms: float, model: StepModel | None
) -> str:
    """`measured on NVIDIA H200: TF32: 15.40 → 2.94 ms on the GPU, 12.4 ms a step (simulated), …; outputs equal`."""
    best = result.best
    assert best is not None
    whole = "a step" if proof.per_step else "in all"
    parts = [f"{best.name}: {_times(best)}"]
    if best.whole_step is not None:
        parts.append(_in_whole_step(best.whole_step, best.saved_alone_ns, whole))
    if finding.edits and model is not None:
        parts.append(f"{proved_gain_text(finding)} {whole} ({_how_simulated(finding, best, model)})")
    if best.joules is not None:
        parts.append(f"{best.joules[0]:.3g} → {best.joules[1]:.3g} J{_in_a_long_run(best.joules, model)}")
    verdict = "measured" if _helps(finding, best, gain_ms, model) else "does not help, measured"
    others = [f"{other.name} {_times(other)}" for other in result.variants if other.swaps and other is not best]
    return "; ".join(
        [
            f"{verdict} on {proof.device}: {', '.join(parts)}",
            outputs_text(best.difference),
            *others,
            *best.notes,
            *_left_out(best.failures),
        ]
    )


def _in_whole_step(step: SwapResult, saved_alone_ns: float, whole: str) -> str:
    times = f"{step.before.ns / 1e6:.2f} → {step.after.ns / 1e6:.2f} ms for all calls {whole}, one after the other"
    is_less = step.saved_ns < LESS_IN_STEP * saved_alone_ns
    return times + (" (less is saved than alone: the GPU lowers its clock)" if is_less else "")


def _how_simulated(finding: Finding, best: VariantResult, model: StepModel) -> str:
    """What is run may replace more than the finding is about, such as the ops around a chain: its edits save no more
    than the time of their own work."""
    own_ms = sum(part.time_ms for part in edited_work(finding, model)) if finding.gpu_gain_ms > 0 else inf
    beyond = best.saved_ns / 1e6 > own_ms * (1 + HELPS_FROM)
    return "simulated, of the finding's own ops" if beyond else "simulated"


def _in_a_long_run(joules: tuple[float, float], model: StepModel | None) -> str:
    """The mean power saved, as what 1,000 hours of one GPU save of energy: a watt is a kWh in that time."""
    if model is None or not model.step_ms or joules[1] >= joules[0]:
        return ""
    least, most = ((joules[0] - joules[1]) / (ms / 1e3) for ms in (model.step_high_ms, model.step_low_ms))
    watts = f"{most:.3g}" if f"{least:.3g}" == f"{most:.3g}" else f"{least:.3g} to {most:.3g}"
    return f" ({watts} kWh in 1,000 GPU hours)"


def _helps(finding: Finding, best: VariantResult, gain_ms: float, model: StepModel | None) -> bool:
    """Whether it saves GPU time; of a change to what is between kernels, whether the step gets shorter."""
    if finding.edits and finding.gpu_gain_ms <= 0 and model is not None:
        return gain_ms > HELPS_FROM * model.step_ms
    return best.before_ns - best.after_ns > HELPS_FROM * best.before_ns


def _times(variant: VariantResult) -> str:
    digits = ".2f" if variant.before_ns >= 1e6 else ".3g"  # a kernel of microseconds would be 0.00
    return f"{variant.before_ns / 1e6:{digits}} → {variant.after_ns / 1e6:{digits}} ms on the GPU"


def _left_out(failures: Sequence[str]) -> list[str]:
    return [f"not all of it ran: {failures[0]}"] if failures else []


def outputs_text(difference: Difference | None) -> str:
    """How far the results after the change are from those before it."""
    if difference is None:
        return "outputs not compared"
    if difference.is_equal:
        return "outputs equal"
    return f"outputs differ by up to {difference.relative:.1g} of the largest"

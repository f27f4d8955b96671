"""Gains of findings as time of the step: the step is simulated with the change that each describes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from warplens.analyses.graph.bounds import StepBounds
from warplens.analyses.graph.what_if import Gain, StepModel
from warplens.model.edits import CaptureGraph, StepChange
from warplens.model.finding import Finding
from warplens_run.base.units import format_ms

SPREAD: Final = 0.2
"""A rule's estimate of the GPU time that a change saves is off by about this share; more than a bound is not saved."""

CELLS: Final = "WL215"
"""Cells of recurrent networks, which can be most of a step's launches."""
LEAST_SHARE_MORE: Final = 0.001
"""Of the step: less is not seen in the figures."""


def with_step_gains(findings: Iterable[Finding], model: StepModel | None) -> list[Finding]:
    """Findings whose gain is time of the step; those that describe no edit and no slow step keep what the tables
    say."""
    if model is None:
        return list(findings)
    findings = list(findings)
    gains = iter(model.gains_of([[change_of(finding)] for finding in findings if finding.edits]))
    return [
        _simulated(finding, next(gains), model.step_ms) if finding.edits else _without_recording(finding, model)
        for finding in findings
    ]


def with_latency_named(finding: Finding, bounds: StepBounds | None) -> Finding:
    """Says why fewer launches win more than the verdict has for a faster host, which still has their latency."""
    is_graph = any(isinstance(edit, CaptureGraph) for edit in finding.edits)
    if bounds is None or not (is_graph or finding.code == CELLS):
        return finding
    more_ms = finding.gain_ms - max(0.0, bounds.saves_ms(bounds.fast_host_ms))
    if more_ms < LEAST_SHARE_MORE * bounds.plain_ms:
        return finding
    why = "a graph ends the latency of launches too" if is_graph else "latency of launches and GPU time go too"
    more = f"{format_ms(more_ms)} more than a faster host would save, as {why}"
    return replace(finding, evidence=f"{finding.evidence}; {more}")


def _without_recording(finding: Finding, model: StepModel) -> Finding:
    """A slow step's excess without the profiler; what describes neither edits nor steps stays as it is."""
    if not finding.slow_steps:
        return finding
    kept, kept_share = model.excess_kept(finding.slow_steps)
    return replace(
        finding,
        gain_ms=kept * finding.gain_ms,
        gain_percent=kept_share * finding.gain_percent,
        gain_high_ms=kept * finding.gain_high_ms,
        gpu_gain_ms=kept * finding.gpu_gain_ms,
    )


def change_of(finding: Finding) -> StepChange:
    """What a finding proposes."""
    return StepChange(finding.code, finding.edits, 1 - SPREAD, 1.0 if finding.bound else 1 + SPREAD)


def _simulated(finding: Finding, gain: Gain, step_ms: float) -> Finding:
    won_ms = max(0.0, gain.gain_ms)
    return replace(
        finding,
        gain_ms=won_ms,
        gain_percent=100 * won_ms / step_ms if step_ms else 0.0,
        gain_low_ms=max(0.0, gain.low_ms),
        gain_high_ms=max(0.0, gain.high_ms),
    )

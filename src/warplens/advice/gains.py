"""Gains of findings as time of the step: the step is simulated with the change that each describes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from warplens.analyses.graph.what_if import Gain, StepModel
from warplens.model.edits import StepChange
from warplens.model.finding import SPREAD, Finding


def with_step_gains(findings: Iterable[Finding], model: StepModel | None) -> list[Finding]:
    """Findings whose gain is time of the step; those that describe no edit and no slow step keep what the tables
    say, as sure as that is."""
    findings = [_with_spread(finding) for finding in findings]
    if model is None:
        return findings
    gains = iter(model.gains_of([[change_of(finding)] for finding in findings if finding.edits]))
    return [
        _simulated(finding, next(gains), model.step_ms) if finding.edits else _without_recording(finding, model)
        for finding in findings
    ]


def _with_spread(finding: Finding) -> Finding:
    if finding.bound or finding.gain_ms <= 0:
        return finding
    return replace(finding, gain_low_ms=(1 - SPREAD) * finding.gain_ms, gain_high_ms=(1 + SPREAD) * finding.gain_ms)


def _without_recording(finding: Finding, model: StepModel) -> Finding:
    """A slow step's excess without the profiler; what describes neither edits nor steps stays as it is."""
    if not finding.slow_steps:
        return finding
    kept, kept_share = model.excess_kept(finding.slow_steps)
    return replace(
        finding,
        gain_ms=kept * finding.gain_ms,
        gain_percent=kept_share * finding.gain_percent,
        gain_low_ms=kept * finding.gain_low_ms,
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

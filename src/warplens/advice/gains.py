"""Gains of findings as time of the step: simulated with the change that each describes, and within the bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from warplens.advice.limits import COMMUNICATION, GPU, HOST
from warplens.advice.rows import CollectiveRow
from warplens.analyses.graph.what_if import Gain, StepModel
from warplens.model.clock import Clock
from warplens.model.edits import CaptureGraph, Edit, RemoveHostTime, ScaleHost, ScaleWork, StepChange, at_best
from warplens.model.finding import SPREAD, Finding

NOISE: Final = 0.05
"""Of the step: a change that is not expected to shorten it and cannot by more than this shortens it by nothing."""


def with_step_gains(findings: Iterable[Finding], model: StepModel | None) -> list[Finding]:
    """Findings whose gain is time of the step; those that describe no edit and no slow step keep what the tables
    say, as sure as that is."""
    findings = [_with_spread(finding) for finding in findings]
    if model is None:
        return findings
    changes = [_most(finding) if finding.bound else change_of(finding) for finding in findings if finding.edits]
    gains = iter(model.gains_of([[change] for change in changes]))
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


def _most(finding: Finding) -> StepChange:
    """The same, where it wins all that it can."""
    return StepChange(finding.code, tuple(map(at_best, finding.edits)))


def _simulated(finding: Finding, gain: Gain, step_ms: float) -> Finding:
    won_ms = max(0.0, gain.gain_ms)
    return replace(
        finding,
        gain_ms=won_ms,
        gain_percent=100 * won_ms / step_ms if step_ms else 0.0,
        gain_low_ms=max(0.0, gain.low_ms),
        gain_high_ms=max(0.0, gain.high_ms),
    )


def within_bounds(findings: Iterable[Finding], clock: Clock | None, at_most_ms: Mapping[str, float]) -> list[Finding]:
    """No gain is more than its kind of change wins at most (`at_most_ms`, by what takes no time) or than the step."""
    return [_bounded(finding, clock, at_most_ms) for finding in findings]


def _bounded(finding: Finding, clock: Clock | None, at_most_ms: Mapping[str, float]) -> Finding:
    if not finding.gain_ms and not finding.gpu_gain_ms:
        return finding
    limit_ms = min(clock.high_ms if clock else float("inf"), at_most_ms.get(kind_of_change(finding), float("inf")))
    gain_ms, low_ms, high_ms = finding.gain_ms, finding.gain_low_ms, max(finding.gain_ms, finding.gain_high_ms)
    low_ms, gain_ms, high_ms = (min(limit_ms, ms) for ms in (low_ms, gain_ms, high_ms))
    step_ms = clock.step_ms if clock else 0.0
    if finding.saves_only_gpu_time and high_ms <= NOISE * step_ms:
        return replace(finding, gain_ms=0.0, gain_percent=0.0, gain_low_ms=0.0, gain_high_ms=0.0)
    # Of an interval that lies above the limit nothing is left but the limit.
    is_bound = finding.bound or finding.saves_only_gpu_time or finding.gain_low_ms > limit_ms
    if is_bound:
        low_ms, gain_ms = 0.0, high_ms
    share = finding.gain_percent / finding.gain_ms if finding.gain_ms else 100 / step_ms if step_ms else 0.0
    return replace(
        finding,
        bound=is_bound,
        expected_ms=min(limit_ms, finding.gain_ms),
        gain_ms=gain_ms,
        gain_percent=min(100.0, share * gain_ms),
        gain_low_ms=low_ms,
        gain_high_ms=high_ms,
    )


def kind_of_change(finding: Finding) -> str:
    """What a finding changes, where it is one thing: of the host, of the GPU or of communication; else empty.

    Idle time that no edit describes belongs to the host: a host that takes no time leaves nothing but GPU work.
    """
    if not finding.edits:
        return HOST if not finding.gpu_gain_ms and not finding.slow_steps else ""
    kinds = set(map(_kind_of_edit, finding.edits))
    return kinds.pop() if len(kinds) == 1 else ""


def _kind_of_edit(edit: Edit) -> str:
    match edit:
        case RemoveHostTime() | ScaleHost() | CaptureGraph(factor=1.0):
            return HOST
        case ScaleWork(with_host=False):
            return COMMUNICATION if edit.work.table == CollectiveRow.table else GPU
        case _:
            return ""

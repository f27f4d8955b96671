"""The edits of a finding with what was measured, so that they save as much GPU time as the experiment did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from warplens.analyses.graph.what_if import StepModel
from warplens.model.edits import FuseWork, ReplaceWork, ScaleWork
from warplens.model.finding import Finding


class EditedWork(NamedTuple):
    """GPU time of what an edit is about, and how much of it the finding expects to save; per step."""

    time_ms: float
    expected_ms: float


def edited_work(finding: Finding, model: StepModel) -> list[EditedWork]:
    """One per edit that saves GPU time; together they save what the finding expects."""
    graph = model.graph
    parts: list[EditedWork] = []
    for edit in finding.edits:
        if isinstance(edit, (ScaleWork, FuseWork, ReplaceWork)) and edit.factor < 1:
            time_ns = float(graph.weight_ns[graph.work_of(model.members(edit.work))].sum())
            parts.append(EditedWork(time_ns, time_ns * (1 - edit.factor)))
    expected_ns = sum(part.expected_ms for part in parts)
    scale = finding.gpu_gain_ms / expected_ns if expected_ns > 0 else 0.0
    return [EditedWork(part.time_ms * scale, part.expected_ms * scale) for part in parts if part.time_ms > 0]


def share_of_expected(saved_ms: float, work: Sequence[EditedWork]) -> float:
    """The share of what each edit expects that is measured: no edit saves more than all of its work, and what it does
    not save the others do.

    >>> work = [EditedWork(1.0, 0.5), EditedWork(1.0, 0.25)]
    >>> share_of_expected(0.375, work), share_of_expected(1.5, work)
    (0.5, 2.0)
    """
    left_ms, expected_ms, share = saved_ms, sum(part.expected_ms for part in work), 1.0
    for part in sorted(work, key=lambda part: part.time_ms / part.expected_ms):
        share = left_ms / expected_ms
        if share * part.expected_ms <= part.time_ms:
            break
        share = part.time_ms / part.expected_ms
        left_ms -= part.time_ms
        expected_ms -= part.expected_ms
    return share

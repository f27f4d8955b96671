"""What stands at the head of a trace's page, and how long its step takes with some findings mended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from warplens.analyses.roofline.utilization import Utilization, utilization
from warplens.model.finding import ranked
from warplens.model.fix_subsets import FixSubsets
from warplens.model.overview import Overview

if TYPE_CHECKING:
    from collections.abc import Sequence

    from warplens.analyses.graph.what_if import StepModel
    from warplens.analyses.workspace import Workspace
    from warplens.model.clock import Clock
    from warplens.model.finding import Finding
    from warplens.model.table import Table

MOST_FIXES: Final = 6
"""Findings whose subsets are simulated, with three hosts: about a second of CPU on a graph of 10,000 GPU events."""

LEAST_COSTED_PERCENT: Final = 50.0


def overview(work: Workspace, clock: Clock | None, memory: Table | None) -> Overview:
    """`memory` is the table of memory over time, where that was recorded."""
    peak = max(memory.frame.filter("is_peak")["allocated_bytes"].to_list(), default=None) if memory else None
    capacity = max((device.memory_bytes for device in work.trace.meta.devices), default=0) or None if peak else None
    used = utilization(work) if clock is not None else None
    if used is None or clock is None:
        return Overview(memory_peak_bytes=peak, memory_capacity_bytes=capacity)
    return Overview(
        model_tflop=used.tflop,
        peak_tflops=used.peak_tflops,
        peak_of=used.peak_of,
        costed_percent=used.costed_percent,
        mfu_percent=_mfu_percent(used, clock.step_ms),
        memory_peak_bytes=peak,
        memory_capacity_bytes=capacity,
    )


def _mfu_percent(used: Utilization, time_ms: float) -> float | None:
    """None where so little of the work has a known cost that the figure would say nothing."""
    if used.costed_percent < LEAST_COSTED_PERCENT or not used.peak_tflops or not time_ms:
        return None
    return 100 * used.tflop / (time_ms / 1e3) / used.peak_tflops


def fix_subsets(found: Sequence[Finding], model: StepModel | None) -> FixSubsets | None:
    """The step with every subset of the first findings that describe a change; None where none is simulated."""
    from warplens.advice.gains import change_of
    from warplens.analyses.graph.subsets import fast_steps_ms, slow_steps_ms, subset_steps_ms
    from warplens.analyses.graph.what_if import SHARE_OF_GAIN, SHARE_OF_STEP

    findings = ranked(found)
    simulated = [row for row, finding in enumerate(findings) if finding.edits]
    if model is None or not simulated:
        return None
    rows = tuple(simulated[:MOST_FIXES])
    changes = [change_of(findings[row]) for row in rows]
    return FixSubsets(
        rows,
        len(simulated),
        subset_steps_ms(model, changes),
        fast_steps_ms(model, changes),
        slow_steps_ms(model, changes),
        (model.step_low_ms, model.step_high_ms),
        SHARE_OF_GAIN,
        SHARE_OF_STEP,
    )

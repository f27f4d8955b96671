"""What stands at the head of a trace's page, and how long its step takes with some findings mended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from warplens.analyses.roofline.utilization import Utilization, utilization
from warplens.model.finding import ranked
from warplens.model.fix_subsets import FixSubsets
from warplens.model.overview import Overview
from warplens.model.time_base import time_base

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from warplens.analyses.graph.bounds import StepBounds
    from warplens.analyses.graph.plain_step import PlainStep
    from warplens.analyses.graph.what_if import StepModel
    from warplens.analyses.workspace import Workspace
    from warplens.model.finding import Finding
    from warplens.model.table import Table

MOST_FIXES: Final = 8
"""Findings whose subsets are simulated: 256 of them take about a second of CPU on a graph of 10,000 GPU events."""

LEAST_COSTED_PERCENT: Final = 50.0
CORRECTED: Final = "its times are corrected"


def overview(
    work: Workspace,
    tables: Callable[[str], Table],
    model: StepModel | None,
    step: PlainStep | None,
    bounds: StepBounds | None,
    memory: Table | None,
) -> Overview:
    """A trace in a few numbers. `memory` is its table of memory over time, where that was recorded."""
    base = time_base(tables("steps"), tables("timeline"))
    peak = max(memory.frame.filter("is_peak")["allocated_bytes"].to_list(), default=None) if memory else None
    capacity = max((device.memory_bytes for device in work.trace.meta.devices), default=0) or None if peak else None
    if not base.whole_ms:
        return Overview(is_step=False, memory_peak_bytes=peak, memory_capacity_bytes=capacity)
    from warplens.advice.limits import limits
    from warplens.advice.verdict import bound_name

    recorded_ms = bounds.recorded_ms if bounds else base.whole_ms
    plain_ms = step.plain_ms if step else bounds.plain_ms if bounds else None
    busy_ms = base.measures_ms.get("busy", 0.0)
    used = utilization(work)
    return Overview(
        is_step=base.steps > 0,
        recorded_ms=recorded_ms,
        plain_ms=plain_ms,
        plain_origin=step.origin if step else CORRECTED if bounds else "",
        fast_gpu_ms=bounds.fast_gpu_ms if bounds else None,
        fast_host_ms=bounds.fast_host_ms if bounds else None,
        bound=bound_name(limits(bounds)) if bounds else "",
        busy_percent=base.percent(busy_ms),
        plain_busy_percent=min(100.0, 100 * busy_ms / plain_ms) if plain_ms and base.steps else None,
        model_tflop=used.tflop if used else None,
        peak_tflops=used.peak_tflops if used else None,
        peak_of=used.peak_of if used else "",
        costed_percent=used.costed_percent if used else None,
        mfu_percent=_mfu_percent(used, plain_ms or recorded_ms),
        gains_of_ms=model.step_ms if model else base.whole_ms,
        gains_are_simulated=model is not None,
        memory_peak_bytes=peak,
        memory_capacity_bytes=capacity,
    )


def _mfu_percent(used: Utilization | None, time_ms: float) -> float | None:
    """None where so little of the work has a known cost that the figure would say nothing."""
    if used is None or used.costed_percent < LEAST_COSTED_PERCENT or not used.peak_tflops or not time_ms:
        return None
    return 100 * used.tflop / (time_ms / 1e3) / used.peak_tflops


def fix_subsets(found: Sequence[Finding], model: StepModel | None) -> FixSubsets | None:
    """The step with every subset of the first findings that describe a change; None where none is simulated."""
    from warplens.advice.gains import change_of
    from warplens.analyses.graph.subsets import subset_steps_ms

    findings = ranked(found)
    simulated = [row for row, finding in enumerate(findings) if finding.edits]
    if model is None or not simulated:
        return None
    rows = tuple(simulated[:MOST_FIXES])
    return FixSubsets(rows, len(simulated), subset_steps_ms(model, [change_of(findings[row]) for row in rows]))

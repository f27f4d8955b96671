"""Rules: Tables → Findings. A rule is a function of the figures; its thresholds stand in `thresholds`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from warplens.advice import idle_rules, matrix_rules, memory_rules, run_rules
from warplens.advice.figures import Rule, TraceFigures
from warplens.advice.thresholds import THRESHOLDS
from warplens.analyses.missing_data import TORCH
from warplens.model.finding import Finding, ranked
from warplens.model.table import Table

RULES: Final[tuple[Rule, ...]] = (
    idle_rules.host_bound,
    idle_rules.short_kernels,
    idle_rules.long_stalls,
    idle_rules.gap_rules,
    idle_rules.other_idle,
    matrix_rules.misaligned,
    matrix_rules.plain_fp32,
    matrix_rules.legacy_kernels,
    matrix_rules.unfused_attention,
    matrix_rules.mask_tensor,
    memory_rules.pointwise_chains,
    memory_rules.cast_ping_pong,
    memory_rules.layout_changes,
    memory_rules.many_launch_optimizer,
    memory_rules.slow_memory,
    run_rules.wave_tail,
    run_rules.few_blocks,
    run_rules.recompute,
    run_rules.exposed_communication,
    run_rules.small_collectives,
    run_rules.exposed_copies,
    run_rules.pageable_copies,
    run_rules.straggling_step,
    run_rules.graph_heavy,
    run_rules.unknown_kernels,
    run_rules.doubtful_trace,
)
WITHOUT_GAIN: Final = ("WL103", "WL901")
"""Faults that make other numbers doubtful: always shown, although mending them wins no time."""
NEEDED_TABLES: Final = (
    "timeline", "steps", "idle", "gaps", "kernel_categories", "kernels", "launch_categories", "short_kernels", "comm",
    "quality", "roofline", "ceilings", "chains", "launches", "phases",
)  # fmt: skip


def find(
    tables: Mapping[str, Table], min_gain_percent: float = THRESHOLDS["min_gain_percent"], format: str = TORCH
) -> list[Finding]:
    """Every rule that fires, largest gain first; none where no GPU worked, none below the least gain.

    The profile's `format` decides whose words the advice is in.
    """
    figures = TraceFigures(tables, format)
    if not figures.has_gpu:
        return []
    found = [finding for rule in RULES for finding in figures.findings_of(rule)]
    kept = [
        finding
        for finding in found
        if finding.code in WITHOUT_GAIN or round(finding.gain_percent, 6) >= min_gain_percent
    ]
    return ranked(kept)

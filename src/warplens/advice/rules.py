"""The rules on traces: tables → findings. A rule is a function of the figures; its thresholds are in `thresholds`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from warplens.advice import idle_rules, matrix_rules, memory_rules, run_rules, serving_rules, structure_rules
from warplens.advice.explanations import EXPLANATIONS
from warplens.advice.figures import Check, TraceFigures
from warplens.advice.gains import with_step_gains, within_bounds
from warplens.advice.limits import at_most_ms, at_most_of_parts
from warplens.advice.thresholds import THRESHOLDS
from warplens.analyses.graph.bounds import StepBounds
from warplens.analyses.graph.host_code import HostCode
from warplens.analyses.graph.what_if import StepModel
from warplens.analyses.missing_data import TORCH
from warplens.extensions import RULES as OFFERED
from warplens.extensions import Extension, extensions, warn
from warplens.model.answer import Part
from warplens.model.clock import Clock
from warplens.model.edits import saves_host_time
from warplens.model.finding import Finding, ranked
from warplens.model.rule import RuleSet
from warplens.model.table import Table

CHECKS: Final[Mapping[str, Check]] = {
    "WL101": idle_rules.host_bound,
    "WL104": idle_rules.short_kernels,
    "WL107": idle_rules.long_stalls,
    "WL301": idle_rules.synchronising_calls,
    "WL303": idle_rules.data_loading,
    "WL304": idle_rules.graph_replays,
    "WL306": idle_rules.host_code,
    "WL108": idle_rules.memory_and_kernel_setup,
    "WL109": idle_rules.other_idle,
    "WL201": matrix_rules.misaligned,
    "WL202": matrix_rules.plain_fp32,
    "WL203": matrix_rules.legacy_kernels,
    "WL204": matrix_rules.unfused_attention,
    "WL213": matrix_rules.mask_tensor,
    "WL205": memory_rules.pointwise_chains,
    "WL206": memory_rules.cast_ping_pong,
    "WL207": memory_rules.layout_changes,
    "WL208": memory_rules.many_launch_optimizer,
    "WL211": memory_rules.slow_memory,
    "WL214": structure_rules.dense_embedding_gradients,
    "WL215": structure_rules.cells_in_a_loop,
    "WL216": structure_rules.equal_passes,
    "WL209": run_rules.wave_tail,
    "WL210": run_rules.few_blocks,
    "WL212": run_rules.recompute,
    "WL105": run_rules.exposed_communication,
    "WL401": run_rules.small_collectives,
    "WL106": run_rules.exposed_copies,
    "WL302": run_rules.pageable_copies,
    "WL305": run_rules.straggling_step,
    "WL601": serving_rules.gaps_between_passes,
    "WL602": serving_rules.padded_graphs,
    "WL603": serving_rules.prefill_blocks_decode,
    "WL604": serving_rules.slow_decode_attention,
    "WL605": serving_rules.choosing_tokens,
    "WL606": serving_rules.collectives_in_decode,
    "WL607": serving_rules.quantising_in_decode,
    "WL102": run_rules.graph_heavy,
    "WL103": run_rules.unknown_kernels,
    "WL901": run_rules.doubtful_trace,
}
RULES: Final = RuleSet(CHECKS, EXPLANATIONS, THRESHOLDS)
WITHOUT_GAIN: Final = ("WL103", "WL901")
"""Faults that make other numbers doubtful: always shown, although fixing them gains no time."""
NEEDED_TABLES: Final = (
    "timeline", "steps", "idle", "gaps", "kernel_categories", "kernels", "launch_categories", "short_kernels", "comm",
    "quality", "roofline", "ceilings", "chains", "launches", "phases", "repeated_calls",
    "modules",
)  # fmt: skip

SERVING_TABLES: Final = ("iterations", "serving_phases", "token_latency", "slow_iterations")
"""Tables that rules read besides, of traces that have them."""


def find(
    tables: Mapping[str, Table],
    min_gain_percent: float = THRESHOLDS.min_gain_percent,
    format: str = TORCH,
    model: StepModel | None = None,
    bounds: StepBounds | None = None,
    host_code: HostCode | None = None,
    clock: Clock | None = None,
    parts: Callable[[], Sequence[Part]] = tuple,
) -> list[Finding]:
    """The findings of every rule, largest gain first; none where no GPU worked, none below the least gain.

    With a `model` of the step, gains are time of the step; one that saves GPU time but no step time is listed last. No
    gain exceeds what its kind of change saves at most (`bounds`), or the step (`clock`). `host_code` is what of the
    step launches nothing, `parts` where the step goes. The profile's `format` decides which framework the advice is
    written for.
    """
    figures = TraceFigures(tables, format, bounds, host_code, parts)
    if not figures.has_gpu:
        return []
    findings = [finding for rule in RULES for finding in figures.findings_of(rule.check)]
    findings += _findings_of_others(figures)
    kept = [finding for finding in findings if finding.code in WITHOUT_GAIN or _gains(finding, min_gain_percent)]
    small = [finding for finding in findings if finding not in kept and any(map(saves_host_time, finding.edits))]
    simulated = with_step_gains([*kept, *small], model)
    # A few launches less can win more of the step than their kernels take.
    shown = [
        finding
        for number, finding in enumerate(simulated)
        if _gains(finding, min_gain_percent)
        or (number < len(kept) and (finding.code in WITHOUT_GAIN or finding.saves_only_gpu_time))
    ]
    at_most = at_most_ms(clock, bounds) if clock and bounds else at_most_of_parts(parts())
    return ranked(within_bounds(shown, clock, at_most))


def rules_of_others() -> Iterator[tuple[Extension, RuleSet[TraceFigures, Finding]]]:
    """The rules on traces that other packages bring along, but for those whose codes are ours."""
    for extension, rules in extensions(OFFERED, RuleSet):
        if taken := [code for code in rules.codes if code in RULES]:
            warn(extension, ValueError(f"{', '.join(taken)}: codes of other rules"))
        else:
            yield extension, rules


def _findings_of_others(figures: TraceFigures) -> list[Finding]:
    findings: list[Finding] = []
    for extension, rules in rules_of_others():
        try:
            findings += [finding for rule in rules for finding in rule.check(figures)]
        except Exception as error:  # noqa: BLE001 - whatever happens in code of others must not end a report
            warn(extension, error)
    return findings


def _gains(finding: Finding, least_percent: float) -> bool:
    return round(finding.gain_percent, 6) >= least_percent

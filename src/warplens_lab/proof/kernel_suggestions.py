"""Experiments for what the kernel lab suggests: the same launches with the suggested configuration or line of source.

A suggestion is about one compilation of a kernel, and not about the trace. Its experiment has the code of the rule, and
the kernel as its place; nothing else of a proof plan differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from warplens.proof.experiments.call_runs import RecordedCalls
from warplens.proof.experiments.changed_units import ChangedUnits
from warplens.proof.experiments.finding_units import UnitInStep, longest_first
from warplens.proof.experiments.unit_edits import NoExperiment
from warplens_lab.proof.kernel_checks import (
    NOT_LOOKED_FOR,
    CheckedKernel,
    check_kernels,
    target_of,
    why_not,
)
from warplens_lab.proof.launch_changes import KernelSources, change_text, changed_launch
from warplens_lab.suggesting.counterfactual import Change
from warplens_lab.suggesting.records import Suggestion
from warplens_run.base.units import plural
from warplens_run.formats.proof_plan import Experiment
from warplens_run.formats.replay_plan import TracedGpu

MOST_LAUNCHES: Final = 16
"""That are compiled, which takes seconds each: the longest."""
LEAST_SHARE: Final = 0.01
"""Of the GPU time: a kernel that takes less is not worth the compiler's."""
NO_CHANGE: Final = "it names no single change: {}"
SAME_CHANGE: Final = "the same change is run for {}"


@dataclass
class LabExperiments:
    """Experiments with the units that each needs besides the recorded ones, and the sources of those."""

    made: list[tuple[Experiment, ChangedUnits]] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def lab_experiments(recorded: RecordedCalls, gpus: Sequence[TracedGpu], *, allow_source: bool) -> LabExperiments:
    """None, with a note on the reason, where kernels cannot be compiled; and no note where there are no kernels."""
    members = _worth_checking(recorded)
    if not members:
        return LabExperiments()
    reason = why_not(allow_source=allow_source)
    try:
        if reason:
            raise NoExperiment(reason)
        target = target_of(recorded.work.hardware, gpus)
    except NoExperiment as error:
        return LabExperiments(notes=(NOT_LOOKED_FOR.format(error),))
    checks = check_kernels(members[:MOST_LAUNCHES], recorded.sources, target)
    sources = KernelSources(dict(recorded.sources))
    made = suggested_experiments(checks.kernels, sources)
    left_out = len(members) - MOST_LAUNCHES
    shorter = (f"{plural(left_out, 'shorter launch', 'shorter launches')} not checked by the kernel lab",)
    return LabExperiments(made, sources.edited, (*checks.notes, *(shorter if left_out > 0 else ())))


def _worth_checking(recorded: RecordedCalls) -> list[UnitInStep]:
    launched = [UnitInStep(unit, calls) for unit, calls in recorded.in_step() if unit.triton is not None]
    least_ns = LEAST_SHARE * recorded.step_gpu_ns
    ns: dict[str, float] = {}
    for member in launched:
        ns[_kernel(member)] = ns.get(_kernel(member), 0.0) + _time_ns(member)
    return longest_first([member for member in launched if ns[_kernel(member)] >= least_ns])


@dataclass
class _Suggested:
    """What one rule suggests for one kernel."""

    first: Suggestion
    changes: dict[str, tuple[Change, list[UnitInStep]]] = field(default_factory=dict)
    """By name: each with the launches that it is for."""


def suggested_experiments(
    checked: Sequence[CheckedKernel], sources: KernelSources
) -> list[tuple[Experiment, ChangedUnits]]:
    """One per rule and kernel, with a variant per change."""
    rules: dict[tuple[str, str], _Suggested] = {}
    time_ns: dict[str, float] = {}
    for kernel in checked:
        name = _kernel(kernel.members[0])
        time_ns[name] = time_ns.get(name, 0.0) + sum(map(_time_ns, kernel.members))
        for suggestion in kernel.suggestions:
            _add(rules.setdefault((name, suggestion.code), _Suggested(suggestion)), suggestion, kernel, sources)
    run_for: dict[tuple[str, str], str] = {}
    return [
        _experiment(name, suggested, time_ns[name], run_for, sources)
        for (name, _), suggested in sorted(rules.items(), key=lambda item: (-time_ns[item[0][0]], item[0]))
    ]


def _add(rule: _Suggested, suggestion: Suggestion, kernel: CheckedKernel, sources: KernelSources) -> None:
    if suggestion.counterfactual is None:
        return
    change = suggestion.counterfactual.made
    for member in kernel.members:
        text = change_text(member.unit, change, sources)
        members = rule.changes.setdefault(text, (change, []))[1]
        if member not in members:
            members.append(member)


def _experiment(
    name: str, rule: _Suggested, traced_ns: float, run_for: dict[tuple[str, str], str], sources: KernelSources
) -> tuple[Experiment, ChangedUnits]:
    changed = ChangedUnits()
    code, reasons = rule.first.code, []
    for text, (change, members) in rule.changes.items():
        if run_for.setdefault((name, text), code) != code:
            reasons.append(SAME_CHANGE.format(run_for[name, text]))
            continue
        changed.swap_each(text, members, partial(changed_launch, change=change, sources=sources))
    reason = ""
    if not changed.variants:
        reason = next(iter((*reasons, *changed.refused)), NO_CHANGE.format(rule.first.advice))
    experiment = Experiment(
        code,
        name,
        f"{name}: {rule.first.title}",
        tuple(changed.variants),
        traced_ns=traced_ns,
        reason=reason,
        evidence=rule.first.evidence,
        advice=rule.first.advice,
    )
    return experiment, changed


def _kernel(member: UnitInStep) -> str:
    assert member.unit.triton is not None
    return member.unit.triton.kernel


def _time_ns(member: UnitInStep) -> float:
    return member.calls * member.unit.times.median_ns

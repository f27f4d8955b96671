"""From a trace's findings to a proof plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from warplens import lab
from warplens.analyses.graph.editing import Members
from warplens.analyses.workspace import Workspace
from warplens.model.finding import Finding
from warplens.planning import make_plan
from warplens.proof.experiments.call_runs import RecordedCalls
from warplens.proof.experiments.changed_units import ChangedUnits
from warplens.proof.experiments.finding_units import FindingUnits, longest_first, units_of
from warplens.proof.experiments.rules import MAKE_VARIANTS, NO_EXPERIMENT, NOT_RUN, OF_WHOLE_STEPS
from warplens.proof.experiments.unit_edits import NoExperiment
from warplens.proof.experiments.whole_step import BEFORE, WholeStep
from warplens_run.base.loading import loaded
from warplens_run.formats.proof_plan import OF_KERNEL_LAB, Experiment, ProofPlan, Swap, Variant
from warplens_run.formats.replay_plan import Unit, source_of

WHOLE: Final = 0.95
"""Of a finding's GPU time: what is left out then changes no conclusion."""


def make_proof_plan(
    work: Workspace,
    path: Path,
    findings: Sequence[Finding],
    members: Members,
    *,
    allow_source: bool = False,
    max_bytes: int = 0,
) -> ProofPlan:
    """The experiments for a trace's findings; `path` is where it was opened from, `max_bytes` what it may unpack to.

    `allow_source` lets the kernel lab compile the trace's Triton kernels, which runs their sources: what it suggests
    for them gets experiments too.
    """
    plan = make_plan(work, path, max_bytes=max_bytes)
    texts = {name: source.text for name, source in plan.sources.items()}
    recorded = RecordedCalls(work, dict(enumerate(plan.units)), texts)
    step = WholeStep(recorded)
    experiments: list[Experiment] = []
    units: dict[str, Unit] = {}
    for finding in findings:
        if finding.code.startswith(OF_KERNEL_LAB):  # measured before: the lab suggests it again
            continue
        about = units_of(finding, recorded, members)
        experiment, changed = _experiment(about, len(experiments) + 1, step)
        experiments.append(experiment)
        units |= changed.units
    of_lab = loaded(lab.EXPERIMENTS)(recorded, plan.gpus, allow_source=allow_source)
    for experiment, changed in of_lab.made:
        changed = _numbered(changed, len(experiments) + 1)
        experiments.append(replace(experiment, variants=tuple(changed.variants)))
        units |= changed.units
    used = {name for experiment in experiments for variant in experiment.variants for name in units_in(variant)}
    units |= {BEFORE: step.before} if BEFORE in used else {}
    kept = [unit for unit in (*plan.units, *units.values()) if unit.id in used]
    needed = {unit.triton.source for unit in kept if unit.triton is not None}
    sources = plan.sources | {name: source_of(text) for name, text in of_lab.sources.items()}
    replay = replace(
        plan,
        units=tuple(kept),
        rest=(),
        sources={name: source for name, source in sources.items() if name in needed},
    )
    return ProofPlan(replay, tuple(experiments), per_step=work.trace.steps.height > 0, notes=of_lab.notes)


def units_in(variant: Variant) -> Iterator[str]:
    """The names of all units that a variant runs or compares with."""
    for swap in (*variant.swaps, *filter(None, [variant.whole_step])):
        yield from (calls.unit for calls in (*swap.before, *swap.after))
        yield swap.reference


def _experiment(about: FindingUnits, number: int, step: WholeStep) -> tuple[Experiment, ChangedUnits]:
    finding = about.finding
    changed = ChangedUnits()
    reason = ""
    make = MAKE_VARIANTS.get(finding.code)
    if make is None:
        reason = NOT_RUN.get(finding.code, NO_EXPERIMENT)
    elif not about.units and finding.code not in OF_WHOLE_STEPS:
        reason = about.why_none
    else:
        about = replace(about, units=tuple(longest_first(about.units)))
        try:
            make(about, changed)
        except NoExperiment as error:
            reason = str(error)
        if not changed.variants:
            reason = reason or (changed.refused[0] if changed.refused else NO_EXPERIMENT)
    renamed = _numbered(step.tried(_with_coverage(changed, about)), number)
    return (
        Experiment(
            finding.code,
            finding.place,
            finding.title,
            tuple(renamed.variants),
            traced_ns=about.traced_ns,
            reason=reason,
        ),
        renamed,
    )


def _with_coverage(changed: ChangedUnits, about: FindingUnits) -> ChangedUnits:
    """Variants that run only a part of what the finding is about have a note on how much that is."""
    ns = {member.unit.id: member.unit.times.median_ns for member in about.units}
    variants = []
    for variant in changed.variants:
        calls = [calls for swap in variant.swaps for calls in swap.before]
        run_ns = sum(own.calls * ns.get(own.unit, 0.0) for own in calls)
        is_known = all(own.unit in ns for own in calls)
        if is_known and run_ns < WHOLE * about.traced_ns:
            note = f"{100 * run_ns / about.traced_ns:.0f} % of its GPU time is run"
            variant = replace(variant, notes=(*variant.notes, note))
        variants.append(variant)
    return replace(changed, variants=variants)


def _numbered(changed: ChangedUnits, number: int) -> ChangedUnits:
    """Units after the change have the experiment's number: two findings may change the same unit in the same way."""
    names = {name: f"{name}.{number}" for name in changed.units}
    variants = [
        replace(
            variant,
            swaps=tuple(_renamed(swap, names) for swap in variant.swaps),
            whole_step=_renamed(variant.whole_step, names) if variant.whole_step is not None else None,
        )
        for variant in changed.variants
    ]
    units = {names[name]: replace(unit, id=names[name]) for name, unit in changed.units.items()}
    return ChangedUnits(variants, units, changed.refused)


def _renamed(swap: Swap, names: Mapping[str, str]) -> Swap:
    return replace(
        swap,
        before=tuple(replace(calls, unit=names.get(calls.unit, calls.unit)) for calls in swap.before),
        after=tuple(replace(calls, unit=names[calls.unit]) for calls in swap.after),
        reference=names.get(swap.reference, swap.reference),
    )

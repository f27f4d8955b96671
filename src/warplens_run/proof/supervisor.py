"""Runs the experiments of a proof plan: replays of all units, one for each set of switches, then the outputs."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from warplens_run.base.errors import UsageError
from warplens_run.base.units import plural
from warplens_run.formats import proof_plan as plan_file
from warplens_run.formats import proof_result as result_file
from warplens_run.formats import replay_plan as replay_plans
from warplens_run.formats.proof_plan import Experiment, ProofPlan, Settings, Swap, UnitCalls, Variant
from warplens_run.formats.proof_result import (
    ExperimentResult,
    ProofResult,
    Side,
    SwapResult,
    VariantResult,
    whole_joules,
)
from warplens_run.formats.replay_plan import ReplayPlan
from warplens_run.formats.replay_result import ReplayResult, UnitResult
from warplens_run.proof.compared_outputs import Outputs, compare_outputs
from warplens_run.replay.options import SUSTAINED, Progress, RunOptions
from warplens_run.replay.supervisor import NOT_REACHED_WITHIN, ChooseMetered, not_reached, run_plan

OWN_OPS: Final = "warplens_run.proof.own_ops"
HOST_TIMER: Final = "host"
"""Of runs on a CPU."""
COMPILED: Final = "warplens::compiled_chain"
COMPARING: Final = 0.7
"""Of the seconds of a run, the times of units may take so much; the rest is for outputs."""
METERED: Final = 0.5
"""Of the time of each side."""
SortedSettings = tuple[tuple[str, str | int | float | bool], ...]
RUNS: Final = ".runs"
"""What is added to the name of a proof for the folder of its replays while it is being made."""


@dataclass(frozen=True)
class UnitsUnderSettings:
    """Units that run under the same switches, besides those of the trace."""

    settings: Settings
    units: frozenset[str]
    timer: str = ""
    """Empty: the one asked for."""


def run_proof(
    plan_path: Path, output: Path, options: RunOptions, progress: Callable[[Progress], None], fresh: bool = False
) -> ProofResult:
    """The proof, which is also written to `output`. The same call continues a run that was interrupted.

    With a limit of seconds: first the times of all units, those of the most valuable finding first, then the outputs,
    then energy. What was measured by then is kept for the next call where something is left.
    """
    started = time.monotonic()
    plan = plan_file.load(plan_path)
    options = replace(options, imports=(*options.imports, OWN_OPS))
    options.check()
    if not output.parent.is_dir():
        raise UsageError(f"the folder {output.parent} does not exist")
    groups = units_by_settings(plan)
    if not groups:
        raise UsageError("the plan has no experiment to run", hint="warplens prove plan lists the reasons")
    folder = output.with_name(output.name + RUNS)
    if fresh:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(exist_ok=True)
    ranks = ranks_of_units(plan)
    seconds = options.seconds
    ends = _deadlines(started, seconds, [len(group.units) for group in groups], len(plan.compared()))
    compared_by = started + seconds if seconds else math.inf

    def replayed(number: int, group: UnitsUnderSettings, metered: ChooseMetered, deadline: float) -> ReplayResult:
        path = folder / f"{number}.plan.json"
        report = _shared_progress(progress, groups, number, len(plan.compared()))
        return _replayed(plan, group, path, options, report, metered, ranks, deadline)

    def by_times(timed: Mapping[str, UnitResult]) -> Collection[str]:
        return units_to_meter(plan, timed)

    first = (lambda _: ()) if seconds else by_times
    runs = [replayed(number, group, first, ends[number]) for number, group in enumerate(groups)]
    compared = _comparing_progress(progress, plan, groups)
    swaps = _timed_first(plan, ranks, runs) if seconds else plan.compared()
    outputs = compare_outputs(plan_path, swaps, options, compared, deadline=compared_by)
    if seconds and options.energy is not False:
        runs = [replayed(number, group, by_times, started + seconds) for number, group in enumerate(groups)]
    units = {unit.id: unit for run in runs for unit in run.units}
    left_out = _left_out(plan, units, outputs, options) if seconds else []
    result = _result(plan, runs, units, outputs, left_out)
    result_file.save(output, result)
    if not left_out:
        shutil.rmtree(folder, ignore_errors=True)
    return result


def ranks_of_units(plan: ProofPlan) -> dict[str, int]:
    """Which units are measured first: those of the first variant of each experiment, the experiment with the largest
    gain first, then of the second variants, and so on; variants that compile, which takes seconds a unit, come last.
    """
    ops = {unit.id: unit.op for unit in plan.replay.units}

    def order(place: tuple[int, int]) -> tuple[bool, int, int]:
        experiment, variant = place
        units = _units_of(plan.experiments[experiment].variants[variant])
        return any(ops.get(calls.unit) == COMPILED for calls in units), variant, experiment

    places = [(place, own) for place, each in enumerate(plan.experiments) for own in range(len(each.variants))]
    ranks: dict[str, int] = {}
    for rank, (experiment, variant) in enumerate(sorted(places, key=order)):
        for calls in _units_of(plan.experiments[experiment].variants[variant]):
            ranks.setdefault(calls.unit, rank)
    return ranks


def _timed_first(plan: ProofPlan, ranks: Mapping[str, int], runs: Sequence[ReplayResult]) -> dict[str, Swap]:
    """The swaps to compare, without those of which a side was not reached."""
    timed = {unit.id for run in runs for unit in run.units if not unit.reason.startswith(NOT_REACHED_WITHIN)}
    swaps = {
        place: swap
        for place, swap in plan.compared().items()
        if all(calls.unit in timed for calls in (*swap.before, *swap.after))
    }
    return dict(sorted(swaps.items(), key=lambda item: ranks.get(item[1].after[0].unit, 0)))


def _deadlines(started: float, seconds: float, sizes: Sequence[int], comparisons: int) -> list[float]:
    """When each group of units has to end: their times share the seconds by their numbers, with some for outputs."""
    if not seconds:
        return [math.inf] * len(sizes)
    whole = COMPARING if comparisons else 1.0
    reached = [sum(sizes[: number + 1]) / max(1, sum(sizes)) for number in range(len(sizes))]
    return [started + whole * seconds * share for share in reached]


def units_by_settings(plan: ProofPlan) -> list[UnitsUnderSettings]:
    """Each unit once under each set of switches that it is needed under; the trace's own come first."""
    as_recorded: tuple[SortedSettings, str] = ((), "")
    units: dict[tuple[SortedSettings, str], set[str]] = {as_recorded: set()}
    for variant in (variant for experiment in plan.experiments for variant in experiment.variants):
        after = units.setdefault((settings_of(variant), variant.timer), set())
        for swap in variant.swaps:
            units[as_recorded] |= {calls.unit for calls in swap.before}
            after |= {calls.unit for calls in swap.after}
        if variant.whole_step is not None:
            for settings, side in (((), variant.whole_step.before), (settings_of(variant), variant.whole_step.after)):
                units.setdefault((settings, SUSTAINED), set()).update(calls.unit for calls in side)
    return [
        UnitsUnderSettings(dict(settings), frozenset(names), timer)
        for (settings, timer), names in units.items()
        if names
    ]


def settings_of(variant: Variant) -> SortedSettings:
    return tuple(sorted(variant.settings.items()))


def units_to_meter(plan: ProofPlan, timed: Mapping[str, UnitResult]) -> tuple[str, ...]:
    """Energy takes seconds a unit: of each side of a variant, the longest units, which take most of its time.

    By the times just measured: what an edited unit takes is not known before. One that ran under other switches, or
    failed, has none and counts as nothing.
    """
    times = {unit: result.time.median_ns for unit, result in timed.items() if result.time is not None}
    chosen: dict[str, None] = {}
    for variant in (variant for experiment in plan.experiments for variant in experiment.variants):
        before = [calls for swap in variant.swaps for calls in swap.before]
        after = [calls for swap in variant.swaps for calls in swap.after]
        for side in (before, after):
            ns = {calls.unit: calls.calls * times.get(calls.unit, 0.0) for calls in side}
            left = METERED * sum(ns.values())
            for unit in sorted(ns, key=ns.__getitem__, reverse=True):
                if left <= 0:
                    break
                chosen[unit] = None
                left -= ns[unit]
    return tuple(chosen)


def _replayed(
    plan: ProofPlan,
    group: UnitsUnderSettings,
    path: Path,
    options: RunOptions,
    progress: Callable[[Progress], None],
    choose_metered: ChooseMetered,
    ranks: Mapping[str, int],
    deadline: float,
) -> ReplayResult:
    replay = replace(
        plan.replay,
        id="",
        settings=plan.replay.settings | group.settings,
        units=tuple(unit for unit in plan.replay.units if unit.id in group.units),
    )
    replay = _with_needed_sources(replay)
    replay_plans.save(path, replay)
    result = path.with_name(path.name.replace(".plan.json", ".result.json"))
    return run_plan(
        path,
        result,
        replace(options, timer=group.timer or options.timer),
        progress,
        choose_metered=choose_metered,
        ranks=ranks,
        deadline=deadline,
    )


def _with_needed_sources(plan: ReplayPlan) -> ReplayPlan:
    needed = {unit.triton.source for unit in plan.units if unit.triton is not None}
    return replace(plan, sources={name: source for name, source in plan.sources.items() if name in needed})


def _shared_progress(
    progress: Callable[[Progress], None], groups: Sequence[UnitsUnderSettings], number: int, comparisons: int
) -> Callable[[Progress], None]:
    """The progress of one replay as a part of all of them."""
    sizes = [len(group.units) for group in groups]
    total, before = sum(sizes) + comparisons, sum(sizes[:number])

    def report(state: Progress) -> None:
        share = (before + sizes[number] * state.share) / total
        progress(replace(state, done=before + state.done, total=total, share=share))

    return report


def _comparing_progress(
    progress: Callable[[Progress], None], plan: ProofPlan, groups: Sequence[UnitsUnderSettings]
) -> Callable[[str], None]:
    """Reports the variant whose outputs are compared next; none at the end."""
    timed = sum(len(group.units) for group in groups)
    total = timed + len(plan.compared())
    done = timed

    def report(variant: str) -> None:
        nonlocal done
        progress(Progress(done, total, variant, "outputs" if variant else "", done / total))
        done += 1

    return report


def _result(
    plan: ProofPlan,
    runs: Sequence[ReplayResult],
    units: dict[str, UnitResult],
    outputs: Outputs,
    left_out: Sequence[str],
) -> ProofResult:
    notes = dict.fromkeys(note for run in runs for note in run.notes if not note.startswith(NOT_REACHED_WITHIN))
    notes |= dict.fromkeys(left_out)
    return ProofResult(
        plan=plan.id,
        trace=plan.replay.trace,
        content_hash=plan.replay.content_hash,
        device=runs[0].device if runs else "",
        experiments=tuple(_experiment(experiment, units, outputs) for experiment in plan.experiments),
        per_step=plan.per_step,
        versions=runs[0].versions if runs else {},
        notes=tuple(dict.fromkeys((*plan.notes, *notes))),
    )


def _left_out(plan: ProofPlan, units: Mapping[str, UnitResult], outputs: Outputs, options: RunOptions) -> list[str]:
    """What the seconds of a run did not reach; empty where they sufficed."""
    late = not_reached(options.seconds)
    untimed = {unit.id for unit in units.values() if unit.reason == late}
    codes = dict.fromkeys(
        experiment.finding
        for experiment in plan.experiments
        for variant in experiment.variants
        for calls in _units_of(variant)
        if calls.unit in untimed
    )
    uncompared = sum(compared.reason == late for compared in outputs.values())
    timed = {name: unit for name, unit in units.items() if unit.time is not None and unit.time.timer != HOST_TIMER}
    chosen = units_to_meter(plan, timed) if options.energy is not False else ()
    unmetered = [name for name in chosen if timed[name].energy is None]
    parts = [f"{len(untimed)} of {len(units)} units (of {', '.join(codes)})"] if untimed else []
    parts += [f"the outputs of {plural(uncompared, 'change')}"] if uncompared else []
    parts += [f"the energy of {plural(len(unmetered), 'unit')}"] if unmetered else []
    return [f"{late}: {'; '.join(parts)}"] if parts else []


def _units_of(variant: Variant) -> list[UnitCalls]:
    swaps = (*variant.swaps, *([variant.whole_step] if variant.whole_step is not None else []))
    return [calls for swap in swaps for calls in (*swap.before, *swap.after)]


def _experiment(experiment: Experiment, units: dict[str, UnitResult], outputs: Outputs) -> ExperimentResult:
    return ExperimentResult(
        experiment.finding,
        experiment.place,
        experiment.title,
        tuple(_variant(variant, units, outputs) for variant in experiment.variants),
        experiment.traced_ns,
        experiment.reason,
        experiment.evidence,
        experiment.advice,
    )


def _variant(variant: Variant, units: dict[str, UnitResult], outputs: Outputs) -> VariantResult:
    """The swaps of which both sides ran; a variant without any has failed."""
    swaps: list[SwapResult] = []
    failures: dict[str, None] = {}
    for swap in variant.swaps:
        missing = [units[calls.unit] for calls in (*swap.before, *swap.after) if units[calls.unit].time is None]
        otherwise = [units[calls.unit] for calls in swap.after if _is_timed_otherwise(units[calls.unit], variant.timer)]
        if missing or otherwise:
            failures |= dict.fromkeys(f"{unit.op}: {unit.reason or unit.status}" for unit in missing)
            failures |= dict.fromkeys(note for unit in otherwise for note in unit.notes)
            continue
        swaps.append(_swap(swap, units, outputs))
    status = result_file.DONE if swaps else result_file.FAILED
    result = VariantResult(variant.name, status, tuple(swaps), tuple(failures), variant.notes)
    return _with_whole_step(result, variant.whole_step, units) if swaps and variant.whole_step is not None else result


def _with_whole_step(result: VariantResult, swap: Swap, units: dict[str, UnitResult]) -> VariantResult:
    """A note instead where a side could not be run as a graph: its time would have the host's launches in it."""
    for unit in (units[calls.unit] for calls in (*swap.before, *swap.after)):
        if unit.time is None or _is_timed_otherwise(unit, SUSTAINED):
            reason = next(iter((*filter(None, [unit.reason]), *unit.notes)), unit.status)
            return replace(result, notes=(*result.notes, f"not run within the whole step: {reason}"))
    return replace(result, whole_step=_swap(swap, units, {}))


def _is_timed_otherwise(unit: UnitResult, timer: str) -> bool:
    """Whether a graph was asked for and could not be captured."""
    return bool(timer) and unit.time is not None and unit.time.timer not in (timer, HOST_TIMER)


def _swap(swap: Swap, units: dict[str, UnitResult], outputs: Outputs) -> SwapResult:
    compared = outputs.get(swap)
    return SwapResult(
        _side(swap.before, units),
        _side(swap.after, units),
        traced_ns=sum(calls.calls * units[calls.unit].traced.median_ns for calls in swap.before),
        difference=compared.difference if compared is not None else None,
        no_difference=compared.reason if compared is not None else "",
    )


def _side(calls: Iterable[UnitCalls], units: dict[str, UnitResult]) -> Side:
    members = [(units[member.unit], member.calls) for member in calls]
    ns = sum(number * unit.time.median_ns for unit, number in members if unit.time is not None)
    return Side(
        ns,
        _joules(members),
        ops=tuple(dict.fromkeys(unit.op for unit, _ in members)),
        kernels=tuple(dict.fromkeys(_longest(unit) for unit, _ in members if unit.kernels)),
        launches=sum(number * len(unit.kernels) for unit, number in members),
    )


def _joules(members: Sequence[tuple[UnitResult, float]]) -> float | None:
    """Idle power included: the card draws it for as long as the calls take."""
    return whole_joules(
        [
            (number * unit.time.median_ns, number * unit.energy.total_j if unit.energy is not None else None)
            for unit, number in members
            if unit.time is not None
        ]
        or [(0.0, 0.0)]
    )


def _longest(unit: UnitResult) -> str:
    return max(unit.kernels, key=lambda kernel: kernel.median_ns).name

"""The Triton kernels of a recorded run, each compiled as it was launched, beside the time that the run spent in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from warplens.analyses.workspace import Workspace
from warplens.hardware import Gpu, gpu_named
from warplens.planning import make_plan
from warplens.planning.context import context_of
from warplens.proof.experiments.call_runs import RecordedCalls
from warplens.proof.experiments.finding_units import UnitInStep
from warplens.proof.experiments.unit_edits import NoExperiment
from warplens_lab.checking.checks import CheckResult, KernelCheck
from warplens_lab.compiling.targets import TARGETS
from warplens_lab.measured.autotune_table import TunedConfig
from warplens_lab.measured.joining import KernelMeasurements
from warplens_lab.measured.work import LaunchWork, reached
from warplens_lab.proof.kernel_checks import LabTarget, checked_launches, target_of, why_not
from warplens_run.base.errors import UsageError, WarplensError
from warplens_run.formats.replay_plan import DTYPES as ELEMENT_BYTES
from warplens_run.formats.replay_plan import READY, Argument, ReplayPlan, Unit

NO_KERNEL: Final = "{} has no Triton kernel whose source and arguments were recorded"
RECORD_HINT: Final = "warplens profile -o run.warplens SCRIPT.py records both"
NOT_CHECKED: Final = "{} was not checked: {}"
FROM_ARGUMENTS: Final = "the tensors that it is given, each byte once"


def check_run(
    work: Workspace, path: Path, *, allow_source: bool, target: str = "", most: int | None = None, max_bytes: int = 0
) -> CheckResult:
    """Most GPU time first. `path` is where the trace was opened from; `most` limits how many kernels are compiled.

    Compiling imports the recorded sources, which `allow_source` allows.
    """
    reason = why_not(allow_source=allow_source)
    if reason:
        raise UsageError(reason, hint="" if allow_source else "--allow-source, for a run that you recorded yourself")
    plan = make_plan(work, path, max_bytes=max_bytes)
    texts = {name: source.text for name, source in plan.sources.items()}
    recorded = RecordedCalls(work, dict(enumerate(plan.units)), texts)
    launched = sorted((unit for unit in plan.units if unit.triton is not None), key=lambda unit: -unit.times.total_ns)
    if not launched:
        raise UsageError(NO_KERNEL.format(path.name), hint=RECORD_HINT)
    lab = LabTarget(target) if target else _target(recorded, plan)
    gpu_ns = max(int(work.gpu["dur_ns"].sum()), 1)
    checks: list[KernelCheck] = []
    notes: list[str] = []
    for source, name, units in _by_kernel(launched)[:most]:
        try:
            members = [UnitInStep(unit, unit.count) for unit in units if unit.status == READY]
            if not members:
                raise NoExperiment(units[0].reason)
            for check, own in checked_launches(members, texts[source], lab):
                checks.append(_measured(check, own, path.name, gpu_ns, lab))
        except (WarplensError, NoExperiment) as error:
            notes.append(NOT_CHECKED.format(name, error))
    checks.sort(key=lambda check: -check.measured.total_ns if check.measured else 0)
    return CheckResult(tuple(checks), tuple(notes), is_of_run=True, tuned=_tuned(path, max_bytes))


def _tuned(path: Path, max_bytes: int) -> tuple[TunedConfig, ...]:
    recorded = context_of(path, None, max_bytes=max_bytes).recorded
    return tuple(
        TunedConfig(kernel.function, tuned.key, tuned.config, tuned.ms and tuned.ms * 1e3, tuned.chosen)
        for kernel in (recorded.kernels if recorded else ())
        for tuned in kernel.tuned
    )


def _target(recorded: RecordedCalls, plan: ReplayPlan) -> LabTarget:
    try:
        return target_of(recorded.work.hardware, plan.gpus)
    except NoExperiment as error:
        raise UsageError(f"the kernels cannot be compiled: {error}", hint="--target sm90 names another") from None


def _by_kernel(units: Sequence[Unit]) -> list[tuple[str, str, list[Unit]]]:
    """Source, name and launches of each kernel, most time first."""
    groups: dict[tuple[str, str], list[Unit]] = {}
    for unit in units:
        assert unit.triton is not None
        groups.setdefault((unit.triton.source, unit.triton.kernel), []).append(unit)
    listed = [(source, name, members) for (source, name), members in groups.items()]
    return sorted(listed, key=lambda entry: -sum(unit.times.total_ns for unit in entry[2]))


def _measured(
    check: KernelCheck, members: Sequence[UnitInStep], source: str, gpu_ns: int, target: LabTarget
) -> KernelCheck:
    units = [member.unit for member in members]
    count, total_ns = sum(unit.count for unit in units), sum(unit.times.total_ns for unit in units)
    gpu: Gpu = gpu_named(target.card) if target.card else TARGETS[check.facts.target].gpu()
    moved = sum(_bytes(unit) * unit.count for unit in units) / max(count, 1)
    work = LaunchWork((), moved, FROM_ARGUMENTS) if moved else None
    measured = KernelMeasurements(
        kernels=tuple(dict.fromkeys(kernel.name for unit in units for kernel in unit.kernels)),
        source=source,
        count=count,
        total_ns=total_ns,
        gpu_percent=100 * total_ns / gpu_ns,
        work=work,
        # Of a product the operations count, which nobody has recorded.
        reached=reached(work, gpu, total_ns / 1e3 / count) if work and count and not check.facts.dots else None,
        grids=tuple((unit.triton.grid, unit.times.total_ns) for unit in units if unit.triton and unit.triton.grid),
        card=gpu.name,
    )
    return replace(check, launches=count, measured=measured)


def _bytes(unit: Unit) -> float:
    """Of the tensors that the launch is given, one that is given twice counted once."""
    views = {_view(argument) for given in unit.arguments for argument in _tensors(given)}
    return float(sum(size for _, _, size in views))


def _tensors(given: Argument) -> list[Argument]:
    return [*([given] if given.tensor is not None else []), *(part for item in given.items for part in _tensors(item))]


def _view(given: Argument) -> tuple[int, int, int]:
    view = given.tensor
    assert view is not None
    count = 1
    for side in view.shape:
        count *= side
    return view.storage, view.offset, count * ELEMENT_BYTES.get(view.dtype, 0)

"""A proof plan: what to run for each finding before and after its change, in units of a replay plan."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from warplens_run.base.errors import FormatError
from warplens_run.formats import replay_plan as plan_file
from warplens_run.formats.records import MAX_COUNT, decode, encode, load_json, save_json
from warplens_run.formats.replay_plan import ReplayPlan

FORMAT: Final = "warplens-proof-plan"
VERSION: Final = 1
OF_KERNEL_LAB: Final = "WK"
"""How the codes of its suggestions begin: they are not among the findings of a trace."""
Settings = dict[str, str | int | float | bool]


@dataclass(frozen=True)
class UnitCalls:
    """A unit of the plan, and how often it runs: per step, or in the trace where no steps are marked."""

    unit: str
    calls: float


@dataclass(frozen=True)
class Swap:
    """Units, and what runs instead of them: nothing, where they are not needed at all."""

    before: tuple[UnitCalls, ...]
    after: tuple[UnitCalls, ...] = ()
    reference: str = ""
    """The unit whose outputs those of the first unit after the change are compared with; none: they are not."""


@dataclass(frozen=True)
class Variant:
    """One way to make the change."""

    name: str
    swaps: tuple[Swap, ...]
    settings: Settings = field(default_factory=dict)
    """PyTorch's switches for what runs after the change, besides those of the trace."""
    notes: tuple[str, ...] = ()
    timer: str = ""
    """How what runs after the change is timed; empty: as asked for."""
    whole_step: Swap | None = None
    """All calls of a step without and with the change, which are timed under lasting load; None: they are not run."""


@dataclass(frozen=True)
class Experiment:
    """What is run for a finding, or for a suggestion of the kernel lab; or the reason why nothing can be."""

    finding: str
    """Its code."""
    place: str
    title: str
    variants: tuple[Variant, ...] = ()
    traced_ns: float = 0.0
    """GPU time in the trace of the work that the change is about; per step where steps are marked."""
    reason: str = ""
    evidence: str = ""
    advice: str = ""
    """Of a suggestion of the kernel lab, which is not among the findings of the trace."""


@dataclass(frozen=True)
class ProofPlan:
    replay: ReplayPlan
    """All units, of before and after."""
    experiments: tuple[Experiment, ...]
    per_step: bool = True
    """Calls and times are of a step; else of the whole trace."""
    notes: tuple[str, ...] = ()
    format: str = FORMAT
    version: int = VERSION

    @property
    def id(self) -> str:
        return self.replay.id

    def compared(self) -> dict[str, Swap]:
        """The swaps whose outputs are compared with others, by their place: experiment, variant, swap."""
        return {
            f"{number}.{place}.{swap_place}": swap
            for number, experiment in enumerate(self.experiments)
            for place, variant in enumerate(experiment.variants)
            for swap_place, swap in enumerate(variant.swaps)
            if swap.reference
        }


def load(path: Path) -> ProofPlan:
    return parse(load_json(path), str(path))


def parse(value: Any, where: str = "") -> ProofPlan:
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise FormatError("not a proof plan", where=where, hint="warplens prove plan TRACE -o PLAN makes one")
    version = value.get("version")
    if version != VERSION:
        raise FormatError(f"a proof plan of version {version!r}; this Warplens reads {VERSION}", where=where)
    try:
        plan = decode(ProofPlan, value)
        plan = replace(plan, replay=plan_file.parse(value["replay"]))
        _check(plan)
    except FormatError as error:
        raise FormatError(str(error), where=where, hint="was it edited by hand?") from error
    return plan


def save(path: Path, plan: ProofPlan, *, force: bool = True) -> None:
    save_json(path, to_json(plan), force=force)


def to_json(plan: ProofPlan) -> dict[str, Any]:
    whole: dict[str, Any] = {"format": plan.format, "version": plan.version} | encode(plan)
    return whole | {"replay": plan_file.to_json(plan_file.with_id(plan.replay))}


def _check(plan: ProofPlan) -> None:
    units = {unit.id for unit in plan.replay.units}
    for number, experiment in enumerate(plan.experiments):
        for variant in experiment.variants:
            for swap in (*variant.swaps, *filter(None, [variant.whole_step])):
                _check_swap(swap, units, f"experiments[{number}]")


def _check_swap(swap: Swap, units: set[str], where: str) -> None:
    for calls in (*swap.before, *swap.after):
        if calls.unit not in units:
            raise FormatError(f"no unit {calls.unit!r}", where=where)
        if not 0 < calls.calls < MAX_COUNT:
            raise FormatError(f"not a number of calls: {calls.calls}", where=where)
    if swap.reference and (swap.reference not in units or not swap.after):
        raise FormatError(f"nothing to compare with {swap.reference!r}", where=where)

"""Ops that follow each other on the same data, as one compiled function; casts between them left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from warplens.proof.experiments.call_runs import CallRun
from warplens.proof.experiments.changed_units import MOST_UNITS, ChangedUnits
from warplens.proof.experiments.finding_units import FindingUnits
from warplens.proof.experiments.sequences import CHAIN, COMPILED_CHAIN, separate_calls_unit
from warplens.proof.experiments.unit_edits import NoExperiment, retyped, tensors_of
from warplens_run.formats.proof_plan import Swap, UnitCalls, Variant
from warplens_run.formats.replay_plan import Unit

CASTS: Final = ("aten::copy_", "aten::_to_copy")
FUSABLE: Final = ("Elementwise", "Memory Ops", "Normalization", "Reduction")
"""Categories of ops that a compiler makes one kernel of with the casts beside them."""
WIDE: Final = "float32"
NARROW: Final = ("bfloat16", "float16")
LONGEST_RUN: Final = 64
MOST_RUNS: Final = 12
INFERRED: Final = "what each op reads is inferred from shapes and types"


def compile_chains(about: FindingUnits, changed: ChangedUnits) -> None:
    """WL205: each chain as one function, compiled."""
    _compile(changed, _longest(about.recorded.runs(about.events)))


def leave_out_casts(about: FindingUnits, changed: ChangedUnits) -> None:
    """WL206: what is between two casts in the smaller type, without the casts; or all of it compiled."""
    runs = _longest(about.recorded.runs(about.events, FUSABLE))
    _keep_one_type(changed, runs)
    _compile(changed, runs)


def _longest(runs: Sequence[CallRun]) -> list[CallRun]:
    """The runs with most GPU time."""
    runs = [run for run in runs if len(run.units) <= LONGEST_RUN]
    if not runs:
        raise NoExperiment("no two of its ops follow each other as ops that can be run again")
    return sorted(runs, key=lambda run: -run.calls * sum(unit.times.median_ns for unit in run.units))[:MOST_RUNS]


def _compile(changed: ChangedUnits, runs: Sequence[CallRun]) -> None:
    swaps = []
    for number, run in enumerate(runs):
        compiled = separate_calls_unit(f"chain{number}.compiled", COMPILED_CHAIN, run.units)
        eager = separate_calls_unit(f"chain{number}.eager", CHAIN, run.units)
        changed.units |= {compiled.id: compiled, eager.id: eager}
        before = tuple(UnitCalls(name, count * run.calls) for name, count in _counted(run.units).items())
        swaps.append(Swap(before, (UnitCalls(compiled.id, run.calls),), reference=eager.id))
    changed.variants.append(Variant("torch.compile", tuple(swaps), notes=(INFERRED,)))


def _counted(units: Sequence[Unit]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for unit in units:
        counts[unit.id] = counts.get(unit.id, 0) + 1
    return counts


def _keep_one_type(changed: ChangedUnits, runs: Sequence[CallRun]) -> None:
    units = {unit.id: unit for run in runs for unit in run.units}
    calls: dict[str, float] = {}
    for run in runs:
        for name, count in _counted(run.units).items():
            calls[name] = calls.get(name, 0.0) + count * run.calls
    narrow = [dtype for unit in units.values() if _is_cast(unit) for dtype in sorted(_dtypes(unit) - {WIDE})]
    if not narrow:
        return
    dtypes = {WIDE: max(set(narrow), key=narrow.count)}
    swaps = []
    longest = sorted(units.items(), key=lambda item: -calls[item[0]] * item[1].times.median_ns)
    for name, unit in longest[:MOST_UNITS]:
        before = (UnitCalls(name, calls[name]),)
        if _is_cast(unit):
            swaps.append(Swap(before))
        elif WIDE in _dtypes(unit):
            try:
                other = retyped(unit, "narrow", dtypes)
            except NoExperiment:
                continue
            changed.units[other.id] = other
            swaps.append(Swap(before, (UnitCalls(other.id, calls[name]),), reference=name))
    changed.variants.append(Variant(f"all in {dtypes[WIDE]}", tuple(swaps)))


def _is_cast(unit: Unit) -> bool:
    """Between floating-point types: one to or from other types changes what is computed."""
    dtypes = _dtypes(unit)
    return unit.op in CASTS and len(dtypes) == 2 and WIDE in dtypes and not dtypes - {WIDE, *NARROW}


def _dtypes(unit: Unit) -> set[str]:
    return {tensor.dtype for tensor in tensors_of(unit)}

"""Two compilations of a kernel side by side: what got better, what got worse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from warplens.model.table import Column, Table
from warplens_lab.comparing.access_costs import conflict_differences, sector_differences, width_differences
from warplens_lab.comparing.verdicts import CHANGED, IMPROVEMENT, REGRESSION, SAME, FactDifference, Shown, verdict_of
from warplens_lab.facts.records import KernelFacts
from warplens_lab.facts.saving import load_facts
from warplens_run.base.errors import UsageError


@dataclass(frozen=True)
class Measure:
    """A fact that two compilations are compared by. `better` is "lower", "higher" or "" where neither is."""

    name: str
    of: Callable[[KernelFacts], Shown]
    better: str
    tolerance: float = 0.0
    """Relative; smaller changes count as none, as of figures that any change of the compiler moves a little."""
    limits_occupancy: str = ""
    """The limit of a block that it counts towards: it is better or worse only where that makes more or fewer fit."""
    may_worsen: bool = True
    """Otherwise the other direction is a change: more instructions may be an unrolled loop."""


def _occupancy(facts: KernelFacts) -> Shown:
    return facts.occupancy.percent if facts.occupancy else None


def narrowest_bits(facts: KernelFacts) -> int | None:
    widths = [a.width_bits for a in facts.accesses if a.is_tile and a.width_bits and not a.is_indirect]
    return min(widths, default=None)


def matrix_dots(facts: KernelFacts) -> int:
    return sum(dot.uses_matrix_unit for dot in facts.dots)


def _conflicts(facts: KernelFacts) -> Shown:
    counted = [access.conflicts for access in facts.shared if access.conflicts is not None]
    return max(counted, default=None)


def _scattered(facts: KernelFacts) -> Shown:
    """Accesses for which a warp touches more sectors than its bytes fill."""
    if not facts.is_cuda:
        return None
    return sum(a.sectors is not None and a.sectors > (a.sectors_needed or 0) for a in facts.accesses)


OCCUPANCY: Final = Measure("occupancy_percent", _occupancy, "higher", 0.1)
NARROWEST: Final = Measure("narrowest_access_bits", narrowest_bits, "higher")
CONFLICTS: Final = Measure("bank_conflicts", _conflicts, "lower")
SCATTERED: Final = Measure("scattered_accesses", _scattered, "lower")
MEASURES: Final = (
    Measure("compiles", lambda f: int(f.is_compiled), "higher"),
    Measure("registers", lambda f: f.registers, "lower", 0.1, limits_occupancy="registers"),
    Measure("spill_bytes", lambda f: f.spill_bytes, "lower"),
    Measure("stack_bytes", lambda f: f.stack_bytes, "lower"),
    Measure("shared_bytes", lambda f: f.shared_bytes, "lower", 0.1, limits_occupancy="shared memory"),
    OCCUPANCY,
    NARROWEST,
    Measure("dots_on_the_matrix_unit", matrix_dots, "higher"),
    Measure("matrix_instruction", lambda f: ", ".join(f.matrix_instructions) or "none", ""),
    Measure("pipelined_loops", lambda f: sum(loop.is_pipelined for loop in f.loops), "higher"),
    Measure("buffers", lambda f: f.buffers, "higher", may_worsen=False),
    Measure("async_copies", lambda f: f.async_copies + f.tma_copies, "higher", may_worsen=False),
    Measure("conversions_in_loops", lambda f: sum(c.in_loop and c.through == "warps" for c in f.conversions), "lower"),
    CONFLICTS,
    Measure("divergent_branches", lambda f: f.divergent_branches if f.is_cuda else None, "lower"),
    SCATTERED,
    Measure("instructions", lambda f: f.instructions, "lower", 0.1, may_worsen=False),
    Measure("instructions_in_loops", lambda f: sum(line.in_loops for line in f.lines), "lower", 0.1, may_worsen=False),
    Measure("remarks", lambda f: len(f.remarks), "lower", may_worsen=False),
)

COLUMNS: Final = (
    Column("kernel", "its name", "", pl.String),
    Column("target", "what it was compiled for", "", pl.String),
    Column("measure", "the fact, or the line and argument of an access", "", pl.String),
    Column("before", "in the first", "", pl.String),
    Column("after", "in the second", "", pl.String),
    Column("verdict", "regression, improvement, changed, or same", "", pl.String),
)
TIME: Final = "mean_us"
TIME_TOLERANCE: Final = 0.05
"""Launches of one kernel differ by a few percent from run to run."""


def differences(before: KernelFacts, after: KernelFacts) -> list[FactDifference]:
    """Every measure of both, and the accesses whose width changed."""
    widths = list(width_differences(before, after))
    # A kernel's worst access says nothing of the others: it is as good or bad as one of them is, one by one.
    one_by_one = {NARROWEST: widths, CONFLICTS: conflict_differences(before, after)}
    one_by_one[SCATTERED] = sector_differences(before, after)
    compared = []
    for measure in MEASURES:
        verdict = _measured(measure, before, after)
        accesses = one_by_one.get(measure)
        if verdict != SAME and (accesses or measure == NARROWEST):
            verdict = verdict if verdict in {row.verdict for row in accesses or ()} else CHANGED
        compared.append(FactDifference(measure.name, measure.of(before), measure.of(after), verdict))
    return compared + widths


def _measured(measure: Measure, before: KernelFacts, after: KernelFacts) -> str:
    verdict = verdict_of(measure.better, measure.of(before), measure.of(after), measure.tolerance)
    if verdict not in (IMPROVEMENT, REGRESSION):
        return verdict
    if measure.limits_occupancy:
        limited = (after if verdict == REGRESSION else before).occupancy
        is_cause = limited is not None and limited.limiter == measure.limits_occupancy
        return verdict if is_cause and _measured(OCCUPANCY, before, after) == verdict else CHANGED
    return CHANGED if verdict == REGRESSION and not measure.may_worsen else verdict


def compare(
    before: KernelFacts, after: KernelFacts, before_us: float | None = None, after_us: float | None = None
) -> Table:
    """`kernel_diff`: one row per measure; a CI gate looks for the verdict "regression".

    The times are the mean durations of a launch, where both were measured.
    """
    measured = []
    if before_us and after_us:
        verdict = verdict_of("lower", before_us, after_us, TIME_TOLERANCE)
        measured.append(FactDifference(TIME, before_us, after_us, verdict))
    rows = [
        {
            "kernel": after.kernel,
            "target": before.target if before.target == after.target else f"{before.target} → {after.target}",
            "measure": difference.measure,
            "before": _text(difference.before),
            "after": _text(difference.after),
            "verdict": difference.verdict,
        }
        for difference in (
            *measured,
            *differences(before, after),
            *conflict_differences(before, after),
            *sector_differences(before, after),
        )
    ]
    notes = [
        f"{name}: {first} → {second}"
        for name, first, second in (
            ("compiler", before.compiler_text, after.compiler_text),
            ("config", before.config, after.config),
            ("signature", before.signature, after.signature),
        )
        if first != second
    ]
    return Table.from_rows("kernel_diff", "one row per measure of two compilations", COLUMNS, rows, *notes)


def compare_files(before: Path, after: Path) -> list[Table]:
    """A table per kernel and target of the two files, then one of those that only one of them has."""
    return compare_facts(load_facts(before), load_facts(after))


def compare_facts(
    old: Sequence[KernelFacts],
    new: Sequence[KernelFacts],
    old_us: Sequence[float | None] = (),
    new_us: Sequence[float | None] = (),
) -> list[Table]:
    """The same of facts that are known already, with the mean durations of their launches where these are."""
    pairs = _pairs(old, new)
    if not pairs and len(old) == len(new) == 1:
        pairs = [(0, 0)]  # two targets of one kernel
    if not pairs:
        raise UsageError("the two have no kernel in common", hint="they are matched by kernel, target and config")
    alone = [(facts, "before") for at, facts in enumerate(old) if at not in {first for first, _ in pairs}]
    alone += [(facts, "after") for at, facts in enumerate(new) if at not in {second for _, second in pairs}]
    tables = [
        compare(old[first], new[second], *((old_us[first], new_us[second]) if old_us and new_us else ()))
        for first, second in pairs
    ]
    return tables + ([_left_over(alone)] if alone else [])


def _pairs(old: Sequence[KernelFacts], new: Sequence[KernelFacts]) -> list[tuple[int, int]]:
    """Equal configs first; then what is left of a kernel and target, in order: its config was changed."""
    pairs: list[tuple[int, int]] = []
    for key in (_same_config, _same_kernel):
        waiting: dict[tuple[str, ...], list[int]] = {}
        for at, facts in enumerate(new):
            if at not in {second for _, second in pairs}:
                waiting.setdefault(key(facts), []).append(at)
        for at, facts in enumerate(old):
            if at not in {first for first, _ in pairs} and waiting.get(key(facts)):
                pairs.append((at, waiting[key(facts)].pop(0)))
    return sorted(pairs)


def _same_config(facts: KernelFacts) -> tuple[str, ...]:
    return facts.kernel, facts.target, facts.config


def _same_kernel(facts: KernelFacts) -> tuple[str, ...]:
    return facts.kernel, facts.target


def _left_over(alone: Sequence[tuple[KernelFacts, str]]) -> Table:
    rows = [
        {
            "kernel": facts.kernel,
            "target": facts.target,
            "measure": f"compiled with {facts.config or 'defaults'}",
            "before": "yes" if where == "before" else "no",
            "after": "yes" if where == "after" else "no",
            "verdict": REGRESSION if where == "before" else CHANGED,
        }
        for facts, where in alone
    ]
    return Table.from_rows("kernel_diff", "what only one of the two has", COLUMNS, rows)


def regressions(diff: Table) -> list[str]:
    return [row["measure"] for row in diff.to_dicts() if row["verdict"] == REGRESSION]


def _text(value: Shown) -> str | None:
    return f"{value:g}" if isinstance(value, float) else None if value is None else str(value)

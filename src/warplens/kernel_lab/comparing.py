"""Two compilations of a kernel side by side: what got better, what got worse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from warplens.errors import UsageError
from warplens.kernel_lab.facts.records import Access, KernelFacts
from warplens.kernel_lab.facts.saving import load_facts
from warplens.model.table import Column, Table

Number = float | int
Shown = Number | str | None


@dataclass(frozen=True)
class Measure:
    """A fact that two compilations are compared by. `better` is "lower", "higher" or "" where neither is."""

    name: str
    of: Callable[[KernelFacts], Shown]
    better: str
    tolerance: float = 0.0
    """Relative; smaller changes count as none, as of figures that any change of the compiler moves a little."""
    costs_occupancy: bool = False
    """More of it is worse only where fewer warps fit because of it."""


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


MEASURES: Final = (
    Measure("compiles", lambda f: int(f.is_compiled), "higher"),
    Measure("registers", lambda f: f.registers, "lower", 0.1, costs_occupancy=True),
    Measure("spill_bytes", lambda f: f.spill_bytes, "lower"),
    Measure("stack_bytes", lambda f: f.stack_bytes, "lower"),
    Measure("shared_bytes", lambda f: f.shared_bytes, "lower", 0.1, costs_occupancy=True),
    Measure("occupancy_percent", _occupancy, "higher", 0.1),
    Measure("narrowest_access_bits", narrowest_bits, "higher"),
    Measure("dots_on_the_matrix_unit", matrix_dots, "higher"),
    Measure("matrix_instruction", lambda f: ", ".join(f.matrix_instructions) or "none", ""),
    Measure("pipelined_loops", lambda f: sum(loop.is_pipelined for loop in f.loops), "higher"),
    Measure("buffers", lambda f: f.buffers, "higher"),
    Measure("async_copies", lambda f: f.async_copies + f.tma_copies, "higher"),
    Measure("conversions_in_loops", lambda f: sum(c.in_loop and c.through == "warps" for c in f.conversions), "lower"),
    Measure("bank_conflicts", _conflicts, "lower"),
    Measure("divergent_branches", lambda f: f.divergent_branches if f.is_cuda else None, "lower"),
    Measure("scattered_accesses", _scattered, "lower"),
    Measure("instructions", lambda f: f.instructions, "lower", 0.1),
    Measure("instructions_in_loops", lambda f: sum(line.in_loops for line in f.lines), "lower", 0.1),
    Measure("remarks", lambda f: len(f.remarks), "lower"),
)

COLUMNS: Final = (
    Column("kernel", "its name", "", pl.String),
    Column("target", "what it was compiled for", "", pl.String),
    Column("measure", "the fact, or the line and argument of an access", "", pl.String),
    Column("before", "in the first", "", pl.String),
    Column("after", "in the second", "", pl.String),
    Column("verdict", "regression, improvement, changed, or same", "", pl.String),
)
REGRESSION: Final = "regression"
TIME: Final = "mean_us"
TIME_TOLERANCE: Final = 0.05
"""Launches of one kernel differ by a few percent from run to run."""


@dataclass(frozen=True)
class FactDifference:
    measure: str
    before: Shown
    after: Shown
    verdict: str


def differences(before: KernelFacts, after: KernelFacts) -> list[FactDifference]:
    """Every measure of both, and the accesses whose width changed."""
    fewer_fit = _verdict("higher", _occupancy(before), _occupancy(after), 0.0) == REGRESSION
    compared = []
    for measure in MEASURES:
        first, second = measure.of(before), measure.of(after)
        verdict = _verdict(measure.better, first, second, measure.tolerance)
        if verdict == REGRESSION and measure.costs_occupancy and not fewer_fit:
            verdict = "changed"
        compared.append(FactDifference(measure.name, first, second, verdict))
    return compared + _width_changes(before, after)


def compare(
    before: KernelFacts, after: KernelFacts, before_us: float | None = None, after_us: float | None = None
) -> Table:
    """`kernel_diff`: one row per measure; a CI gate looks for the verdict "regression".

    The times are the mean durations of a launch, where both were measured.
    """
    measured = []
    if before_us and after_us:
        verdict = _verdict("lower", before_us, after_us, TIME_TOLERANCE)
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
        for difference in (*measured, *differences(before, after))
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
            "verdict": REGRESSION if where == "before" else "changed",
        }
        for facts, where in alone
    ]
    return Table.from_rows("kernel_diff", "what only one of the two has", COLUMNS, rows)


def regressions(diff: Table) -> list[str]:
    return [row["measure"] for row in diff.to_dicts() if row["verdict"] == REGRESSION]


def _width_changes(before: KernelFacts, after: KernelFacts) -> list[FactDifference]:
    """Accesses are distinguished by kind and argument, in their order: lines move when a kernel is edited."""
    first, second = _by_argument(before.accesses), _by_argument(after.accesses)
    return [
        FactDifference(name, first[name].width_bits, second[name].width_bits, _verdict("higher", *widths, 0.0))
        for name in first
        if name in second
        for widths in [(first[name].width_bits, second[name].width_bits)]
        if widths[0] != widths[1]
    ]


def _by_argument(accesses: Sequence[Access]) -> dict[str, Access]:
    by_name: dict[str, Access] = {}
    for access in accesses:
        # Whether a load goes to shared memory by itself is another measure.
        kind = "store" if "store" in access.kind else "atomic" if access.kind == "atomic" else "load"
        name, at = f"{kind} of {access.argument or '?'}", 2
        while name in by_name:
            name = f"{kind} {at} of {access.argument or '?'}"
            at += 1
        by_name[name] = access
    return {f"width of {name}, bits": access for name, access in by_name.items()}


def _verdict(better: str, before: Shown, after: Shown, tolerance: float) -> str:
    if before == after:
        return "same"
    if not better or not isinstance(before, (int, float)) or not isinstance(after, (int, float)):
        return "changed"
    if abs(after - before) <= tolerance * max(abs(before), abs(after)):
        return "same"
    return "improvement" if (after > before) == (better == "higher") else REGRESSION


def _text(value: Shown) -> str | None:
    return f"{value:g}" if isinstance(value, float) else None if value is None else str(value)

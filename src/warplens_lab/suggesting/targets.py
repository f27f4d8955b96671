"""Rows that suggestions point at, in the tables of several compilations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from warplens.model.targets import RowTarget, Target
from warplens_lab.facts.records import KernelFacts
from warplens_lab.suggesting.records import Suggestion


def located(compilations: Iterable[tuple[KernelFacts, Iterable[Suggestion]]]) -> Iterator[Suggestion]:
    """The suggestions of several compilations, with targets in the tables that `facts_tables` makes of all of them."""
    before: dict[str, int] = {}
    for facts, suggestions in compilations:
        for suggestion in suggestions:
            yield replace(suggestion, targets=tuple(_shifted(target, before) for target in suggestion.targets))
        for table, rows in _rows(facts).items():
            before[table] = before.get(table, 0) + rows


def _shifted(target: Target, before: dict[str, int]) -> Target:
    if not isinstance(target, RowTarget):
        return target
    return RowTarget(target.table, target.row + before.get(target.table, 0))


def _rows(facts: KernelFacts) -> dict[str, int]:
    """How many rows a compilation has in each table that suggestions point at."""
    return {
        "kernel_facts": 1,
        "kernel_lines": len(facts.lines),
        "kernel_accesses": len(facts.accesses),
        "kernel_layouts": len(facts.shared) + len(facts.conversions),
        "kernel_branches": len(facts.branches),
        "kernel_barriers": len(facts.barriers),
    }

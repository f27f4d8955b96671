"""What a suggestion is, and what rules read and draft."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warplens.model.finding import Finding
from warplens.model.targets import RowTarget
from warplens_lab.compiling.targets import TARGETS, CompileTarget
from warplens_lab.facts.records import (
    Access,
    BarrierUse,
    Branch,
    Conversion,
    KernelFacts,
    SharedAccess,
    SourcePlace,
)
from warplens_lab.suggesting.counterfactual import Change, Counterfactual


@dataclass(frozen=True, kw_only=True)
class Suggestion(Finding):
    """A finding on one compilation of a kernel; `place` is `source` as text.

    The rows of its `targets` count within this compilation's tables; `warplens_lab.suggesting.targets` numbers
    them in the tables of several.
    """

    compiled_for: str
    config: str
    source: SourcePlace | None = None
    counterfactual: Counterfactual | None = None
    grid: tuple[int, ...] | None = None
    """The launches that it is about, where a profile has some with other grids too."""
    others: tuple[SourcePlace, ...] = ()
    """Further places with the same cause."""

    @property
    def places(self) -> tuple[SourcePlace, ...]:
        return (*((self.source,) if self.source is not None else ()), *self.others)


@dataclass(frozen=True)
class Situation:
    """What a rule reads."""

    facts: KernelFacts
    grid: tuple[int, ...] | None = None
    card: str | None = None
    free: frozenset[str] | None = None
    """The constexprs that a config may set; None where that is not known."""
    is_test_data: bool = False
    """The grid comes from a script's own launch: less than one wave of it says nothing about the real problem."""

    @property
    def target(self) -> CompileTarget:
        return TARGETS[self.facts.target]

    @property
    def unit(self) -> str:
        """What holds blocks, in the vendor's term."""
        return unit_of(self.target)

    def constants_equal(self, value: int) -> list[str]:
        """The names of the constants that have the value and may have another."""
        return [name for name, constant in self.facts.constants if constant == value and self.is_free(name)]

    def is_free(self, name: str) -> bool:
        return self.free is None or name in self.free

    @property
    def whole(self) -> RowTarget:
        """The compilation itself."""
        return RowTarget("kernel_facts", 0)

    def access_row(self, access: Access) -> RowTarget:
        return RowTarget("kernel_accesses", self.facts.accesses.index(access))

    def shared_row(self, access: SharedAccess) -> RowTarget:
        return RowTarget("kernel_layouts", self.facts.shared.index(access))

    def conversion_row(self, conversion: Conversion) -> RowTarget:
        return RowTarget("kernel_layouts", len(self.facts.shared) + self.facts.conversions.index(conversion))

    def branch_row(self, branch: Branch) -> RowTarget:
        return RowTarget("kernel_branches", self.facts.branches.index(branch))

    def barrier_row(self, barrier: BarrierUse) -> RowTarget:
        return RowTarget("kernel_barriers", self.facts.barriers.index(barrier))

    def line_row(self, place: SourcePlace | None) -> RowTarget:
        """The line of a place, or the compilation where no machine code is attributed to that line."""
        lines = [(line.place.file, line.place.line) for line in self.facts.lines]
        key = (place.file, place.line) if place else ("", 0)
        return RowTarget("kernel_lines", lines.index(key)) if place and key in lines else self.whole


def unit_of(target: CompileTarget) -> str:
    return "multiprocessor" if target.is_nvidia else "compute unit"


def _first(changes: Sequence[Change]) -> Change:
    return changes[0]


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A suggestion before its changes have been compiled. `{change}` in the advice becomes the one that is shown.

    `{written}` there becomes what `written` makes of it, and `{unknown}` in the evidence the names of `unknown`, those
    first that the change is about.
    """

    code: str
    target: RowTarget
    """The row of this compilation's tables that it is about."""
    place: SourcePlace | None = None
    evidence: str
    advice: str
    changes: tuple[Change, ...] = ()
    helps: Callable[[KernelFacts], bool] = lambda after: True
    smallest: Callable[[Sequence[Change]], Change] = _first
    further: Callable[[Sequence[Change]], tuple[Change, ...]] = lambda helping: ()
    """What to compile besides, now that it is known which of the changes help."""
    needs_proof: bool = False
    otherwise: str = ""
    """The advice where none of the changes helps."""
    unknown: tuple[str, ...] = ()
    written: Callable[[Change], str] = lambda change: ""

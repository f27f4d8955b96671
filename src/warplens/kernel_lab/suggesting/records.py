"""What a suggestion is, and what rules read and draft."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from warplens.kernel_lab.compiling.targets import TARGETS, Target
from warplens.kernel_lab.facts.records import Facts, Place
from warplens.kernel_lab.suggesting.counterfactual import Change, Counterfactual

CODES: Final = {
    "WK101": "registers are spilled to memory",
    "WK102": "an access is narrower than its tile allows",
    "WK103": "a matrix product does not use the matrix unit as it could",
    "WK104": "a loop with a matrix product does not load ahead",
    "WK105": "a layout changes through shared memory inside a loop",
    "WK106": "shared memory is accessed with bank conflicts",
    "WK107": "a mask makes an access narrower",
    "WK108": "few warps fit on a multiprocessor",
    "WK109": "the last wave of blocks leaves much of the card idle",
    "WK110": "the tile is too small or too large",
}


@dataclass(frozen=True)
class Suggestion:
    code: str
    title: str
    target: str
    config: str
    place: Place | None
    evidence: str
    advice: str
    counterfactual: Counterfactual | None = None
    grid: tuple[int, ...] | None = None
    """The launches that it is about, where a profile has some with other grids too."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Situation:
    """What a rule may look at."""

    facts: Facts
    grid: tuple[int, ...] | None = None
    card: str | None = None
    is_test_data: bool = False
    """The grid is that of a script's own launch: less than one wave of it says nothing of the real problem."""

    @property
    def target(self) -> Target:
        return TARGETS[self.facts.target]

    @property
    def unit(self) -> str:
        """What holds blocks, in the vendor's word."""
        return unit_of(self.target)

    def constants_equal(self, value: int) -> list[str]:
        return [name for name, found in self.facts.constants if found == value]


def unit_of(target: Target) -> str:
    return "multiprocessor" if target.is_nvidia else "compute unit"


def counted(count: int, noun: str) -> str:
    """
    >>> counted(1, "block"), counted(3, "block")
    ('1 block', '3 blocks')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _first(changes: Sequence[Change]) -> Change:
    return changes[0]


@dataclass(frozen=True)
class Draft:
    """A suggestion before its changes have been compiled. `{change}` in the advice becomes the one that is shown.

    `{written}` there becomes what `written` makes of it, and `{unknown}` in the evidence the names of `unknown`, those
    first that the change is about.
    """

    code: str
    place: Place | None
    evidence: str
    advice: str
    changes: tuple[Change, ...] = ()
    helps: Callable[[Facts], bool] = lambda after: True
    smallest: Callable[[Sequence[Change]], Change] = _first
    further: Callable[[Sequence[Change]], tuple[Change, ...]] = lambda helping: ()
    """What to compile besides, now that it is known which of the changes help."""
    needs_proof: bool = False
    otherwise: str = ""
    """The advice where none of the changes helps."""
    unknown: tuple[str, ...] = ()
    written: Callable[[Change], str] = lambda change: ""

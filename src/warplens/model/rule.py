"""`Rule`: a check with a stable code, the numbers that decide when it fires, and what `warplens explain CODE` prints.

The rules on traces (`advice/`, WL codes) and on kernels (`kernel_lab/suggesting/`, WK codes) are `RuleSet`s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Generic, NamedTuple, TypeVar

SubjectT = TypeVar("SubjectT")
"""What the checks of a set read."""
ResultT = TypeVar("ResultT")
"""What they yield."""
_REASON = "reason"


def threshold(value: float, reason: str) -> float:
    """A field of `Thresholds`: the number, and why it is this one."""
    declared: float = field(default=value, metadata={_REASON: reason})
    return declared


@dataclass(frozen=True)
class Thresholds:
    """The numbers that decide whether rules fire, one field each.

    >>> @dataclass(frozen=True)
    ... class Limits(Thresholds):
    ...     idle_percent: float = threshold(10.0, "less is normal between steps")
    >>> Limits().idle_percent, Limits().values(), Limits().reasons()
    (10.0, {'idle_percent': 10.0}, {'idle_percent': 'less is normal between steps'})
    """

    def values(self) -> dict[str, float]:
        return {declared.name: getattr(self, declared.name) for declared in fields(self)}

    def reasons(self) -> dict[str, str]:
        return {declared.name: declared.metadata[_REASON] for declared in fields(self)}


class Explanation(NamedTuple):
    """What a code stands for in a few words, and at length; the text names thresholds as `{idle_percent:g}`."""

    title: str
    text: str


@dataclass(frozen=True)
class Rule(Generic[SubjectT, ResultT]):
    code: str
    check: Callable[[SubjectT], Iterator[ResultT]]
    explanation: Explanation
    thresholds: Thresholds

    @property
    def title(self) -> str:
        return self.explanation.title

    def explain(self) -> str:
        """The title and the text, with the thresholds filled in."""
        return f"{self.title}. {self.explanation.text.format(**self.thresholds.values())}"


class RuleSet(Generic[SubjectT, ResultT]):
    """Rules by code, in the order in which they are checked."""

    def __init__(
        self,
        checks: Mapping[str, Callable[[SubjectT], Iterator[ResultT]]],
        explanations: Mapping[str, Explanation],
        thresholds: Thresholds,
    ) -> None:
        if unpaired := set(checks) ^ set(explanations):
            raise ValueError(f"codes with only a check or only an explanation: {', '.join(sorted(unpaired))}")
        self._rules = {code: Rule(code, check, explanations[code], thresholds) for code, check in checks.items()}
        self.thresholds = thresholds

    def __iter__(self) -> Iterator[Rule[SubjectT, ResultT]]:
        return iter(self._rules.values())

    def __contains__(self, code: str) -> bool:
        return code in self._rules

    def __getitem__(self, code: str) -> Rule[SubjectT, ResultT]:
        return self._rules[code]

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(self._rules)

    def explain(self, code: str) -> str:
        return self._rules[code].explain()

"""`CodedRule`: a check with a stable code, the numbers that decide when it fires, and its explanation.

The rules on traces (`advice/`, WL codes) and on kernels (`warplens_lab/suggesting/`, WK codes) are `RuleSet`s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

import msgspec

SubjectT = TypeVar("SubjectT")
"""What the checks of a set read."""
ResultT = TypeVar("ResultT")
"""What they yield."""


class Threshold(float):
    """A number that decides whether a rule fires, and why it is this one."""

    reason: str


def threshold(value: float, reason: str) -> Threshold:
    number = Threshold(value)
    number.reason = reason
    return number


class Thresholds:
    """The numbers that decide whether rules fire, as attributes of the class: they are the same for every trace.

    >>> class Limits(Thresholds):
    ...     idle_percent = threshold(10.0, "less is normal between steps")
    >>> Limits().idle_percent, Limits().values(), Limits().reasons()
    (10.0, {'idle_percent': 10.0}, {'idle_percent': 'less is normal between steps'})
    """

    def values(self) -> dict[str, float]:
        return {name: float(number) for name, number in self._declared()}

    def reasons(self) -> dict[str, str]:
        return {name: number.reason for name, number in self._declared()}

    def _declared(self) -> Iterator[tuple[str, Threshold]]:
        return ((name, number) for name, number in vars(type(self)).items() if isinstance(number, Threshold))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a threshold is not set: {name}")


class Explanation(msgspec.Struct, frozen=True):
    """What a code stands for in a few words, and at length; the text names thresholds as `{idle_percent:g}`."""

    title: str
    text: str


class CodedRule(msgspec.Struct, Generic[SubjectT, ResultT], frozen=True):
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
        self._rules = {code: CodedRule(code, check, explanations[code], thresholds) for code, check in checks.items()}
        self.thresholds = thresholds

    def __iter__(self) -> Iterator[CodedRule[SubjectT, ResultT]]:
        return iter(self._rules.values())

    def __contains__(self, code: str) -> bool:
        return code in self._rules

    def __getitem__(self, code: str) -> CodedRule[SubjectT, ResultT]:
        return self._rules[code]

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(self._rules)

    def explain(self, code: str) -> str:
        return self._rules[code].explain()

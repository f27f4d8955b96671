"""What the rules on traces and on kernels have in common: codes, thresholds, explanations."""

from __future__ import annotations

from collections.abc import Iterator
from string import Formatter
from typing import Any

import pytest

from support import each_case
from warplens.advice import RULES
from warplens.advice.held_memory import MEMORY_RULES
from warplens.advice.rank_rules import JOB_RULES
from warplens.model.rule import CodedRule, Explanation, RuleSet, Thresholds, threshold
from warplens_lab.suggesting.rules import RULES as KERNEL_RULES

ALL: list[CodedRule[Any, Any]] = [*RULES, *MEMORY_RULES, *JOB_RULES, *KERNEL_RULES]


class Limits(Thresholds):
    most = threshold(3.0, "more is too many")


def too_many(numbers: list[int]) -> Iterator[str]:
    if len(numbers) > Limits().most:
        yield f"{len(numbers)} numbers"


EXPLANATIONS = {"X1": Explanation("Too many numbers", "Reported from {most:g} on.")}


def test_a_rule_set_gives_rules_by_code_with_their_thresholds_filled_in() -> None:
    rules = RuleSet({"X1": too_many}, EXPLANATIONS, Limits())
    assert [rule.code for rule in rules] == list(rules.codes) == ["X1"]
    assert "X1" in rules and "X2" not in rules
    assert rules.explain("X1") == rules["X1"].explain() == "Too many numbers. Reported from 3 on."
    assert list(rules["X1"].check([1, 2, 3, 4])) == ["4 numbers"]


def test_a_check_without_an_explanation_is_an_error_and_the_other_way_round() -> None:
    with pytest.raises(ValueError, match="X2"):
        RuleSet({"X1": too_many, "X2": too_many}, EXPLANATIONS, Limits())
    with pytest.raises(ValueError, match="X1"):
        RuleSet({}, EXPLANATIONS, Limits())


@each_case(ALL)
def test_every_code_explains_itself_with_its_thresholds_filled_in(rule: CodedRule[Any, Any]) -> None:
    names = [name for _, name, _, _ in Formatter().parse(rule.explanation.text) if name]
    values = rule.thresholds.values()
    text = rule.explain()
    assert text.startswith(f"{rule.title}. ")
    assert set(names) <= set(values)
    assert all(f"{values[name]:g}" in text for name in names)
    assert "{" not in text


def test_no_code_stands_for_two_rules() -> None:
    codes = [rule.code for rule in ALL]
    assert len(set(codes)) == len(codes) == 71

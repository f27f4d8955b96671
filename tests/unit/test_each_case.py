"""Tests that go through a table of cases fail with every case that fails, and never for want of cases."""

from __future__ import annotations

import pytest

from support import each_case


def test_every_case_runs_and_those_that_fail_are_named() -> None:
    seen = []

    @each_case([(1, "a"), (2, "b"), (3, "c"), (4, "d")])
    def test_even_and_not_the_last(number: int, name: str) -> None:
        seen.append(name)
        assert number % 2 == 0, f"{number} is odd"
        if name == "d":
            raise KeyError(name)

    with pytest.raises(AssertionError) as raised:
        test_even_and_not_the_last()
    assert seen == ["a", "b", "c", "d"]
    head, *lines = str(raised.value).splitlines()
    assert head == "3 of 4 fail"
    assert [line.partition(":")[0] for line in lines if line.startswith("(")] == ["(1, 'a')", "(3, 'c')", "(4, 'd')"]
    assert "AssertionError: 1 is odd" in str(raised.value) and "KeyError: 'd'" in str(raised.value)


def test_a_table_without_cases_fails() -> None:
    @each_case([])
    def test_nothing(case: object) -> None: ...

    with pytest.raises(AssertionError, match="no case"):
        test_nothing()

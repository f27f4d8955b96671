"""Walks up the call tree: the way by doubling, for deep stacks, ends where the way level by level does."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from support import ends
from warplens.model.kinds import NONE
from warplens.passes import climb as climbing
from warplens.passes.climb import climb, climb_context


@st.composite
def forests(draw: st.DrawFn) -> dict[str, Any]:
    """Callers come before what they call, as in a trace; so do forward ops before their backward ones."""
    count = draw(st.integers(1, 60))
    before = [st.integers(max(NONE, row - 3), row - 1) for row in range(count)]
    earlier = [
        st.just(NONE) if row == 0 else st.one_of(st.just(NONE), st.integers(NONE, row - 1)) for row in range(count)
    ]
    return {
        "parent": np.array([draw(each) for each in before], np.int64),
        "forward": np.array([draw(each) for each in earlier], np.int64),
        "stop": np.array(draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))) == 0,
    }


@given(forests(), st.integers(1, 5))
def test_the_way_by_doubling_is_the_way_level_by_level(forest: dict[str, Any], deep: int) -> None:
    rows = np.arange(NONE, len(forest["parent"]))
    slow = climb(rows, forest["parent"], forest["stop"])
    slow_context = climb_context(rows, **forest)
    with mock.patch.object(climbing, "DEEP", deep):
        assert climb(rows, forest["parent"], forest["stop"]).tolist() == slow.tolist()
        context = climb_context(rows, **forest)
    assert context.row.tolist() == slow_context.row.tolist()
    assert context.backward.tolist() == slow_context.backward.tolist()


def test_a_stack_of_100_000_calls_takes_few_rounds() -> None:
    parent, stop = np.arange(-1, 100_000 - 1), np.zeros(100_000, bool)
    stop[0] = True
    with ends("100,000 levels"):
        assert climb(np.arange(100_000), parent, stop).max() == 0

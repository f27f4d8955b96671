"""Walks up the call tree: by doubling, for deep stacks, and by the native library, they end as level by level."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from native_reading import needs_library
from support import ends
from warplens.model.kinds import NONE
from warplens.passes import climb as climbing
from warplens.passes.climb import _climb_context_in_python, _climb_in_python, _natively, climb


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
    slow = _climb_in_python(rows, forest["parent"], forest["stop"])
    slow_context = _climb_context_in_python(rows, **forest)
    with mock.patch.object(climbing, "DEEP", deep):
        assert _climb_in_python(rows, forest["parent"], forest["stop"]).tolist() == slow.tolist()
        context = _climb_context_in_python(rows, **forest)
    assert context.row.tolist() == slow_context.row.tolist()
    assert context.backward.tolist() == slow_context.backward.tolist()


@needs_library
@given(forests())
def test_the_native_library_ends_where_python_does(forest: dict[str, Any]) -> None:
    rows = np.arange(NONE, len(forest["parent"]))
    plain = _natively(rows, forest["parent"], None, forest["stop"])
    assert plain is not None
    assert plain.row.tolist() == _climb_in_python(rows, forest["parent"], forest["stop"]).tolist()
    context, expected = _natively(rows, **forest), _climb_context_in_python(rows, **forest)
    assert context is not None
    assert [column.tolist() for column in context] == [column.tolist() for column in expected]


@needs_library
def test_a_circle_or_a_row_that_is_not_there_is_left_to_python() -> None:
    stop = np.zeros(3, bool)
    assert _natively(np.array([0]), np.array([1, 2, 0]), None, stop) is None
    assert _natively(np.array([0]), np.array([7, NONE, NONE]), None, stop) is None
    assert _natively(np.array([3]), np.full(3, NONE), None, stop) is None


@pytest.mark.parametrize("way", [climb, _climb_in_python])
def test_a_stack_of_100_000_calls_takes_few_rounds(way: Any) -> None:
    parent, stop = np.arange(-1, 100_000 - 1), np.zeros(100_000, bool)
    stop[0] = True
    with ends("100,000 levels"):
        assert way(np.arange(100_000), parent, stop).max() == 0

"""`nest_lane` recovers call trees from intervals alone, and makes a tree of anything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from native_reading import needs_library
from warplens.passes import nest_in_python
from warplens.passes.nest import _natively, nest_lane
from warplens.passes.nest_in_python import Nesting, _callers_by_level, _callers_in_turn, _laminar, _sequential

checked = settings(max_examples=150)
Forest = list[Any]
"""Trees as nested lists: each entry is the list of its children."""

forests: st.SearchStrategy[Forest] = st.recursive(
    st.just([]), lambda children: st.lists(children, max_size=4), max_leaves=30
)
gaps = st.integers(1, 5)
any_events = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12), st.booleans()), min_size=1, max_size=40)
NONE = -1


def placed(forest: Forest, gap: int, length: int = 0) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Intervals for a forest, callers first, and each one's parent: `gap` ns around calls, `length` ns inside leaves."""
    starts: list[int] = []
    ends: list[int] = []
    parents: list[int] = []
    now = 0

    def place(tree: Forest, parent: int) -> None:
        nonlocal now
        row = len(starts)
        starts.append(now)
        ends.append(0)
        parents.append(parent)
        now += gap if tree else gap + length
        for child in tree:
            place(child, row)
        ends[row] = now
        now += gap

    for tree in forest:
        place(tree, NONE)
    return np.array(starts, np.int64), np.array(ends, np.int64), parents


def in_order(events: list[tuple[int, int, bool]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts, ends and softness, sorted as a trace sorts its rows."""
    events = sorted(events, key=lambda event: (event[0], -event[1]))
    start, duration, soft = (np.array(column) for column in zip(*events, strict=True))
    return start.astype(np.int64), (start + duration).astype(np.int64), soft.astype(bool)


def hard(count: int) -> np.ndarray:
    return np.zeros(count, bool)


def assert_is_forest(nesting: Nesting, count: int) -> None:
    parent, depth = nesting.parent, nesting.depth
    assert len(parent) == len(depth) == count, "an event was dropped"
    child = parent >= 0
    assert (parent < count).all()
    # A depth of one more than the parent's leaves no room for a cycle.
    assert (depth[child] == depth[parent[child]] + 1).all()
    assert (depth[~child] == 0).all()


@checked
@given(forests, gaps)
def test_calls_that_nest_get_exactly_the_parents_they_were_made_with(forest: Forest, gap: int) -> None:
    start, end, parents = placed(forest, gap)
    nesting = nest_lane(start, end, hard(len(start)))
    assert nesting.parent.tolist() == parents
    assert nesting.improper == 0
    assert_is_forest(nesting, len(start))


@checked
@given(forests, st.integers(1, 4))
def test_calls_whose_edges_coincide_get_their_parents_too(forest: Forest, length: int) -> None:
    """Callers start and end with their first and last callee, and the next call starts where the last one ends."""
    start, end, parents = placed(forest, 0, length)
    nesting = nest_lane(start, end, hard(len(start)))
    assert nesting.parent.tolist() == parents
    assert nesting.improper == 0


@checked
@given(forests, gaps)
def test_the_vectorised_way_equals_the_sequential_one_on_calls_that_nest(forest: Forest, gap: int) -> None:
    start, end, _ = placed(forest, gap)
    assume(len(start))
    parent, depth = _sequential(start, end)
    nesting = nest_lane(start, end, hard(len(start)))
    assert nesting.parent.tolist() == parent.tolist()
    assert nesting.depth.tolist() == depth.tolist()


@checked
@given(any_events)
def test_any_intervals_become_a_forest_that_keeps_every_event(events: list[tuple[int, int, bool]]) -> None:
    start, end, soft = in_order(events)
    assert_is_forest(nest_lane(start, end, soft), len(start))


@checked
@given(any_events)
def test_the_sequential_way_makes_a_forest_of_any_intervals(events: list[tuple[int, int, bool]]) -> None:
    start, end, _ = in_order(events)
    assert_is_forest(Nesting(*_sequential(start, end), 0, 0), len(start))


@checked
@given(any_events)
def test_a_parent_is_running_when_its_child_starts_or_the_crossing_is_counted(
    events: list[tuple[int, int, bool]],
) -> None:
    start, end, _ = in_order(events)
    nesting = nest_lane(start, end, hard(len(start)))
    child = np.flatnonzero(nesting.parent >= 0)
    parent = nesting.parent[child]
    inside = (start[parent] <= start[child]) & (start[child] <= end[parent]) & (end[child] <= end[parent])
    assert nesting.improper or inside.all()


@checked
@given(forests, st.integers(0, 5), st.data())
def test_an_annotation_over_whole_calls_becomes_their_parent(forest: Forest, gap: int, data: st.DataObject) -> None:
    """An annotation that opens inside the first call and closes inside the last takes in what lies between."""
    assume(forest)
    roots = [[], *forest, []]
    start, end, parents = placed(roots, gap, 4)
    first, last = 0, len(start) - 1
    opens = data.draw(st.integers(int(start[first]) + 1, int(end[first]) - 1))
    closes = data.draw(st.integers(int(start[last]) + 1, int(end[last]) - 1))
    starts, ends = np.append(start, opens), np.append(end, closes)
    order = np.lexsort((-ends, starts))
    annotation = int(np.flatnonzero(order == len(start))[0])
    nesting = nest_lane(starts[order], ends[order], order == len(start))
    assert nesting.parent[annotation] == NONE
    assert nesting.improper == 0
    for row in range(len(start)):
        place = int(np.flatnonzero(order == row)[0])
        if row in (first, last):
            assert nesting.parent[place] == NONE
        elif parents[row] == NONE:
            assert nesting.parent[place] == annotation
    assert_is_forest(nesting, len(order))


@checked
@given(any_events)
def test_callers_in_turn_are_the_same_as_by_level(events: list[tuple[int, int, bool]]) -> None:
    start, end, _ = in_order(events)
    _, depth = _laminar(start, np.maximum(end, start + 1))
    assert _callers_in_turn(depth).tolist() == _callers_by_level(depth).tolist()


def assert_same(native: Nesting | None, reference: Nesting) -> None:
    assert native is not None
    assert native.parent.tolist() == reference.parent.tolist()
    assert native.depth.tolist() == reference.depth.tolist()
    assert (native.improper, native.worst_ns) == (reference.improper, reference.worst_ns)


@needs_library
@settings(max_examples=500)
@given(st.one_of(any_events, st.just([])))
def test_the_native_library_nests_as_python_does(events: list[tuple[int, int, bool]]) -> None:
    start, end, soft = in_order(events) if events else (np.empty(0, np.int64), np.empty(0, np.int64), hard(0))
    assert_same(_natively(start, end, soft), nest_in_python.nest_lane(start, end, soft))


@needs_library
@checked
@given(st.integers(0, 2**32), st.integers(1, 400), st.integers(1, 400), st.integers(0, 4))
def test_it_does_so_where_hundreds_of_intervals_cross(seed: int, moments: int, longest: int, softness: int) -> None:
    random = np.random.default_rng(seed)
    events = zip(random.integers(0, moments, 300).tolist(), random.integers(0, longest, 300).tolist(), strict=True)
    start, end, soft = in_order([(*event, bool(random.integers(0, 8) < softness)) for event in events])
    assert_same(_natively(start, end, soft), nest_in_python.nest_lane(start, end, soft))


@needs_library
@pytest.mark.parametrize(
    ("starts", "ends"),
    [
        ((5, 3), (6, 4)),
        ((3, 3), (4, 6)),
        ((0, 1 << 60), (1, (1 << 60) + 1)),
        ((-(1 << 60), 0), (0, 1)),
        ((0,), (1 << 60,)),
    ],
)
def test_events_out_of_order_or_range_are_left_to_python(starts: tuple[int, ...], ends: tuple[int, ...]) -> None:
    start, end = np.array(starts), np.array(ends)
    assert _natively(start, end, hard(len(start))) is None
    assert_is_forest(nest_lane(start, end, hard(len(start))), len(start))

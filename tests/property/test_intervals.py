"""`model.intervals` against the simplest model there is: sets of integers."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from warplens.model.intervals import Union, clip, complement, covered_once, covered_until, length, subtract, union

LIMIT = 40
Pairs = list[tuple[int, int]]

points = st.integers(-LIMIT, LIMIT)
pairs = st.lists(st.tuples(points, points), max_size=12)
checked = settings(max_examples=200)


def union_of(intervals: Pairs) -> Union:
    starts, ends = (np.array([pair[side] for pair in intervals], np.int64) for side in (0, 1))
    return union(starts, ends)


def points_in(intervals: Pairs) -> set[int]:
    return {point for start, end in intervals for point in range(start, end)}


def members(intervals: Union) -> set[int]:
    return points_in(list(zip(intervals.starts.tolist(), intervals.ends.tolist(), strict=True)))


def assert_sorted_and_disjoint(intervals: Union) -> None:
    edges = np.stack([intervals.starts, intervals.ends], axis=1).ravel()
    assert (np.diff(edges) > 0).all(), "empty, touching or unsorted intervals"


@checked
@given(pairs)
def test_a_union_covers_the_points_of_its_intervals_and_no_others(intervals: Pairs) -> None:
    result = union_of(intervals)
    assert members(result) == points_in(intervals)
    assert_sorted_and_disjoint(result)


@checked
@given(pairs)
def test_the_length_of_a_union_counts_each_point_once(intervals: Pairs) -> None:
    assert length(union_of(intervals)) == len(points_in(intervals))


@checked
@given(pairs)
def test_covered_once_has_the_points_of_exactly_one_interval(intervals: Pairs) -> None:
    starts, ends = (np.array([pair[side] for pair in intervals], np.int64) for side in (0, 1))
    result = covered_once(starts, ends)
    counts = Counter(point for start, end in intervals for point in range(start, end))
    assert members(result) == {point for point, count in counts.items() if count == 1}
    assert_sorted_and_disjoint(result)


@checked
@given(pairs)
def test_a_union_of_a_union_is_itself(intervals: Pairs) -> None:
    once = union_of(intervals)
    twice = union(*once)
    assert np.array_equal(once.starts, twice.starts)
    assert np.array_equal(once.ends, twice.ends)


@checked
@given(pairs, pairs)
def test_a_difference_keeps_what_the_second_does_not_cover(first: Pairs, second: Pairs) -> None:
    result = subtract(union_of(first), union_of(second))
    assert members(result) == points_in(first) - points_in(second)
    assert_sorted_and_disjoint(result)


@checked
@given(pairs, points, points)
def test_clipping_keeps_what_lies_in_the_window(intervals: Pairs, start: int, end: int) -> None:
    start, end = sorted((start, end))
    assert members(clip(union_of(intervals), start, end)) == points_in(intervals) & set(range(start, end))


@checked
@given(pairs, points, points)
def test_a_complement_is_the_free_rest_of_the_window(intervals: Pairs, start: int, end: int) -> None:
    start, end = sorted((start, end))
    covered = union_of(intervals)
    free = complement(covered, start, end)
    assert members(free) == set(range(start, end)) - points_in(intervals)
    assert length(clip(covered, start, end)) + length(free) == end - start


@checked
@given(pairs, st.lists(points, max_size=8))
def test_covered_until_counts_the_covered_points_before_each_moment(intervals: Pairs, moments: list[int]) -> None:
    covered = covered_until(union_of(intervals), np.array(moments, np.int64))
    expected = [sum(point < moment for point in points_in(intervals)) for moment in moments]
    assert covered.tolist() == expected

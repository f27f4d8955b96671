"""Intervals divided over tracks on which they nest: viewers drop what crosses the end of another slice."""

from __future__ import annotations

import numpy as np

from warplens.model.trace import Bools, Ints


def track_levels(start_ns: Ints, end_ns: Ints) -> Ints:
    """The lowest track on which each interval nests, 0 for nearly all.

    Intervals come sorted by start and, for equal starts, the longest first.

    >>> track_levels(np.array([0, 2, 6, 12]), np.array([10, 5, 14, 13])).tolist()
    [0, 0, 1, 0]
    """
    levels = np.zeros(len(start_ns), np.int64)
    if nests(start_ns, end_ns):
        return levels
    open_ends: list[list[int]] = []
    for index, (start, end) in enumerate(zip(start_ns.tolist(), end_ns.tolist(), strict=True)):
        for level, ends in enumerate(open_ends):
            while ends and ends[-1] <= start:
                ends.pop()
            if not ends or end <= ends[-1]:
                ends.append(end)
                levels[index] = level
                break
        else:
            levels[index] = len(open_ends)
            open_ends.append([end])
    return levels


def nests(start_ns: Ints, end_ns: Ints) -> bool:
    """Whether no interval crosses the end of another, for intervals in the same order.

    >>> nests(np.array([0, 2, 5]), np.array([10, 5, 10])), nests(np.array([0, 2]), np.array([10, 11]))
    (True, False)
    """
    # As many levels deep as earlier ones are still open; on one level none may overlap the next, and each must end
    # before the one around it does.
    some = end_ns > start_ns
    start, end = start_ns[some], end_ns[some]
    depth = np.arange(len(start)) - np.searchsorted(np.sort(end), start, side="right")
    by_depth = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[by_depth], np.arange(int(depth.max(initial=-1)) + 2))
    outer = by_depth[:0]
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        inner = by_depth[first:last]
        if _overlaps(start[inner], end[inner]) or (len(outer) and not _inside(start, end, inner, outer)):
            return False
        outer = inner
    return True


def _overlaps(start: Ints, end: Ints) -> bool:
    return bool((start[1:] < end[:-1]).any())


def _inside(start: Ints, end: Ints, inner: Ints, outer: Ints) -> bool:
    """Whether each of the inner ones is inside the last of the outer ones before it."""
    position = np.searchsorted(outer, inner) - 1
    around = outer[np.maximum(position, 0)]
    is_inside: Bools = (position >= 0) & (start[around] <= start[inner]) & (end[inner] <= end[around])
    return bool(is_inside.all())

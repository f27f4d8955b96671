"""The one interval library: unions, differences and lookups over half-open [start, end) integers.

A *union* is a pair of equally long arrays (starts, ends), sorted and disjoint.

>>> import numpy as np
>>> busy = union(np.array([0, 5, 20]), np.array([10, 12, 30]))
>>> length(busy)
22
>>> length(subtract(busy, union(np.array([8]), np.array([25]))))
13
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from warplens.model.arrays import sorted_unique

Ints = npt.NDArray[np.int64]


class Union(NamedTuple):
    starts: Ints
    ends: Ints


EMPTY = Union(np.empty(0, np.int64), np.empty(0, np.int64))


def union(starts: Ints, ends: Ints) -> Union:
    """The union of intervals; empty and inverted ones count for nothing."""
    keep = ends > starts
    starts, ends = starts[keep], ends[keep]
    if len(starts) == 0:
        return EMPTY
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    opens = np.empty(len(starts), bool)
    opens[0] = True
    opens[1:] = starts[1:] > ends[:-1]
    first = np.flatnonzero(opens)
    last = np.append(first[1:] - 1, len(starts) - 1)
    return Union(starts[first], ends[last])


def covered_once(starts: Ints, ends: Ints) -> Union:
    """Where exactly one of the intervals is; empty and inverted ones count for nothing.

    >>> once = covered_once(np.array([0, 5, 20]), np.array([10, 12, 30]))
    >>> list(zip(once.starts.tolist(), once.ends.tolist()))
    [(0, 5), (10, 12), (20, 30)]
    """
    keep = ends > starts
    edges = np.concatenate([starts[keep], ends[keep]])
    order = np.argsort(edges, kind="stable")
    edges, opens = edges[order], order < np.count_nonzero(keep)
    depth = np.cumsum(np.where(opens, 1, -1))
    single = depth[:-1] == 1
    return union(edges[:-1][single], edges[1:][single])


def length(intervals: Union) -> int:
    return int((intervals.ends - intervals.starts).sum())


def complement(intervals: Union, start: int, end: int) -> Union:
    """What of [start, end) the union leaves free."""
    inside = clip(intervals, start, end)
    starts = np.append(np.int64(start), inside.ends)
    ends = np.append(inside.starts, np.int64(end))
    keep = ends > starts
    return Union(starts[keep], ends[keep])


def clip(intervals: Union, start: int, end: int) -> Union:
    """The part of the union within [start, end)."""
    # Only those that reach into it are touched: as many windows as intervals are not their square.
    first = int(np.searchsorted(intervals.ends, start, "right"))
    last = int(np.searchsorted(intervals.starts, end, "left"))
    starts = np.maximum(intervals.starts[first:last], start)
    ends = np.minimum(intervals.ends[first:last], end)
    keep = ends > starts
    return Union(starts[keep], ends[keep])


def subtract(first: Union, second: Union) -> Union:
    """What the first union covers and the second does not."""
    if len(first.starts) == 0 or len(second.starts) == 0:
        return first
    edges = sorted_unique(np.concatenate([first.starts, first.ends, second.starts, second.ends]))
    covered = covers(first, edges[:-1]) & ~covers(second, edges[:-1])
    return union(edges[:-1][covered], edges[1:][covered])


def covered_until(intervals: Union, points: Ints) -> Ints:
    """How much of the union is before each point."""
    if len(intervals.starts) == 0:
        return np.zeros(len(points), np.int64)
    total = np.concatenate([[0], np.cumsum(intervals.ends - intervals.starts)])
    index = np.searchsorted(intervals.starts, points, side="right")
    beyond = np.where(index > 0, intervals.ends[index - 1] - points, 0)
    result: Ints = total[index] - np.maximum(beyond, 0)
    return result


def covers(intervals: Union, points: Ints) -> npt.NDArray[np.bool_]:
    """Whether each point is inside the union."""
    if len(intervals.starts) == 0:
        return np.zeros(len(points), bool)
    index = np.searchsorted(intervals.starts, points, side="right") - 1
    inside: npt.NDArray[np.bool_] = (index >= 0) & (points < intervals.ends[np.maximum(index, 0)])
    return inside

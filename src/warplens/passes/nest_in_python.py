"""Nesting the events of one thread where the native library does not: its reference, step by step."""

from __future__ import annotations

import msgspec
import numpy as np

from warplens.model.arrays import order_of
from warplens.model.kinds import NONE
from warplens.model.trace import Bools, Ints

MAX_ROUNDS = 8
"""Mending one overlap can uncover another; after this many rounds the sequential way takes over."""

EVENTS_PER_LEVEL = 25
"""A level costs as much as this many events one by one."""


class Nesting(msgspec.Struct, frozen=True):
    """Parent and depth of each event, and how many cross the end of another, by how much at most."""

    parent: Ints
    depth: Ints
    improper: int
    worst_ns: int


def nest_lane(start: Ints, end: Ints, soft: Bools) -> Nesting:
    # Doubled, so that an empty event can be given half a nanosecond and still nest like any other.
    begin, finish = 2 * start, np.maximum(2 * end, 2 * start + 1)
    order = np.arange(len(start))
    if soft.any():
        begin, finish = _fit_annotations(begin, finish, soft)
        order, begin, finish = _resorted(order, begin, finish)
    improper = worst = 0
    for _ in range(MAX_ROUNDS):
        parent, depth = _laminar(begin, finish)
        outlived = (parent >= 0) & (finish > finish[parent])
        if not outlived.any():
            return _in_input_order(parent, depth, order, improper, worst)
        # A parent that is already over when the event starts is only the echo of a crossing further up.
        crossing = np.flatnonzero(outlived & (begin < finish[parent]))
        improper += len(crossing)
        worst = max(worst, *((finish[crossing] - finish[parent[crossing]]) // 2).tolist(), 0)
        begin, finish = _mend(begin, finish, parent, crossing)
        order, begin, finish = _resorted(order, begin, finish)
    return Nesting(*_sequential(start, end), max(improper, 1), worst)


def _resorted(order: Ints, begin: Ints, finish: Ints) -> tuple[Ints, Ints, Ints]:
    resort = order_of(begin, -finish)
    return order[resort], begin[resort], finish[resort]


def _fit_annotations(begin: Ints, finish: Ints, soft: Bools) -> tuple[Ints, Ints]:
    """Annotations shrunk to whole calls: past the frames they opened in, short of those they closed in."""
    hard = np.flatnonzero(~soft)
    if len(hard) == 0:
        return begin, finish
    opens, closes = begin[hard], finish[hard]
    parent, _ = _laminar(opens, closes)
    rows = np.flatnonzero(soft)
    new_begin, new_finish = begin[rows], finish[rows]
    at = _innermost_open(opens, closes, parent, new_begin)
    while True:
        crossed = (at >= 0) & (closes[at] < finish[rows])
        if not crossed.any():
            break
        new_begin = np.where(crossed, closes[at], new_begin)
        at = np.where(crossed, parent[at], NONE)
    at = _innermost_open(opens, closes, parent, new_finish)
    while True:
        crossed = (at >= 0) & (opens[at] > new_begin)
        if not crossed.any():
            break
        new_finish = np.where(crossed & (closes[at] > finish[rows]), opens[at], new_finish)
        at = np.where(crossed, parent[at], NONE)
    begin, finish = begin.copy(), finish.copy()
    begin[rows], finish[rows] = new_begin, np.maximum(new_finish, new_begin + 1)
    return begin, finish


def _innermost_open(opens: Ints, closes: Ints, parent: Ints, moment: Ints) -> Ints:
    """The innermost event that started before each moment and is still running."""
    row = np.searchsorted(opens, moment, side="left") - 1
    while True:
        over = (row >= 0) & (closes[row] <= moment)
        if not over.any():
            return row
        row = np.where(over, parent[row], row)


def _laminar(begin: Ints, finish: Ints) -> tuple[Ints, Ints]:
    """Parents and depths of intervals of which none crosses another's end.

    An event's depth is how many earlier ones are still open; its parent is the last one before it that is one
    level up.
    """
    count = len(begin)
    depth = np.maximum(np.arange(count) - np.searchsorted(np.sort(finish), begin, side="right"), 0)
    is_deep = int(depth.max(initial=0)) * EVENTS_PER_LEVEL > count
    return (_callers_in_turn(depth) if is_deep else _callers_by_level(depth)), depth


def _callers_by_level(depth: Ints) -> Ints:
    """By binary searches, a level at a time: 6× faster than a stack in Python."""
    count = len(depth)
    parent = np.full(count, NONE, np.int64)
    if count == 0:
        return parent
    by_depth = np.argsort(depth.astype(np.int16) if count < 2**15 or depth.max() < 2**15 else depth, kind="stable")
    deepest = int(depth[by_depth[-1]])
    bounds = np.searchsorted(depth[by_depth], np.arange(deepest + 2))
    for level in range(1, deepest + 1):
        outer = by_depth[bounds[level - 1] : bounds[level]]
        inner = by_depth[bounds[level] : bounds[level + 1]]
        position = np.searchsorted(outer, inner) - 1
        parent[inner] = np.where(position >= 0, outer[np.maximum(position, 0)], NONE)
    return parent


def _callers_in_turn(depth: Ints) -> Ints:
    """The same event by event, for a thread with nearly as many levels as events."""
    latest = [NONE] * (int(depth.max(initial=0)) + 1)  # by level
    parents = []
    for row, level in enumerate(depth.tolist()):
        parents.append(latest[level - 1] if level else NONE)
        latest[level] = row
    return np.array(parents, np.int64)


def _mend(begin: Ints, finish: Ints, parent: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Shorten an outliving event to its parent's end, or start it there if most of it is beyond."""
    limit = finish[parent[rows]]
    inside = (limit - begin[rows]) * 2 >= finish[rows] - begin[rows]
    begin, finish = begin.copy(), finish.copy()
    finish[rows[inside]] = limit[inside]
    begin[rows[~inside]] = limit[~inside]
    return begin, finish


def _in_input_order(parent: Ints, depth: Ints, order: Ints, improper: int, worst: int) -> Nesting:
    parents, depths = np.empty_like(parent), np.empty_like(depth)
    parents[order] = np.where(parent >= 0, order[parent], NONE)
    depths[order] = depth
    return Nesting(parents, depths, improper, worst)


def _sequential(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The same rule event by event, for threads so tangled that mending does not settle."""
    parent = np.full(len(start), NONE, np.int64)
    depth = np.zeros(len(start), np.int64)
    stack: list[tuple[int, int]] = []
    for row, (begin, finish) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while stack and (stack[-1][0] <= begin or (stack[-1][0] - begin) * 2 < finish - begin):
            stack.pop()
        if stack:
            parent[row] = stack[-1][1]
            finish = min(finish, stack[-1][0])
        depth[row] = len(stack)
        stack.append((finish, row))
    return parent, depth

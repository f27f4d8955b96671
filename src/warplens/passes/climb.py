"""Walking up the call tree, many rows at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warplens import native_library
from warplens.model.arrays import numbered
from warplens.model.kinds import NONE
from warplens.model.trace import Bools, Ints

MERGE_LEVELS = 4
"""How many levels to walk before looking whether rows have met; most launches of one op call have by then."""
FEW = 500
"""Below this, walking all of them costs less than sorting them."""
DEEP = 256
"""Levels after which the rest of the way is found by doubling it; calls are rarely nested so deep."""


def climb(rows: Ints, parent: Ints, stop: Bools) -> Ints:
    """For each row the nearest row at or above it where `stop` is true, -1 where there is none."""
    found = _natively(rows, parent, None, stop)
    return _climb_in_python(rows, parent, stop) if found is None else found.row


def _climb_in_python(rows: Ints, parent: Ints, stop: Bools) -> Ints:
    reached = rows.astype(np.int64)
    active = np.flatnonzero(reached >= 0)
    level = 0
    while len(active):
        active = active[~stop[reached[active]]]
        reached[active] = parent[reached[active]]
        active = active[reached[active] >= 0]
        level += 1
        if level == DEEP:
            reached[active] = _tops(parent, stop)[0][reached[active]]
            break
        if level % MERGE_LEVELS == 0 and len(active) > FEW:
            # Many rows have met in the same callers by now: walk on once for all of them.
            callers, caller_of_row = numbered(reached[active])
            if 2 * len(callers) < len(active):
                reached[active] = _climb_in_python(callers, parent, stop)[caller_of_row]
                break
    return reached


class CallerContext(NamedTuple):
    """Where a walk ended, and whether it crossed from a backward op to the forward op that made it."""

    row: Ints
    backward: Bools


def climb_context(rows: Ints, parent: Ints, forward: Ints, stop: Bools) -> CallerContext:
    """Like `climb`, but a backward op's caller is the forward op that created it."""
    found = _natively(rows, parent, forward, stop)
    return _climb_context_in_python(rows, parent, forward, stop) if found is None else found


def _climb_context_in_python(rows: Ints, parent: Ints, forward: Ints, stop: Bools) -> CallerContext:
    reached = rows.astype(np.int64)
    backward = np.zeros(len(rows), bool)
    active = np.flatnonzero(reached >= 0)
    level = 0
    while len(active):
        active = active[~stop[reached[active]]]
        jump = forward[reached[active]]
        backward[active[jump >= 0]] = True
        reached[active] = np.where(jump >= 0, jump, parent[reached[active]])
        active = active[reached[active] >= 0]
        level += 1
        if level == DEEP:
            top, crossed = _tops(np.where(forward >= 0, forward, parent), stop, forward >= 0)
            backward[active] |= crossed[reached[active]]
            reached[active] = top[reached[active]]
            break
        if level % MERGE_LEVELS == 0 and len(active) > FEW:
            callers, caller_of_row = numbered(reached[active])
            if 2 * len(callers) < len(active):
                above = _climb_context_in_python(callers, parent, forward, stop)
                reached[active] = above.row[caller_of_row]
                backward[active] |= above.backward[caller_of_row]
                break
    return CallerContext(reached, backward)


def _natively(rows: Ints, parent: Ints, forward: Ints | None, stop: Bools) -> CallerContext | None:
    """By the native library, a tenth of the time; None without it, or where a row would be above itself."""
    library = native_library.library()
    if library is None or not len(rows):
        return None
    none = np.full(len(parent), NONE, np.int32) if forward is None else forward
    above = [np.ascontiguousarray(column, np.int32) for column in (parent, none)]
    marks, start = np.ascontiguousarray(stop, np.bool_), np.ascontiguousarray(rows, np.int64)
    reached, backward = np.empty(len(rows), np.int64), np.empty(len(rows), np.bool_)
    forest, ends = (column.ctypes.data for column in (*above, marks)), (reached.ctypes.data, backward.ctypes.data)
    is_done = library.wl_climb(*forest, len(parent), start.ctypes.data, len(rows), *ends)
    return CallerContext(reached, backward) if is_done else None


def _tops(up: Ints, stop: Bools, marks: Bools | None = None) -> tuple[Ints, Bools]:
    """For every row the nearest at or above it where `stop` is true, -1 for none; and whether a row on the way there,
    the last one aside, is marked. Each round doubles the way, so that a million levels take twenty."""
    count = len(up)
    outside = np.append(~stop, False)  # the last row stands for -1, and is above all
    at = np.where(outside, np.append(np.where(up >= 0, up, count), count), np.arange(count + 1))
    marked = outside & np.append(np.zeros(count, bool) if marks is None else marks, False)
    for _ in range(count.bit_length()):
        further = at[at]
        if (further == at).all():
            break
        marked |= marked[at]
        at = further
    return np.where(at[:-1] < count, at[:-1], NONE), marked[:-1]

"""Nesting: which host event runs inside which, by time, per thread. Never drops an event.

Two things keep intervals from nesting. Annotations open inside one Python frame (`__enter__`) and close inside
another (`__exit__`): they give way, taking in whole frames only. And clocks of different recorders disagree by
a few ns: an event that outlives its caller stays its child where most of it is inside, else it becomes a
sibling. Both are counted; the times in the trace stay as recorded.
"""

from __future__ import annotations

import numpy as np

from warplens import native_library
from warplens.model.kinds import CODE, NESTED, NONE
from warplens.model.quality import Note
from warplens.model.trace import Bools, Ints, Trace
from warplens.passes import nest_in_python
from warplens.passes.nest_in_python import Nesting
from warplens_run.base.units import format_ns


def nest(trace: Trace) -> Trace:
    rows = trace.rows_of(*NESTED)
    if len(trace.frames):  # placed by what was recorded, not by time
        rows = rows[~np.isin(rows, trace.frames["id"].to_numpy())]
    start, duration, lane = (trace.ints(name)[rows] for name in ("start_ns", "dur_ns", "lane"))
    soft = trace.ints("kind")[rows] == CODE["annotation"]
    parent = np.full(len(trace), NONE, np.int64)
    depth = np.zeros(len(trace), np.int64)
    improper = worst = 0
    for members in _split_by_lane(lane):
        nesting = nest_lane(start[members], start[members] + duration[members], soft[members])
        own = rows[members]
        parent[own] = np.where(nesting.parent >= 0, own[nesting.parent], NONE)
        depth[own] = nesting.depth
        improper += nesting.improper
        worst = max(worst, nesting.worst_ns)
    notes = [Note("improper_nesting", improper, format_ns(worst))] if improper else []
    return trace.with_columns(*notes, parent=parent, depth=depth)


def nest_lane(start: Ints, end: Ints, soft: Bools) -> Nesting:
    """Parent and depth within one thread; input sorted by start, outermost first; soft ones give way.

    By the native library where it is there and takes the events, in a sixth of the time.
    """
    return _natively(start, end, soft) or nest_in_python.nest_lane(start, end, soft)


def _natively(start: Ints, end: Ints, soft: Bools) -> Nesting | None:
    library = native_library.library()
    if library is None:
        return None
    given = [*(np.ascontiguousarray(column, np.int64) for column in (start, end)), np.ascontiguousarray(soft, np.bool_)]
    parent, depth, crossings = (np.empty(size, np.int64) for size in (len(start), len(start), 2))
    found = [column.ctypes.data for column in (parent, depth, crossings)]
    if not library.wl_nest(*(column.ctypes.data for column in given), len(start), *found):
        return None
    improper, worst_ns = crossings.tolist()
    return Nesting(parent, depth, improper, worst_ns)


def _split_by_lane(lane: Ints) -> list[Ints]:
    """Row sets per lane; rows come sorted by lane."""
    if len(lane) == 0:
        return []
    edges = np.flatnonzero(np.diff(lane)) + 1
    return np.split(np.arange(len(lane)), edges)

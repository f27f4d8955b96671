"""The host's time, each instant given to the innermost event that runs on its thread."""

from __future__ import annotations

import numpy as np
import polars as pl

from warplens.model.kinds import NONE
from warplens.model.paths import depths
from warplens.model.trace import Bools, Ints, Trace
from warplens.passes.climb import climb

HOST = ("python", "module", "annotation", "op", "runtime")


def own_times(trace: Trace, rows: Ints) -> Ints:
    """What each of these host events lasts less those among them that it calls, in ns.

    An event's time is the part inside its caller and after the sibling before it. That is its duration, but for
    annotations, which open and close in the middle of frames, and where the clocks of two recorders disagree.
    """
    caller = _callers(trace, rows)
    lasts = _fitted_durations(trace, rows, caller)
    own: Ints = lasts.copy()
    called = caller >= 0
    np.subtract.at(own, caller[called], lasts[called])
    return own


def _callers(trace: Trace, rows: Ints) -> Ints:
    """For each of these events the nearest one of them around it, as a place in `rows`; -1 for none."""
    parent = trace.ints("parent")
    number = np.full(len(trace) + 1, NONE, np.int64)
    number[rows] = np.arange(len(rows))
    return number[climb(parent[rows], parent, number[:-1] >= 0)]


def _fitted_durations(trace: Trace, rows: Ints, caller: Ints) -> Ints:
    begin: Ints = trace.ints("start_ns")[rows]
    end: Ints = begin + trace.ints("dur_ns")[rows]
    lane, depth = trace.ints("lane")[rows], depths(caller)
    order = np.lexsort((depth, lane))
    edges = np.flatnonzero((np.diff(lane[order]) != 0) | (np.diff(depth[order]) != 0)) + 1
    for level in np.split(order, edges) if len(rows) else []:
        _fit(level, caller, begin, end)
    return end - begin


def _fit(level: Ints, caller: Ints, begin: Ints, end: Ints) -> None:
    """Cut the events of one thread and depth to their callers, and each to after the one before it."""
    level = level[np.lexsort((begin[level], begin[caller[level]]))]
    opens, closes = begin[level], end[level]
    around = caller[level]
    if around[0] != NONE:
        opens, closes = np.clip(opens, begin[around], end[around]), np.minimum(closes, end[around])
    closes = np.maximum(opens, closes)
    opens[1:] = np.maximum(opens[1:], np.maximum.accumulate(closes)[:-1])
    begin[level], end[level] = opens, np.maximum(opens, closes)


def waiting(trace: Trace) -> Bools:
    """Events of threads that only wait: one chain of Python frames in which nothing starts or ends.

    Monitors and worker pools look like that, and their time is not work. Where there are no other threads,
    these are the work.
    """
    rows = trace.rows_of(*HOST)
    events = pl.DataFrame({"lane": trace.ints("lane")[rows], "depth": trace.ints("depth")[rows]}).with_columns(
        python=pl.Series(trace.is_kind("python")[rows])
    )
    lanes = events.group_by("lane").agg(waits=pl.col("python").all() & (pl.len() == pl.col("depth").max() + 1))
    if lanes["waits"].all():
        return np.zeros(len(trace), bool)
    waits = lanes.filter("waits")["lane"].to_numpy()
    return np.isin(trace.ints("lane"), waits)


def thread_name(trace: Trace, lane: int) -> str:
    """What the trace calls a thread, with its number."""
    process, thread, _, name = trace.lanes.row(lane)
    if thread in name:
        return str(name)
    return f"thread {thread} ({name})" if name else f"process {process} thread {thread}"

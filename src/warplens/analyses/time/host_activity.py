"""What a host thread was doing at a given moment."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import numpy as np

from warplens.lazy_patterns import LazyPattern
from warplens.model.arrays import places_by_value, sorted_unique
from warplens.model.intervals import Union, covers
from warplens.model.kinds import NESTED, NONE
from warplens.model.trace import Bools, Ints, Trace

SYNC_CALL: Final = re.compile(
    r"(?:cuda|hip|cu|ze)\w*Synchronize|(?:cuda|hip)Memcpy(?:2D|3D)?$|cuMemcpy\w*(?<!Async)$|ur(?:QueueFinish|EventWait)$"
)
"""Calls of the GPU's runtime that return when the GPU is done."""
NO_ROWS: Final = np.zeros(0, np.int64)


def matching_names(trace: Trace, pattern: re.Pattern[str] | LazyPattern) -> Bools:
    """Which of the trace's names are of host events and match."""
    matches = np.zeros(len(trace.names), bool)
    codes = trace.host_names
    matches[codes] = [pattern.match(trace.names[code]) is not None for code in codes.tolist()]
    return matches


def innermost_at(trace: Trace, lane: Ints, moment: Ints) -> Ints:
    """The innermost host event running on each lane at each moment, -1 where there is none."""
    innermost = np.full(len(moment), NONE, np.int64)
    if len(moment) == 0:
        return innermost
    start, parent = trace.ints("start_ns"), trace.ints("parent")
    end = start + trace.ints("dur_ns")
    by_thread = rows_by_thread(trace, trace.rows_of(*NESTED))
    for thread, asked in places_by_value(lane.astype(np.int64)).items():
        own = by_thread.get(thread, NO_ROWS)
        if thread < 0 or len(own) == 0:
            continue
        latest = np.searchsorted(start[own], moment[asked], side="right") - 1
        row = np.where(latest >= 0, own[np.maximum(latest, 0)], NONE)
        while True:
            over = (row >= 0) & (end[row] <= moment[asked])
            if not over.any():
                break
            row = np.where(over, parent[row], row)
        innermost[asked] = row
    return innermost


class Pieces(NamedTuple):
    """Time of one thread, cut where its events begin and end, and the innermost event of each piece, -1 for none."""

    start_ns: Ints
    end_ns: Ints
    row: Ints


def pieces_of(trace: Trace, lane: int, stretches: Union) -> Pieces:
    """What a thread does in some stretches of time, piece by piece.

    By time and not by which event is whose child: a mark of a step may begin in one Python frame and end in another.
    """
    events = trace.rows_of(*NESTED)
    events = events[trace.ints("lane")[events] == lane]
    start = trace.ints("start_ns")[events]
    moments = np.concatenate([start, start + trace.ints("dur_ns")[events]])
    edges = sorted_unique(np.concatenate([moments[covers(stretches, moments)], *stretches]))
    inside = covers(stretches, edges[:-1])
    begin, end = edges[:-1][inside], edges[1:][inside]
    return Pieces(begin, end, innermost_at(trace, np.full(len(begin), lane), begin))


def rows_by_thread(trace: Trace, rows: Ints) -> dict[int, Ints]:
    """Some rows of the trace by their lane."""
    return {lane: rows[places] for lane, places in places_by_value(trace.ints("lane")[rows].astype(np.int64)).items()}

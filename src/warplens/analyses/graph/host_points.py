"""Moments of the host that matter to the GPU: calls that launch, copy or wait, and marks of steps, on all threads.

Between two moments the host takes its own time. Usually both are on one thread. Where a thread did nothing while
another one worked, it waited for that one: the caller of `backward` waits for autograd's thread, which waited before.
Its next moment then comes after the last one of that other thread.
"""

from __future__ import annotations

from bisect import bisect_left, insort

import msgspec
import numpy as np

from warplens.analyses.graph.records import CALL, MARK
from warplens.model.arrays import places_by_value
from warplens.model.kinds import NONE
from warplens.model.trace import Bools, Ints, Trace


class MarkedSteps(msgspec.Struct, frozen=True):
    """Where steps begin on the host, and where the last one ends (with step -1); a run without steps is between two
    marks of step -1."""

    start_ns: Ints
    step: Ints
    lane: Ints

    def __len__(self) -> int:
        return len(self.start_ns)


class HostPoints(msgspec.Struct, frozen=True):
    """The moments, in the order in which they began."""

    kind: Ints
    row: Ints
    """The call; -1 for a mark."""
    step: Ints
    """The step that a mark begins; -1 for a call."""
    lane: Ints
    start_ns: Ints
    end_ns: Ints
    before: Ints
    """The moment that each comes after, -1 for none."""
    is_handover: Bools
    """That one is of another thread."""


def host_points(trace: Trace, calls: Ints, marks: MarkedSteps) -> HostPoints:
    start, duration = trace.ints("start_ns"), trace.ints("dur_ns")
    kind = np.repeat([CALL, MARK], [len(calls), len(marks)])
    begins = np.concatenate([start[calls], marks.start_ns])
    order = np.lexsort((kind != MARK, begins))
    lane = np.concatenate([trace.ints("lane")[calls], marks.lane])[order].astype(np.int64)
    ends = np.concatenate([(start + duration)[calls], marks.start_ns])[order]
    begins = begins[order]
    before, is_handover = _predecessors(trace, lane, begins, ends)
    return HostPoints(
        kind=kind[order],
        row=np.concatenate([calls, np.full(len(marks), NONE)])[order],
        step=np.concatenate([np.full(len(calls), NONE), marks.step])[order],
        lane=lane,
        start_ns=begins,
        end_ns=ends,
        before=before,
        is_handover=is_handover,
    )


def _predecessors(trace: Trace, lane: Ints, begins: Ints, ends: Ints) -> tuple[Ints, Bools]:
    before = np.arange(len(lane)) - 1
    is_handover = np.zeros(len(lane), bool)
    threads = np.unique(lane).tolist()
    if len(threads) < 2:
        return before, is_handover
    rows = places_by_value(trace.ints("lane").astype(np.int64))
    activity = {thread: _activity(trace, rows.get(thread, np.zeros(0, np.int64))) for thread in threads}
    starts, finishes = begins.tolist(), ends.tolist()
    last, latest = dict[int, int](), _LatestPoints()
    second_last: dict[int, int] = {}
    for point, thread in enumerate(lane.tolist()):
        own = last.get(thread, NONE)
        other = latest.of_others(thread, starts[point])
        before[point] = own
        if other != NONE and (own == NONE or finishes[other] > finishes[own]):
            # While the other thread went from one moment to its last, did this one do anything?
            previous = second_last.get(int(lane[other]), NONE)
            since = max(finishes[index] if index != NONE else -1 for index in (previous, own))
            if not _is_active(activity[thread], since, finishes[other]):
                before[point], is_handover[point] = other, True
        second_last[thread], last[thread] = own, point
        latest.put(thread, finishes[point], point)
    return before, is_handover


class _LatestPoints:
    """The last moment of each thread, in the order of their ends: as many threads as moments are not their square."""

    def __init__(self) -> None:
        self._in_order: list[tuple[int, int, int]] = []
        """End, place of the thread (of equal ends that of the first thread counts), moment."""
        self._of_thread: dict[int, tuple[int, int, int]] = {}

    def put(self, thread: int, end: int, point: int) -> None:
        former = self._of_thread.get(thread)
        if former is not None:
            del self._in_order[bisect_left(self._in_order, former)]
        own = (end, -len(self._of_thread) if former is None else former[1], point)
        self._of_thread[thread] = own
        insort(self._in_order, own)

    def of_others(self, thread: int, until: int) -> int:
        """The moment of another thread that ended last by this time; -1 for none."""
        at = bisect_left(self._in_order, (until + 1,)) - 1
        if at >= 0 and self._in_order[at] == self._of_thread.get(thread):
            at -= 1
        return self._in_order[at][2] if at >= 0 else NONE


def _activity(trace: Trace, rows: Ints) -> tuple[Ints, Ints]:
    """When things begin on a thread, and when they end, each in order."""
    start = trace.ints("start_ns")[rows]  # in order, as all rows of a lane are
    # A stable sort finds what is in order already, most of the ends, and takes a third of the time.
    return start, np.sort(start + trace.ints("dur_ns")[rows], kind="stable")


def _is_active(activity: tuple[Ints, Ints], after: int, until: int) -> bool:
    """Whether anything begins or ends between two moments."""
    for moments in activity:
        first = int(np.searchsorted(moments, after, "right"))
        if first < len(moments) and int(moments[first]) < until:
            return True
    return False

"""`Served`: which iteration of a served model launched what."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from warplens.analyses.serving.spans import Span
from warplens.model.kinds import NONE
from warplens.model.trace import Ints, Trace

MARK: Final = "mark"
ANNOTATION: Final = "annotation"
INFERRED: Final = "inferred"


class Served(msgspec.Struct, frozen=True):
    """The iterations of a trace by start; `event_iteration` has one entry per GPU event, -1 for none."""

    spans: tuple[Span, ...]
    source: str
    """How they are known: `MARK`, `ANNOTATION` or `INFERRED`."""
    reason: str
    """What they are inferred from."""
    marks: tuple[tuple[Span, int], ...]
    """The spans of every thread, each with the number of its iteration."""
    event_iteration: Ints
    ranks: int = 1
    """Threads or processes that mark the same iterations."""

    def __len__(self) -> int:
        return len(self.spans)

    def iteration_at(self, trace: Trace, lane: Ints, moment: Ints) -> Ints:
        """The iteration that launches what begins at these moments on these threads; -1 for none."""
        marked = sorted({span.lane for span, _ in self.marks})
        lane = np.where(lane >= 0, _marked_lanes(trace, marked)[lane], NONE)
        found = np.full(len(moment), NONE, np.int64)
        for own in marked:
            spans = [span for span, _ in self.marks if span.lane == own]
            begin, end = np.array([span.start_ns for span in spans]), _extended(spans)
            numbers = np.array([number for span, number in self.marks if span.lane == own])
            place = np.searchsorted(begin, moment, side="right") - 1
            inside = (lane == own) & (place >= 0) & (moment < end[np.maximum(place, 0)])
            found[inside] = numbers[place[inside]]
        return found

    def rows_of_phase(self, phase: str) -> Ints:
        return np.flatnonzero([span.mark.phase == phase for span in self.spans])


def _marked_lanes(trace: Trace, marked: list[int]) -> Ints:
    """For each lane the one whose marks its launches belong to: itself, else one of its process, else the only one."""
    processes = trace.lanes["process"].to_list()
    of_process = {processes[lane]: lane for lane in reversed(marked)}
    otherwise = marked[0] if len(marked) == 1 else NONE
    return np.array(
        [lane if lane in marked else of_process.get(process, otherwise) for lane, process in enumerate(processes)],
        np.int64,
    )


def _extended(spans: list[Span]) -> Ints:
    """The ends of spans on one thread with what follows them up to the next."""
    begin = np.array([span.start_ns for span in spans])
    end = np.array([span.end_ns for span in spans])
    following = np.append(begin[1:], np.iinfo(np.int64).max)
    ends: Ints = np.minimum(following, 2 * end - begin + 1)
    return ends

"""Iterations of a served model, and the GPU work of each.

GPU work belongs to the iteration that launched it: engines prepare the next iteration while the GPU still works on this
one. What is launched after a mark's end (sampling, copies of its results) belongs to it until the next mark, for as
long as the mark itself lasts at most. On the GPU an iteration lasts from the end of the one before to its own end, so
that times add up to the whole; of that the time before its first event is the gap. The first one begins when the GPU
is free for it: where a recording begins, the work of passes that it does not have may hold it up.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from warplens.analyses.serving.inferring import inferred_spans
from warplens.analyses.serving.served import ANNOTATION, INFERRED, MARK, Served
from warplens.analyses.serving.spans import Span, marked_spans
from warplens.analyses.shared import shared
from warplens.analyses.workspace import Workspace
from warplens.model.intervals import covered_until, union
from warplens.model.kinds import NONE
from warplens.model.trace import Bools, Ints, Trace


class Windows(msgspec.Struct, frozen=True):
    """The times of iterations on the GPU, in ns; of one without GPU work its time on the host."""

    has_gpu: Bools
    first_ns: Ints
    """Start of the first event."""
    start_ns: Ints
    """End of the iteration before, or of what reaches furthest; for the first one when the GPU is free for it."""
    end_ns: Ints
    gap_ns: Ints
    busy_ns: Ints
    order: Ints
    """Iterations with GPU work in the order of their first events."""

    @property
    def time_ns(self) -> Ints:
        return self.end_ns - self.start_ns


@shared
def served(work: Workspace) -> Served | None:
    """The iterations of a trace; None where it has none."""
    return find_iterations(work.trace) if work.passes is None else work.passes


def find_iterations(trace: Trace) -> Served | None:
    spans, source, reason = marked_spans(trace), MARK, ""
    if spans:
        source = MARK if spans[0].engine_written else ANNOTATION
    else:
        spans, reason = inferred_spans(trace)
        source = INFERRED
    if not spans:
        return None
    lanes = _by_lane(spans)
    iterations, ranks = _joined(lanes)
    return _assigned(trace, iterations, source, reason, ranks)


def _by_lane(spans: Sequence[Span]) -> dict[int, list[Span]]:
    lanes: dict[int, list[Span]] = {}
    for span in spans:
        lanes.setdefault(span.lane, []).append(span)
    return lanes


def _joined(lanes: dict[int, list[Span]]) -> tuple[list[tuple[Span, ...]], int]:
    """Iterations with a span per thread: threads that mark the same passes in the same order are one engine's ranks."""
    sequences = {tuple(span.name for span in spans) for spans in lanes.values()}
    if len(lanes) > 1 and len(sequences) == 1:
        joined = [tuple(spans) for spans in zip(*lanes.values(), strict=True)]
        return sorted(joined, key=lambda spans: min(span.start_ns for span in spans)), len(lanes)
    alone = [(span,) for spans in lanes.values() for span in spans]
    return sorted(alone, key=lambda spans: (spans[0].start_ns, spans[0].lane)), 1


def _assigned(trace: Trace, iterations: list[tuple[Span, ...]], source: str, reason: str, ranks: int) -> Served:
    marks = [(span, number) for number, spans in enumerate(iterations) for span in spans]
    first = tuple(replace(spans[0], start_ns=min(span.start_ns for span in spans),
                          end_ns=max(span.end_ns for span in spans)) for spans in iterations)  # fmt: skip
    gpu = trace.gpu_rows
    launch, op = trace.ints("launch")[gpu], trace.ints("op")[gpu]
    cause = np.where(launch >= 0, launch, op)
    moment = np.where(cause >= 0, trace.ints("start_ns")[np.maximum(cause, 0)], NONE)
    lane = np.where(cause >= 0, trace.ints("lane")[np.maximum(cause, 0)], NONE)
    unassigned = Served(first, source, reason, tuple(marks), gpu, ranks)
    return replace(unassigned, event_iteration=unassigned.iteration_at(trace, lane, moment))


@shared
def windows(work: Workspace) -> Windows:
    iterations = served(work)
    assert iterations is not None  # tables of iterations exist only where there are some
    start = work.gpu["start_ns"].to_numpy()
    end = start + work.gpu["dur_ns"].to_numpy()
    return iteration_windows(iterations, start, end, held_until(work))


@shared
def held_until(work: Workspace) -> int:
    """When the GPU is free for the first iteration; -1 where no work from before the recording holds it up.

    That is so where its stream with most work stays empty for most of the time since its first event, although its
    launch has returned and nothing that is recorded runs.
    """
    iterations, trace, gpu = served(work), work.trace, work.gpu
    assert iterations is not None
    known = np.flatnonzero(iterations.event_iteration >= 0)
    if not len(known):
        return NONE
    start, duration, rows = gpu["start_ns"].to_numpy(), gpu["dur_ns"].to_numpy(), gpu["id"].to_numpy()
    own = iterations.event_iteration
    of_first = known[own[known] == own[known[np.argmin(start[known])]]]
    lane = trace.ints("lane")[rows[of_first]]
    on_main = of_first[lane == np.argmax(np.bincount(lane, weights=duration[of_first]))]
    held = on_main[np.argmin(start[on_main])]
    begin, launch = int(start[held]), int(trace.ints("launch")[rows[held]])
    earlier = start < begin
    if launch < 0 or not earlier.any():
        return NONE
    launched = int(trace.ints("start_ns")[launch] + trace.ints("dur_ns")[launch])
    waited = begin - max(launched, int((start + duration)[earlier].max()))
    since_first = begin - int(start[of_first].min())
    return begin if 0 < since_first < 2 * waited else NONE


def iteration_windows(iterations: Served, start: Ints, end: Ints, first_free: int = NONE) -> Windows:
    """The windows of iterations whose GPU events, in the order of rows, have these starts and ends.

    The first one begins at `first_free` if that is later than its first event.
    """
    count, own = len(iterations), iterations.event_iteration
    far = np.iinfo(np.int64).max
    first, last = np.full(count, far, np.int64), np.full(count, NONE, np.int64)
    known = own >= 0
    np.minimum.at(first, own[known], start[known])
    np.maximum.at(last, own[known], end[known])
    has_gpu = last >= 0
    order = np.flatnonzero(has_gpu)
    order = order[np.lexsort((last[order], first[order]))]
    reached = np.maximum.accumulate(last[order])
    before = np.append(np.maximum(first[order[:1]], first_free), reached[:-1])
    begin = np.array([span.start_ns for span in iterations.spans])
    stop = np.array([span.end_ns for span in iterations.spans])
    begin[order], stop[order] = before, reached
    gap, busy = np.zeros(count, np.int64), np.zeros(count, np.int64)
    gap[order] = np.maximum(0, first[order] - before)
    working = union(start, end)
    busy[order] = covered_until(working, stop[order]) - covered_until(working, begin[order])
    return Windows(has_gpu, np.where(has_gpu, first, NONE), begin, stop, gap, busy, order)

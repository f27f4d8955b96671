"""What each GPU event came after: its launch, the event before it in its stream, an event of another stream."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from warplens.analyses.graph.records import Floats
from warplens.analyses.graph.stream_waits import LaunchedEvents, StreamWaits, stream_waits
from warplens.model.arrays import places_by_value
from warplens.model.kinds import NONE
from warplens.model.trace import Bools, Ints, Trace

QUEUED_NS: Final = 50_000
"""A launch that returned this long before its event's turn did not delay it."""
LEAST_LATENCY_NS: Final = 3_000
"""From the moment at which a launch takes effect to the start of its event."""
USUAL_LATENCY_NS: Final = 5_000
MOST_LATENCY_NS: Final = 30_000
"""From a launch to its event: where a trace has no example of its own, and where its examples also waited."""
USUAL_PAUSE_NS: Final = 1_000
MOST_PAUSE_NS: Final = 10_000
"""The same from one event of a stream to the next."""
SMALL_EXCESS_NS: Final = 10_000
"""What a latency or a pause may exceed the usual one by; a longer wait has another cause."""
MOST_OVERLAP_NS: Final = 10_000
MOST_OVERLAP: Final = 0.75
"""What an event may have in common with the next of its stream, also as a share of the shorter one, if it waits for
it: more of that is work side by side."""
LONG_AGO: Final = np.iinfo(np.int64).min // 2


class GpuOrder(msgspec.Struct, frozen=True):
    """GPU events in the order in which they began, each with those it came after (positions, -1 for none) and how long
    after them it could begin."""

    row: Ints
    start_ns: Ints
    end_ns: Ints
    launch: Ints
    """The call that launched it: a row of the trace."""
    launch_lag_ns: Floats
    launch_host_ns: Floats
    """The part of that lag in which the call was still preparing the launch."""
    previous: Ints
    """The event before it in its stream."""
    previous_lag_ns: Floats
    waits: StreamWaits
    """Those that waited for an event of another stream."""


def gpu_order(trace: Trace, rows: Ints) -> GpuOrder:
    begun, duration = trace.ints("start_ns"), trace.ints("dur_ns")
    rows = rows[np.argsort(begun[rows], kind="stable")]
    start = begun[rows]
    end = start + duration[rows]
    launch = trace.ints("launch")[rows].astype(np.int64)
    has_launch = launch >= 0
    issued = np.where(has_launch, begun[np.maximum(launch, 0)], LONG_AGO)
    call = np.where(has_launch, duration[np.maximum(launch, 0)], 0).astype(float)
    lane = trace.ints("lane")[rows]
    previous = _previous_in_stream(lane, start, end)
    free = np.where(previous >= 0, end[np.maximum(previous, 0)], LONG_AGO)
    latency = _usual((start - issued)[has_launch & (issued >= free)], USUAL_LATENCY_NS, MOST_LATENCY_NS)
    queued = has_launch & (previous >= 0) & (issued + call + QUEUED_NS <= free)
    pause = _usual((start - free)[queued], USUAL_PAUSE_NS, MOST_PAUSE_NS)
    by_launch = has_launch & (issued + latency >= free + pause)
    after_launch, after_previous = (start - issued).astype(float), (start - free).astype(float)
    # A launch takes effect at some moment inside its call, the later the slower the call.
    usual_launch = np.maximum(latency, call + LEAST_LATENCY_NS)
    excess = np.where(by_launch, after_launch - usual_launch, after_previous - pause)
    is_explained = excess <= SMALL_EXCESS_NS
    thread = np.where(has_launch, trace.ints("lane")[np.maximum(launch, 0)], NONE)
    late = np.where(is_explained, 0.0, excess)
    waits = stream_waits(trace, LaunchedEvents(start, end, lane, launch, thread, issued, late))
    # Neither its stream nor another one held it up: its call did, a slow one, or one that launches a graph in pieces.
    in_call = has_launch & ~is_explained & ~waits.explains & (after_launch - usual_launch <= SMALL_EXCESS_NS)
    by_launch, is_explained = by_launch | in_call, is_explained | in_call
    launch_lag = np.where(by_launch & is_explained, after_launch, np.minimum(latency, after_launch))
    return GpuOrder(
        row=rows,
        start_ns=start,
        end_ns=end,
        launch=launch,
        launch_lag_ns=launch_lag,
        launch_host_ns=np.clip(np.where(by_launch, launch_lag - LEAST_LATENCY_NS, launch_lag), 0, call),
        previous=previous,
        previous_lag_ns=np.where(~by_launch & is_explained, after_previous, np.minimum(pause, after_previous)),
        waits=waits,
    )


def _usual(lags: Ints, default: float, most: float) -> float:
    return min(most, max(0.0, float(np.median(lags)))) if len(lags) else default


def _previous_in_stream(lane: Ints, start: Ints, end: Ints) -> Ints:
    """The event of its stream that ended last before each began, or is about to; kernels of a graph can overlap in one
    stream."""
    previous = np.full(len(start), NONE, np.int64)
    for events in places_by_value(lane).values():
        by_end = events[np.argsort(end[events], kind="stable")]
        latest = np.searchsorted(end[by_end], start[events], "right") - 1
        # An event without duration ends when it begins: it does not come before itself, nor before an earlier one.
        if ((latest >= 0) & (by_end[np.maximum(latest, 0)] >= events)).any():
            latest = _latest_before(by_end, end[by_end], events, start[events])
        previous[events] = np.where(latest >= 0, by_end[np.maximum(latest, 0)], NONE)
        overlaps = _overlaps_a_little(start[events], end[events])
        previous[events[1:][overlaps]] = events[:-1][overlaps]
    return previous


def _overlaps_a_little(start: Ints, end: Ints) -> Bools:
    """Whether each event of a stream but the first began while the one before it was about to end: a kernel that is
    launched as its dependent does (programmatic dependent launch), and timers differ by a little."""
    shorter = np.minimum((end - start)[:-1], (end - start)[1:])
    overlap = end[:-1] - start[1:]
    is_little: Bools = (overlap > 0) & (overlap <= np.minimum(MOST_OVERLAP_NS, MOST_OVERLAP * shorter))
    return is_little & (end[:-1] < end[1:])


def _latest_before(by_end: Ints, ends: Ints, events: Ints, starts: Ints) -> Ints:
    """The place in `by_end` of the last event that ended before each of these began, and is an earlier one; -1: none.

    Whatever ended strictly before one began is earlier; of those that ended at that moment it has to be seen.
    """
    _, code = np.unique(np.concatenate([ends, starts]), return_inverse=True)
    last = int(events.max()) + 1
    ended, begun = np.split(code.astype(np.int64) * last, [len(ends)])
    return np.searchsorted(ended + by_end, begun + events, "left") - 1

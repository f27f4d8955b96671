"""Which GPU events waited for an event of another stream: as recorded, or as calls and times show.

A stream waits where the host calls `cudaStreamWaitEvent`. Recorded as an event of its own (the profiler's option
`enable_cuda_sync_events`), the wait names both streams and the call that recorded what is waited for: the next event
launched into the one stream comes after the last one that had been launched into the other. Without it, the next event
that the thread launches is the one that waits, for the last event of another stream that was launched before. That it
waited shows where it began late and right after such an event.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Final

import msgspec
import numpy as np
import polars as pl

from warplens.analyses.graph.records import Floats
from warplens.analyses.time.host_activity import matching_names
from warplens.model.arrays import places_by_value
from warplens.model.kinds import NONE
from warplens.model.trace import Bools, Ints, Trace

STREAM_WAIT: Final = "Stream Wait Event"
"""How CUPTI names the recorded wait of a stream; of the host's waits see `host_waits`."""
WAIT_CALL: Final = re.compile(r"(?:cuda|hip|cu)StreamWaitEvent")
RIGHT_AFTER_NS: Final = 10_000
"""An event that begins late and this soon after the end of one in another stream waited for it."""
SOON_AFTER_NS: Final = 50_000
"""The same where more than the times says so: on AMD's GPUs a stream goes on 10 to 20 µs after what it waits for."""
LIKELY_BY_CHANCE: Final = 0.05
"""From this probability on, that an event of another stream ended this soon before says nothing."""
USUAL_LAG_NS: Final = 5_000
"""From the end of an event to the start of one that waits for it, where a trace has no example."""
FURTHEST_BACK: Final = 16
"""How many launches before a wait the awaited event may be."""


class LaunchedEvents(msgspec.Struct, frozen=True):
    """GPU events in the order in which they began."""

    start_ns: Ints
    end_ns: Ints
    lane: Ints
    launch: Ints
    """The call: a row of the trace, -1 if unknown."""
    thread: Ints
    """The lane of that call."""
    issued_ns: Ints
    """When that call began; long ago where it is unknown."""
    late_ns: Floats
    """How much later than its launch and its stream explain each began; 0 where they do."""


class StreamWaits(msgspec.Struct, frozen=True):
    """Which event (a position) comes after which one of another stream, and how long after."""

    event: Ints
    awaited: Ints
    lag_ns: Floats
    explains: Bools
    """Per event of the trace's order: whether a wait explains why it began late."""


def stream_waits(trace: Trace, events: LaunchedEvents) -> StreamWaits:
    is_alone = len(events.lane) == 0 or events.lane.min() == events.lane.max()
    pairs = set() if is_alone else _pairs(trace, _Streams(events))
    event, awaited = np.array(sorted(pairs), np.int64).reshape(-1, 2).T
    after = (events.start_ns[event] - events.end_ns[awaited]).astype(float)
    explains = (events.late_ns[event] > 0) & (after <= SOON_AFTER_NS)
    usual = float(np.median(after[explains])) if explains.any() else USUAL_LAG_NS
    is_explained = np.zeros(len(events.lane), bool)
    is_explained[event[explains]] = True
    return StreamWaits(event, awaited, np.where(explains, after, np.minimum(after, usual)), is_explained)


def _pairs(trace: Trace, streams: _Streams) -> set[tuple[int, int]]:
    """Events, each with one of another stream that it comes after."""
    recorded = _recorded_waits(trace, streams)
    calls = {} if recorded else _wait_calls(trace)
    by_times = _awaited_by_late_events(streams, calls, only_in_graphs=bool(recorded))
    return recorded | _awaited_by_calls(streams, calls) | by_times


class _Streams:
    """The events of each stream in the order of their launches."""

    def __init__(self, events: LaunchedEvents) -> None:
        self.events = events
        self.lanes: list[int] = np.unique(events.lane).tolist()
        self.start, self.end = events.start_ns.tolist(), events.end_ns.tolist()
        self.issued, self.lane = events.issued_ns.tolist(), events.lane.tolist()
        self.by_lane = _in_launch_order(events, events.lane)
        self.by_thread = _in_launch_order(events, events.thread)

    def launched_before(self, lane: int, moment: int, ended_by: int) -> int:
        """The last event launched into a stream before a moment, of those that had ended by another one."""
        launches = self.by_lane.get(lane, NO_LAUNCHES)
        until = bisect_left(launches.issued_ns, moment)
        for event in reversed(launches.events[max(0, until - FURTHEST_BACK) : until]):
            if self.end[event] <= ended_by:
                return event
        return NONE


class _Launches(msgspec.Struct, frozen=True):
    """Events in the order of their launches."""

    events: list[int]
    issued_ns: list[int]

    def first_from(self, moment: int) -> int:
        """The first event launched from a moment on, -1 for none."""
        at = bisect_left(self.issued_ns, moment)
        return self.events[at] if at < len(self.events) else NONE


NO_LAUNCHES: Final = _Launches([], [])


def _in_launch_order(events: LaunchedEvents, group: Ints) -> dict[int, _Launches]:
    """The launched events of each stream, or of each thread."""
    launched = np.flatnonzero(events.launch != NONE)
    launched = launched[np.argsort(events.issued_ns[launched], kind="stable")]
    return {
        number: _Launches(launched[members].tolist(), events.issued_ns[launched[members]].tolist())
        for number, members in places_by_value(group[launched]).items()
    }


def _recorded_waits(trace: Trace, streams: _Streams) -> set[tuple[int, int]]:
    """The waits that the trace has events of its own for."""
    waits = trace.waits.join(trace.events.select("id", "name", "device", "correlation"), on="id")
    waits = waits.join(trace.events.select("id", pl.col("stream").alias("waiting"), "start_ns"), on="id")
    pairs: set[tuple[int, int]] = set()
    if waits.is_empty():
        return pairs
    lane_of, called_at = stream_lanes(trace), call_times(trace)
    columns = ("name", "device", "waiting", "stream", "start_ns", "correlation", "record")
    for name, device, waiting, stream, start, own, record in waits.select(columns).iter_rows():
        own_lane, other = lane_of.get((device, waiting), NONE), lane_of.get((device, stream), NONE)
        if trace.names[name] != STREAM_WAIT or NONE in (own_lane, other) or own_lane == other:
            continue
        called = called_at.get(own, start)
        event = streams.by_lane.get(own_lane, NO_LAUNCHES).first_from(called)
        if event == NONE:
            continue
        awaited = streams.launched_before(other, called_at.get(record, called), streams.start[event])
        if awaited != NONE and awaited < event:
            pairs.add((event, awaited))
    return pairs


def stream_lanes(trace: Trace) -> dict[tuple[int, int], int]:
    """The lane of each stream of a device."""
    events = trace.events.select(pl.col("device", "stream", "lane").gather(trace.gpu_rows)).unique()
    return {(device, stream): lane for device, stream, lane in events.iter_rows()}


def call_times(trace: Trace) -> dict[int, int]:
    """When the call with a correlation began."""
    calls = trace.runtime_rows
    columns = (trace.ints(name)[calls].tolist() for name in ("correlation", "start_ns"))
    return dict(zip(*columns, strict=True))


def _wait_calls(trace: Trace) -> dict[int, list[int]]:
    """When each thread called for a stream to wait."""
    calls = trace.runtime_rows
    calls = calls[matching_names(trace, WAIT_CALL)[trace.ints("name")[calls]]]
    calls = calls[np.argsort(trace.ints("start_ns")[calls], kind="stable")]
    by_thread: dict[int, list[int]] = {}
    for thread, start in zip(trace.ints("lane")[calls].tolist(), trace.ints("start_ns")[calls].tolist(), strict=True):
        by_thread.setdefault(thread, []).append(start)
    return by_thread


def _awaited_by_calls(streams: _Streams, calls: dict[int, list[int]]) -> set[tuple[int, int]]:
    """The next event that a thread launches after a wait call comes after the last one of the only other stream that
    has one which is not awaited already."""
    called_ns: dict[int, int] = {}
    for thread, moments in calls.items():
        launches = streams.by_thread.get(thread, NO_LAUNCHES)
        for moment in moments:
            if (event := launches.first_from(moment)) != NONE:
                called_ns[event] = moment
    pairs = set()
    awaited_until: dict[tuple[int, int], int] = {}
    """The launch of the last event that a stream has waited for, of each other stream."""
    for event, moment in sorted(called_ns.items(), key=lambda called: called[1]):
        own = streams.lane[event]
        others = [lane for lane in streams.lanes if lane != own]
        last = [streams.launched_before(lane, moment, ended_by=streams.start[event]) for lane in others]
        new = [
            (lane, other)
            for lane, other in zip(others, last, strict=True)
            if NONE < other < event and streams.issued[other] > awaited_until.get((own, lane), NONE)
        ]
        if len(new) == 1:  # of several streams any could be meant
            lane, awaited = new[0]
            awaited_until[own, lane] = streams.issued[awaited]
            pairs.add((event, awaited))
    return pairs


def _awaited_by_late_events(
    streams: _Streams, calls: dict[int, list[int]], only_in_graphs: bool
) -> set[tuple[int, int]]:
    """What events that began late waited for, going by the times; where waits are recorded, only inside graphs."""
    events = streams.events
    by_end = np.argsort(events.end_ns, kind="stable")
    ends = events.end_ns[by_end]
    late = np.flatnonzero(events.late_ns > 0)
    if only_in_graphs:
        calls_of, launched = np.unique(events.launch, return_counts=True)
        late = late[launched[np.searchsorted(calls_of, events.launch[late])] > 1]
    pairs = set()
    for event in late.tolist():
        start = streams.start[event]
        latest = int(np.searchsorted(ends, start, "right"))
        since = int(np.searchsorted(ends, start - SOON_AFTER_NS, "left"))
        ended = [other for other in by_end[since:latest][::-1].tolist() if streams.lane[other] != streams.lane[event]]
        ended = [other for other in ended if other < event]
        stall = float(events.late_ns[event])
        in_stall = latest - int(np.searchsorted(ends, start - stall, "right"))
        called = _wait_call_before(streams, calls, event)
        before_call = [other for other in ended if streams.issued[other] < called] if called != NONE else []
        awaited = before_call[0] if before_call else NONE
        if awaited == NONE and ended:
            after = start - streams.end[ended[0]]
            if after < RIGHT_AFTER_NS or in_stall * after < LIKELY_BY_CHANCE * stall:
                awaited = ended[0]
        if awaited != NONE:
            pairs.add((event, awaited))
    return pairs


def _wait_call_before(streams: _Streams, calls: dict[int, list[int]], event: int) -> int:
    """When its thread last called for a stream to wait, after the launch before it in its stream; -1 if it did not."""
    issued = streams.issued[event]
    moments = calls.get(int(streams.events.thread[event]), [])
    at = bisect_left(moments, issued) - 1
    launches = streams.by_lane.get(streams.lane[event], NO_LAUNCHES)
    before = bisect_left(launches.issued_ns, issued) - 1
    if at < 0 or (before >= 0 and moments[at] < launches.issued_ns[before]):
        return NONE
    return moments[at]

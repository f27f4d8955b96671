"""Calls in which the host waits for the GPU, and what each waits for."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import msgspec
import numpy as np

from warplens.analyses.graph.gpu_order import LONG_AGO, GpuOrder
from warplens.analyses.graph.host_points import HostPoints
from warplens.analyses.graph.records import CALL, QUEUE, SYNC, Floats
from warplens.analyses.graph.stream_waits import SOON_AFTER_NS, call_times, stream_lanes
from warplens.analyses.time.host_activity import SYNC_CALL, matching_names
from warplens.model.arrays import places_by_value
from warplens.model.kinds import NONE
from warplens.model.trace import Bools, Ints, Trace

COPY_CALL: Final = re.compile(r"(?:cuda|hip|cu)Memcpy")
LONG_LAUNCH_NS: Final = 100_000
"""A launch call that takes this long and returns when a GPU event has just ended has waited for room in the queue."""
EVENT_SYNC_CALL: Final = re.compile(r"(?:cuda|hip|cu)EventSynchronize")
EVENT_SYNC: Final = "Event Sync"
STREAM_SYNC: Final = "Stream Sync"
"""How CUPTI names the recorded waits of the host for a CUDA event and for a stream."""
MANY_STREAMS: Final = 64
"""With more, a call that waits for all of them waits for what was launched since the last such call: the rest was
waited for then. As many calls as streams would have the square of them as waits."""
NO_STREAM: Final = -2
"""A stream without a GPU event in the trace."""
SOON_NS: Final = 20_000
"""How soon after the awaited event such a call returns."""
FULL_QUEUE: Final = 1_000
"""From this many GPU events on that are launched and not done, the queue is full (about 1,024 launches fit)."""
MUCH_LONGER: Final = 10
"""A graph's launch call that takes this many times as long as the shortest one waited for other graphs."""
LONG_INTO_FULL_NS: Final = 20_000
SOON_IN_FULL_NS: Final = 100_000
"""The same two where the queue is full."""
MOST_OF_A_COPY: Final = 0.5
"""A copying call that returned after this share of its copy waited for it: it read the last of the pageable memory."""
OWN_NS: Final = 5_000
"""What a call takes that finds nothing to wait for."""


class HostWaits(msgspec.Struct, frozen=True):
    """Positions of waiting calls among the points, and per awaited GPU event one entry of the other arrays."""

    calls: Ints
    own_ns: Floats
    """How long each call would take without a wait."""
    call: Ints
    """Position in `calls`."""
    event: Ints
    """Position in the order of GPU events."""
    lag_ns: Floats
    """From the end of the event to the return of the call."""
    kind: Ints
    split: Ints
    """Copies of pageable memory that went on after their call had returned, as positions like `event`."""
    split_call: Ints
    """Their calls, as positions like `call`."""
    split_ns: Ints
    """When their call returned: what the call waited for is the part of the copy until then."""


def calls_that_matter(trace: Trace) -> Ints:
    """Calls that launch GPU work or wait for it."""
    is_launch = np.zeros(len(trace), bool)
    launch = trace.ints("launch")[trace.gpu_rows]
    is_launch[launch[launch >= 0]] = True
    calls = trace.runtime_rows
    chosen: Ints = calls[is_launch[calls] | _named(trace, SYNC_CALL, calls)]
    return chosen


def host_waits(trace: Trace, points: HostPoints, gpu: GpuOrder, launched_by: Ints) -> HostWaits:
    """`launched_by`: the point that launched each GPU event, -1 for none."""
    queued_behind, own = _queued(points, gpu, launched_by)
    split = _copies_awaited_in_part(trace, points, gpu, launched_by)
    is_sync = _is_sync(trace, points, gpu, launched_by)
    is_sync[launched_by[split]] = True
    queued_behind[is_sync] = NONE
    split_at = dict(zip(launched_by[split].tolist(), split.tolist(), strict=True))
    calls = np.flatnonzero(is_sync | (queued_behind != NONE))
    awaiting = _Awaiting(trace, gpu, _by_stream(trace, points, gpu, launched_by))
    entries: list[tuple[int, int, float, int]] = []
    for index, point in enumerate(calls.tolist()):
        begin, end = int(points.start_ns[point]), int(points.end_ns[point])
        if queued_behind[point] != NONE:
            event = int(queued_behind[point])
            entries.append((index, event, end - int(gpu.end_ns[event]), QUEUE))
            continue
        if point in split_at:
            entries.append((index, split_at[point], 1.0, SYNC))
            continue
        awaited = awaiting.events(int(points.row[point]), begin, end)
        latest = max((int(gpu.end_ns[event]) for event in awaited), default=begin)
        if latest <= begin:  # it had nothing to wait for: all its time is its own
            own[point] = end - begin
        # What had ended before the call began did not hold it up, but would if the host were faster.
        entries += [(index, event, end - latest if gpu.end_ns[event] > begin else 0.0, SYNC) for event in awaited]
    columns = list(zip(*entries, strict=True)) or [(), (), (), ()]
    return HostWaits(
        calls=calls,
        own_ns=own[calls],
        call=np.array(columns[0], np.int64),
        event=np.array(columns[1], np.int64),
        lag_ns=np.array(columns[2], float),
        kind=np.array(columns[3], np.int64),
        split=split,
        split_call=np.searchsorted(calls, launched_by[split]),
        split_ns=points.end_ns[launched_by[split]] - 1,  # so that it comes before the return
    )


def _named(trace: Trace, pattern: re.Pattern[str], rows: Ints) -> Bools:
    named: Bools = matching_names(trace, pattern)[trace.ints("name")[rows]]
    return named


def _is_sync(trace: Trace, points: HostPoints, gpu: GpuOrder, launched_by: Ints) -> Bools:
    """Synchronising calls, and copies whose call returned only after the copy: those of pageable memory."""
    calls = np.flatnonzero(points.kind == CALL)
    copied_at = np.full(len(points.row), np.iinfo(np.int64).max)
    known = launched_by != NONE
    copied_at[launched_by[known]] = gpu.end_ns[known]
    is_sync = np.zeros(len(points.row), bool)
    rows = points.row[calls]
    has_copied = copied_at[calls] <= points.end_ns[calls]
    is_sync[calls] = _named(trace, SYNC_CALL, rows) | (_named(trace, COPY_CALL, rows) & has_copied)
    return is_sync


def _copies_awaited_in_part(trace: Trace, points: HostPoints, gpu: GpuOrder, launched_by: Ints) -> Ints:
    """Copies whose call returned towards their end: the driver had read the pageable memory, and the rest went on."""
    copies = np.flatnonzero(launched_by != NONE)
    copies = copies[_named(trace, COPY_CALL, gpu.launch[copies])]
    duration, returned = trace.ints("dur_ns")[gpu.row[copies]], points.end_ns[launched_by[copies]]
    left = gpu.end_ns[copies] - returned
    chosen: Ints = copies[(left > 0) & (left < (1 - MOST_OF_A_COPY) * duration)]
    return chosen


class _Queued(NamedTuple):
    """Launch calls that waited for room in the queue."""

    behind: Ints
    """Per point: the GPU event whose end let it return, -1 for calls that did not wait."""
    least_ns: Floats
    """Per point: what the call takes by itself."""


def _queued(points: HostPoints, gpu: GpuOrder, launched_by: Ints) -> _Queued:
    taken = (points.end_ns - points.start_ns).astype(float)
    launched = launched_by[launched_by != NONE]
    events = np.bincount(launched, minlength=len(points.row))
    is_graph = events > 1
    # Launching a graph takes a while, as long as the shortest call does.
    least = np.where(is_graph, taken[is_graph].min(initial=np.inf), np.minimum(taken, OWN_NS))
    if len(gpu.row) == 0:
        return _Queued(np.full(len(points.row), NONE, np.int64), least)
    by_end = np.argsort(gpu.end_ns, kind="stable")
    latest = np.searchsorted(gpu.end_ns[by_end], points.end_ns, "right") - 1
    event = by_end[np.maximum(latest, 0)]
    ended = gpu.end_ns[event]
    outstanding = _outstanding(points, gpu, launched_by, events)
    is_full = outstanding >= np.where(is_graph, 1, FULL_QUEUE)
    long = np.where(is_full, LONG_INTO_FULL_NS, LONG_LAUNCH_NS)
    long = np.where(is_graph, np.maximum(MUCH_LONGER * least, LONG_LAUNCH_NS), long)
    is_soon = points.end_ns - ended <= np.where(is_full, SOON_IN_FULL_NS, SOON_NS)
    # Where nothing is outstanding there is room: such a call took long for reasons of the host's.
    is_queued = (points.kind == CALL) & (taken >= long) & (outstanding > 0)
    is_queued &= is_soon & (latest >= 0) & (ended > points.start_ns)
    return _Queued(np.where(is_queued, event, NONE), least)


def _outstanding(points: HostPoints, gpu: GpuOrder, launched_by: Ints, events: Ints) -> Ints:
    """How many of the launched GPU events had not ended when each call began."""
    issued = np.append(0, np.cumsum(events))[np.searchsorted(points.start_ns, points.start_ns, "left")]
    ends = np.sort(gpu.end_ns[launched_by != NONE])
    return issued - np.searchsorted(ends, points.start_ns, "right")


class _Stream(msgspec.Struct, frozen=True):
    """Events of a stream in the order of their launches."""

    lane: int
    launched_ns: Ints
    events: Ints


def _by_stream(trace: Trace, points: HostPoints, gpu: GpuOrder, launched_by: Ints) -> list[_Stream]:
    lane = trace.ints("lane")[gpu.row]
    launched = np.full(len(lane), LONG_AGO)  # what was launched before the first moment
    launched[launched_by != NONE] = points.start_ns[launched_by[launched_by != NONE]]
    streams = []
    for stream, places in places_by_value(lane.astype(np.int64)).items():
        events = places[np.argsort(launched[places], kind="stable")]
        streams.append(_Stream(stream, launched[events], events))
    return streams


class _RecordedSync(msgspec.Struct, frozen=True):
    """What a call waits for, as the trace says."""

    lane: int
    """The stream, -1 for all of them."""
    until_ns: int | None
    """Only what was launched into it before; None: before the call."""


ALL_STREAMS: Final = _RecordedSync(NONE, None)


def _recorded_syncs(trace: Trace) -> dict[int, _RecordedSync]:
    """By call: which stream it waits for, and up to which recorded CUDA event."""
    rows = trace.rows_of("sync")
    if len(rows) == 0:
        return {}
    lane_of, called_at = stream_lanes(trace), call_times(trace)
    call_of = dict(
        zip(trace.ints("correlation")[trace.runtime_rows].tolist(), trace.runtime_rows.tolist(), strict=True)
    )
    waits = {row: (stream, record) for row, stream, record in trace.waits.iter_rows()}
    columns = (rows, *(trace.ints(name)[rows] for name in ("name", "device", "stream", "correlation")))
    syncs = {}
    for row, name, device, stream, correlation in zip(*(column.tolist() for column in columns), strict=True):
        if correlation not in call_of:
            continue
        if trace.names[name] == STREAM_SYNC:
            syncs[call_of[correlation]] = _RecordedSync(lane_of.get((device, stream), NO_STREAM), None)
        elif trace.names[name] == EVENT_SYNC and row in waits:
            awaited, record = waits[row]
            lane = lane_of.get((device, awaited), NO_STREAM)
            syncs[call_of[correlation]] = _RecordedSync(lane, called_at.get(record))
    return syncs


class _Since:
    """What many streams together have launched since it was last asked for: what came before was awaited then."""

    def __init__(self, streams: list[_Stream]) -> None:
        lane = np.repeat([stream.lane for stream in streams], [len(stream.events) for stream in streams])
        launched, events = (
            np.concatenate([getattr(stream, name) for stream in streams]) for name in ("launched_ns", "events")
        )
        order = np.argsort(launched, kind="stable")
        self._lane, self._launched_ns, self._events = lane[order].tolist(), launched[order], events[order]
        self._awaited = 0

    def last_events(self, until: int) -> list[int]:
        """The last event of each stream."""
        end = int(np.searchsorted(self._launched_ns, until, "right"))
        since, self._awaited = self._awaited, max(self._awaited, end)
        latest = dict(zip(self._lane[since:end], self._events[since:end].tolist(), strict=True))
        return list(latest.values())

    def recent(self, until: int) -> _Stream:
        """The last events launched before a moment, as if they were of one stream."""
        end = int(np.searchsorted(self._launched_ns, until, "right"))
        chosen = slice(max(0, end - MANY_STREAMS), end)
        return _Stream(NONE, self._launched_ns[chosen], self._events[chosen])


class _Awaiting:
    """Which GPU events a synchronising call waited for."""

    def __init__(self, trace: Trace, gpu: GpuOrder, streams: list[_Stream]) -> None:
        self._streams = streams
        self._by_lane = {stream.lane: stream for stream in streams}
        self._since: _Since | None = _Since(streams) if len(streams) > MANY_STREAMS else None
        self._ends = gpu.end_ns
        self._recorded = _recorded_syncs(trace)
        self._names, self._name_of_row = trace.names, trace.ints("name")

    def events(self, call: int, begin: int, end: int) -> list[int]:
        """The last event of each stream that is waited for, of those that had ended when the call returned."""
        sync = self._recorded.get(call, ALL_STREAMS)
        until = begin if sync.until_ns is None else sync.until_ns
        events = self._last_events(sync.lane, until)
        ended = [event for event in events if self._ends[event] <= end]
        is_event_sync = EVENT_SYNC_CALL.match(self._names[self._name_of_row[call]]) is not None
        is_unclear = sync is ALL_STREAMS and is_event_sync
        if is_unclear and all(self._ends[event] <= begin for event in ended):  # it waited for an earlier event
            return self._ended_just_before(begin, end) or ended
        return ended

    def _last_events(self, lane: int, until: int) -> list[int]:
        """The last event launched before a moment, of one stream or of each."""
        if lane == NONE and self._since is not None:
            return self._since.last_events(until)
        streams = self._streams if lane == NONE else [self._by_lane[lane]] if lane in self._by_lane else []
        last = [int(np.searchsorted(stream.launched_ns, until, "right")) - 1 for stream in streams]
        return [int(stream.events[index]) for stream, index in zip(streams, last, strict=True) if index >= 0]

    def _ended_just_before(self, begin: int, end: int) -> list[int]:
        """The event launched before a call whose end let the call return, if there is one."""
        latest: list[int] = []
        for stream in self._streams if self._since is None else [self._since.recent(begin)]:
            launched = stream.events[: int(np.searchsorted(stream.launched_ns, begin, "right"))]
            ends = self._ends[launched]
            latest += launched[(ends > max(begin, end - SOON_AFTER_NS)) & (ends <= end)].tolist()
        return sorted(latest, key=self._ends.__getitem__)[-1:]

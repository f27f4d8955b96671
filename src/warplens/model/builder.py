"""`TraceBuilder`: what readers call; nothing else stands between a file and a `Trace`.

A reader adds events one by one (`add`) or many at a time (`add_columns`), in any order, and what belongs to them:
lanes, flows, allocations, recorded callers. Times are integer nanoseconds from any moment on; None, or False in a
mask, where the file has none. `build` drops and counts what is damaged, sorts the rest and returns the trace.

An event's number here is its place in the order of adding; in the trace, rows are sorted and have other numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypedDict

import msgspec
import numpy as np
import polars as pl

from warplens.model import assemble
from warplens.model.allocations import AllocationColumns, columns_of, memory_frame
from warplens.model.arrays import distinct
from warplens.model.assemble import Array, EventColumns, FlowEnds
from warplens.model.budget import current_budget
from warplens.model.codes import Codes
from warplens.model.event_records import Allocation, CallSpec, Collective, Lane, Lanes, LaunchGeometry, ThreadId
from warplens.model.kinds import CODE, NONE
from warplens.model.quality import Note, Quality
from warplens.model.times import clamped, usable_times
from warplens.model.trace import SIDE_FRAMES, Bools, Ints, Meta, Trace
from warplens_run.base import bounded

if TYPE_CHECKING:
    from typing_extensions import Unpack

UNNAMED: Final = "(unnamed)"
FRAMES_LANE: Final = "recorded callers"
"""The lane of callers that are named without saying when they ran."""
MOST_COPIED: Final = 1 << 40
"""Bytes of one event: sums of millions of them are still numbers of 64 bits."""
EVENT_VALUES: Final = 4
"""What an event counts for in the budget of its file."""


class EventInts(TypedDict, total=False):
    """Integer columns of `Trace.events` that only some events have: one value for all, or an array."""

    device: Array | int
    stream: Array | int
    correlation: Array | int
    external_id: Array | int
    sequence: Array | int
    forward_thread: Array | int
    spec: Array | int
    geometry: Array | int


class _Caller(msgspec.Struct, frozen=True):
    """A recorded caller, below another event (-1: below none)."""

    parent: int
    kind: str
    name: str
    instance: str


class TraceBuilder:
    """See the module's text. `damage` counts what a reader finds wrong, by the codes of quality notes."""

    def __init__(self) -> None:
        self.names: Codes[str] = Codes()
        self.lanes = Lanes()
        self.specs: Codes[CallSpec] = Codes()
        self.geometries: Codes[LaunchGeometry] = Codes()
        self.process_names: dict[ThreadId, str] = {}
        self.thread_names: dict[Lane, str] = {}
        self.damage: Counter[str] = Counter()
        self._size = 0
        self._parts: list[EventColumns] = []
        self._rows = _RowBuffer()
        self._by_event: dict[str, dict[int, int]] = {}
        self._flow_keys: Codes[ThreadId] = Codes()
        self._flows: list[FlowEnds] = []
        self._arrows: list[tuple[int, int]] = []
        self._allocations: list[Allocation] = []
        self._allocation_columns: list[AllocationColumns] = []
        self._copies: list[tuple[int, int]] = []
        self._collectives: list[tuple[int, Collective]] = []
        self._frames: dict[_Caller, int] = {}
        self._frames_lane = NONE
        self._contexts: list[tuple[int, int]] = []
        self._metrics: list[tuple[int, str, float]] = []
        self._budget = current_budget()

    def __len__(self) -> int:
        """The events added so far."""
        return self._size

    def add_lane(self, process: ThreadId, thread: ThreadId, process_name: str = "", thread_name: str = "") -> int:
        """A new lane, also where another has the same ids; `lanes[process, thread]` is one lane for equal ids."""
        self.process_names[process] = process_name
        self.thread_names[process, thread] = thread_name
        return self.lanes.add((process, thread))

    def add(
        self,
        kind: str,
        name: str,
        start_ns: int | None,
        dur_ns: int | None,
        *,
        lane: int,
        device: int = NONE,
        stream: int = NONE,
        correlation: int = NONE,
        external_id: int = NONE,
        geometry: int = NONE,
    ) -> int:
        """One event; returns its number."""
        event = self._size
        self._size += 1
        self._budget.spend(EVENT_VALUES, "events")
        self._rows.add(CODE[kind], self.names[name], start_ns, dur_ns, lane)
        # Most events have few of these, so they are kept by event.
        if device != NONE:
            self._set("device", event, device)
        if stream != NONE:
            self._set("stream", event, stream)
        if correlation != NONE:
            self._set("correlation", event, correlation)
        if external_id != NONE:
            self._set("external_id", event, external_id)
        if geometry != NONE:
            self._set("geometry", event, geometry)
        return event

    def _set(self, column: str, event: int, value: int) -> None:
        self._by_event.setdefault(column, {})[event] = bounded.whole(value, NONE)

    def set_external_id(self, event: int, value: int) -> None:
        """The number that GPU work and the host's op for it have in common, once both are known."""
        self._set("external_id", event, value)

    def add_columns(
        self,
        kind: str | Array,
        name: Array,
        start_ns: Ints,
        dur_ns: Ints,
        *,
        lane: Array | int,
        has_start: Bools | None = None,
        has_duration: Bools | None = None,
        **ints: Unpack[EventInts],
    ) -> int:
        """Many events, an entry of each array for each; returns the number of the first.

        `kind` is one for all or an array of codes, `name` are codes of `names`, `lane` is one for all or an array.
        `has_start` and `has_duration` say where a time is known, by default everywhere.
        """
        self._flush()
        first, size = self._size, len(start_ns)
        self._size += size
        columns = EventColumns(
            kind=np.full(size, CODE[kind], np.uint8) if isinstance(kind, str) else kind.astype(np.uint8, copy=False),
            name=name.astype(np.int32, copy=False),
            start_ns=start_ns,
            dur_ns=dur_ns,
            lane=_filled(lane, size).astype(np.int32, copy=False),
            has_start=has_start,
            has_duration=has_duration,
            ints={column: _filled(values, size) for column, values in ints.items()},  # type: ignore[arg-type]
        )
        self._parts.append(columns)
        return first

    def name_codes(self, name_of: Callable[..., str], *columns: Ints) -> Ints:
        """Codes of names that depend on some columns; each different row is named once."""
        rows, index = distinct(*columns)
        return np.array([self.names[name_of(*row)] for row in rows], np.int64)[index]

    def lane_codes(self, lane_of: Callable[..., Lane], *columns: Ints) -> Ints:
        """Lanes that depend on some columns, likewise."""
        rows, index = distinct(*columns)
        return np.array([self.lanes[lane_of(*row)] for row in rows], np.int64)[index]

    def geometry_codes(self, grid: Sequence[Ints], block: Sequence[Ints], registers: Ints, shared_bytes: Ints) -> Ints:
        """Codes of launch geometries; `grid` and `block` have a column for each of x, y and z."""
        rows, index = distinct(*grid, *block, registers, shared_bytes)
        geometries = (LaunchGeometry(str(list(row[:3])), str(list(row[3:6])), row[6], row[7]) for row in rows)
        return np.array([self.geometries[geometry] for geometry in geometries], np.int64)[index]

    def add_copies(self, copies: Iterable[tuple[int, int]]) -> None:
        """How many bytes events move: (event, bytes); negative sizes are unknown ones, and so are impossible ones."""
        self._copies += [copy for copy in copies if 0 <= copy[1] <= MOST_COPIED]

    def add_collective(self, event: int, collective: Collective) -> None:
        self._collectives.append((event, collective))

    def add_allocations(self, allocations: Iterable[Allocation]) -> None:
        self._allocations += allocations

    def add_allocation_columns(self, allocations: AllocationColumns) -> None:
        """The same as columns."""
        self._allocation_columns.append(allocations)

    def add_flow_ends(
        self,
        opens: Sequence[bool],
        keys: Iterable[ThreadId],
        start_ns: Ints,
        lanes: Sequence[int],
        has_start: Bools | None = None,
    ) -> None:
        """Ends of flow arrows between ops: two ends with equal keys are one arrow, `opens` is the end it leaves from.

        An end belongs to the innermost op that starts at its time on its lane.
        """
        ends = FlowEnds(np.array(opens, bool), self._flow_keys.of(keys), start_ns, np.array(lanes, np.int32))
        self._flows.append(ends if has_start is None else ends.chosen(has_start))

    def add_flow_columns(
        self, opens: Bools, keys: Sequence[ThreadId], key: Array, start_ns: Ints, lanes: Array
    ) -> None:
        """The same as columns: `key` is where an end's key is among the `keys`."""
        codes = self._flow_keys.of(keys)
        self._flows.append(FlowEnds(opens, codes[key], start_ns, lanes.astype(np.int32, copy=False)))

    def add_arrow(self, source: int, target: int) -> None:
        """A flow from one event to another."""
        self._arrows.append((source, target))

    def frame(self, parent: int, kind: str, name: str, start_ns: int | None, instance: str = "") -> int:
        """The caller of this name below another event; one event, or one per instance, however often asked for."""
        self._budget.spend(1, "callers of events")  # a long path may be asked for by each of many events
        key = _Caller(parent, kind, name, instance)
        event = self._frames.get(key)
        if event is None:
            if self._frames_lane == NONE:
                self._frames_lane = self.add_lane(FRAMES_LANE, 0, FRAMES_LANE, FRAMES_LANE)
            event = self._frames[key] = self.add(kind, name, start_ns, 0, lane=self._frames_lane)
        return event

    def add_context(self, event: int, frame: int) -> None:
        """The innermost recorded caller of a GPU event."""
        self._contexts.append((event, frame))

    def add_metric(self, event: int, metric: str, value: float) -> None:
        self._metrics.append((event, metric, value))

    def gathered(self) -> EventColumns:
        """All events added so far, as columns that may be changed in place."""
        self._flush()
        whole = assemble.joined(self._parts)
        self._parts = [whole]
        for column, values in self._by_event.items():
            whole.whole_column(column)[list(values)] = list(values.values())
        self._by_event = {}
        return whole

    def _flush(self) -> None:
        if len(self._rows):
            self._parts.append(self._rows.columns())
            self._rows = _RowBuffer()

    def build(self, meta: Meta, notes: Iterable[Note] = ()) -> Trace:
        """The trace; the builder is used up."""
        events = self.gathered()
        names = self._checked_names(events)
        times = usable_times(events.start_ns, events.dur_ns, events.has_start, events.has_duration, self.damage)
        origin = int(times.start_ns.min()) if len(times.rows) else 0
        start = times.start_ns - origin
        flows = assemble.joined_flows(self._flows)
        allocations = self._allocation_columns + ([columns_of(self._allocations)] if self._allocations else [])
        allocating = {thread for part in allocations for thread in part.threads}
        used = assemble.used_lanes(events, flows, [lane in allocating for lane in self.lanes.in_order])
        lane, lanes = assemble.lanes_of(events, times.rows, used, self._lane_labels())
        order = assemble.row_order(events.kind[times.rows], lane, start, times.dur_ns)
        rows = times.rows[order]
        frame = assemble.events_frame(events, rows, start[order], times.dur_ns[order], lane[order])
        row_of = np.full(len(events), NONE, np.int64)
        row_of[rows] = np.arange(len(rows))
        memory = memory_frame(allocations, origin, lanes, self.damage)
        host_lane = np.cumsum(used) - 1
        arrows = assemble.arrows_frame(self._arrows, row_of)
        counts = [Note(code, count) for code, count in self.damage.items() if count]
        return Trace(
            meta=msgspec.structs.replace(meta, origin_ns=meta.origin_ns + origin),
            names=names,
            events=frame,
            lanes=lanes,
            memory=memory,
            flows=pl.concat([assemble.flows_frame(flows, host_lane, origin, frame), arrows]),
            steps=pl.DataFrame(schema=SIDE_FRAMES["steps"]),
            arguments=pl.DataFrame(schema=SIDE_FRAMES["arguments"]),
            launched=pl.DataFrame(schema=SIDE_FRAMES["launched"]),
            waits=pl.DataFrame(schema=SIDE_FRAMES["waits"]),
            specs=assemble.one_line(assemble.side_frame("specs", list(self.specs)), CallSpec._fields),
            geometries=assemble.one_line(
                assemble.side_frame("geometries", list(self.geometries)), LaunchGeometry._fields[:2]
            ),
            quality=Quality((*notes, *counts)),
            **{name: assemble.side_of_events(name, rows, row_of) for name, rows in self._sides().items()},
        )

    def _checked_names(self, events: EventColumns) -> list[str]:
        names, self.damage["long_names"] = bounded.texts(list(self.names))
        if "" in self.names:
            names[self.names[""]] = UNNAMED
            self.damage["unnamed"] += int(np.count_nonzero(events.name == self.names[""]))
        return names

    def _lane_labels(self) -> list[tuple[str, str, str, str]]:
        return [
            (str(lane[0]), str(lane[1]), self.process_names.get(lane[0], ""), self.thread_names.get(lane, ""))
            for lane in self.lanes.in_order
        ]

    def _sides(self) -> dict[str, Sequence[tuple[object, ...]]]:
        return {
            "copies": self._copies,
            "collectives": [(event, *collective) for event, collective in self._collectives],
            "frames": [(event, frame.parent) for frame, event in self._frames.items()],
            "contexts": self._contexts,
            "metrics": self._metrics,
        }


class _RowBuffer:
    """Events that were added one by one."""

    def __init__(self) -> None:
        self._kind: list[int] = []
        self._name: list[int] = []
        self._start: list[int | None] = []
        self._duration: list[int | None] = []
        self._lane: list[int] = []

    def __len__(self) -> int:
        return len(self._kind)

    def add(self, kind: int, name: int, start_ns: int | None, dur_ns: int | None, lane: int) -> None:
        self._kind.append(kind)
        self._name.append(name)
        self._start.append(start_ns)
        self._duration.append(dur_ns)
        self._lane.append(lane)

    def columns(self) -> EventColumns:
        return EventColumns(
            kind=np.array(self._kind, np.uint8),
            name=np.array(self._name, np.int32),
            start_ns=clamped([start or 0 for start in self._start]),
            dur_ns=clamped([duration or 0 for duration in self._duration]),
            lane=np.array(self._lane, np.int32),
            has_start=np.array([start is not None for start in self._start], bool),
            has_duration=np.array([duration is not None for duration in self._duration], bool),
        )


def _filled(values: Array | int, size: int) -> Array:
    return np.full(size, values, np.int64) if isinstance(values, int) else values

"""The parts of a trace from what a builder collected: order of rows, lanes, flows, side frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from warplens.model.arrays import numbered, order_of, places_by_value
from warplens.model.kinds import CODE, GPU_WORK, KINDS, NESTED, NONE
from warplens.model.times import MAX_NS
from warplens.model.trace import EVENT_COLUMNS, SIDE_FRAMES, Bools, Ints, event_column
from warplens_run.base import bounded

Array = npt.NDArray[Any]
MAX_DEVICE: Final = 2**31
"""A larger number is damage, and would not fit in the trace."""
EVENT_NUMBERS: Final = ("id", "parent", "frame")
"""Columns of side frames that name an event."""
_IS_GPU_WORK: Final = np.array([kind in GPU_WORK for kind in KINDS])


class EventColumns(msgspec.Struct):
    """Events as columns, in the order in which they were added; -1 in `ints` is "absent"."""

    kind: Array
    name: Array
    start_ns: Ints
    dur_ns: Ints
    lane: Array
    has_start: Bools | None = None
    """Where a start is known; None where it is everywhere."""
    has_duration: Bools | None = None
    ints: dict[str, Array] = msgspec.field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.kind)

    def whole_column(self, name: str) -> Ints:
        """A column of `ints`, which is added where no event has it."""
        if name not in self.ints:
            self.ints[name] = np.full(len(self), NONE, np.int64)
        return self.ints[name]

    @property
    def is_gpu_work(self) -> Bools:
        return _IS_GPU_WORK[self.kind]


class FlowEnds(msgspec.Struct, frozen=True):
    """Ends of flow arrows, one entry each; two ends with equal `key` are one arrow."""

    opens: Bools
    key: npt.NDArray[np.int32]
    start_ns: Ints
    lane: npt.NDArray[np.int32]

    def chosen(self, mask: Bools) -> FlowEnds:
        return FlowEnds(self.opens[mask], self.key[mask], self.start_ns[mask], self.lane[mask])


def joined(parts: list[EventColumns]) -> EventColumns:
    """The parts as one; those lose their `ints` on the way, so that few of them are in memory twice."""
    if len(parts) == 1:
        return parts[0]
    sizes = [len(part) for part in parts]
    names = dict.fromkeys(name for part in parts for name in part.ints)
    return EventColumns(
        kind=_concatenated([part.kind for part in parts], np.uint8),
        name=_concatenated([part.name for part in parts], np.int32),
        start_ns=_concatenated([part.start_ns for part in parts], np.int64),
        dur_ns=_concatenated([part.dur_ns for part in parts], np.int64),
        lane=_concatenated([part.lane for part in parts], np.int32),
        has_start=_joined_mask([part.has_start for part in parts], sizes),
        has_duration=_joined_mask([part.has_duration for part in parts], sizes),
        ints={name: _joined_ints([part.ints.pop(name, None) for part in parts], sizes) for name in names},
    )


def _concatenated(arrays: list[Array], dtype: npt.DTypeLike) -> Array:
    return np.concatenate([np.empty(0, dtype), *arrays])


def _joined_mask(masks: list[Bools | None], sizes: list[int]) -> Bools | None:
    if all(mask is None for mask in masks):
        return None
    filled = [np.ones(size, bool) if mask is None else mask for mask, size in zip(masks, sizes, strict=True)]
    return np.concatenate(filled)


def _joined_ints(columns: list[Array | None], sizes: list[int]) -> Ints:
    whole = np.full(sum(sizes), NONE, np.int64)
    start = 0
    for column, size in zip(columns, sizes, strict=True):
        if column is not None:
            whole[start : start + size] = column
        start += size
    return whole


def joined_flows(parts: list[FlowEnds]) -> FlowEnds:
    return FlowEnds(
        np.concatenate([np.empty(0, bool), *(part.opens for part in parts)]),
        np.concatenate([np.empty(0, np.int32), *(part.key for part in parts)]),
        np.concatenate([np.empty(0, np.int64), *(part.start_ns for part in parts)]),
        np.concatenate([np.empty(0, np.int32), *(part.lane for part in parts)]),
    )


def used_lanes(events: EventColumns, flows: FlowEnds, allocates: list[bool]) -> Bools:
    """Which lanes are of host threads: GPU work has lanes of its own, named by device and stream."""
    used = np.array(allocates, bool)
    used[events.lane[~events.is_gpu_work]] = True
    used[flows.lane] = True
    return used


def lanes_of(
    events: EventColumns, rows: Ints, used: Bools, labels: Sequence[tuple[str, str, str, str]]
) -> tuple[Ints, pl.DataFrame]:
    """The lane of each chosen row, and the lanes: one per host thread, then one per GPU stream."""
    kept = [tuple(map(bounded.text, label)) for label, is_used in zip(labels, used.tolist(), strict=True) if is_used]
    lane = (np.cumsum(used) - 1)[events.lane[rows]]
    on_gpu = np.flatnonzero(events.is_gpu_work[rows])
    device, stream = (events.whole_column(name)[rows[on_gpu]] for name in ("device", "stream"))
    streams, stream_code = numbered(stream)
    devices, device_code = numbered(_numbered(device))
    pairs, code = numbered(device_code * len(streams) + stream_code)
    lane[on_gpu] = len(kept) + code
    for pair in pairs.tolist():
        names = f"GPU {devices[pair // len(streams)]}", f"stream {streams[pair % len(streams)]}"
        kept.append((*names, *names))
    return lane, pl.DataFrame(kept, schema=SIDE_FRAMES["lanes"], orient="row")


def _numbered(device: Ints) -> Ints:
    return np.where((device >= 0) & (device < MAX_DEVICE), device, NONE)


def row_order(kind: Array, lane: Ints, start: Ints, duration: Ints) -> npt.NDArray[np.intp]:
    """By lane, then start, longest first; of equal intervals the kind that calls the other comes first."""
    rank = np.full(len(CODE), len(NESTED))
    for index, name in enumerate(NESTED):
        rank[CODE[name]] = index
    within_start = -duration * (len(NESTED) + 1) + rank[kind]
    span = int(start.max(initial=0)) + 1
    if span * (int(lane.max(initial=0)) + 1) >= 2**62:
        return np.lexsort((within_start, start, lane))
    return order_of(lane * span + start, within_start)


def events_frame(events: EventColumns, rows: Ints, start: Ints, duration: Ints, lane: Ints) -> pl.DataFrame:
    """The columns of `Trace.events`; those that the passes fill in are absent yet."""
    columns: dict[str, Array] = {name: values[rows] for name, values in events.ints.items()}
    columns["device"] = _numbered(columns["device"])
    columns |= {"id": np.arange(len(rows), dtype=np.uint32), "kind": events.kind[rows], "name": events.name[rows]}
    columns |= {"start_ns": start, "dur_ns": duration, "lane": lane}
    absent = np.full(len(rows), NONE, np.int32)
    return pl.DataFrame([event_column(name, columns.get(name, absent)) for name in EVENT_COLUMNS])


def side_frame(name: str, rows: Sequence[tuple[object, ...]]) -> pl.DataFrame:
    try:
        return pl.DataFrame(rows, schema=SIDE_FRAMES[name], orient="row", strict=False)
    except (pl.exceptions.PolarsError, OverflowError):
        shorter = [[bounded.whole(value, NONE) if isinstance(value, int) else value for value in row] for row in rows]
        return pl.DataFrame(shorter, schema=SIDE_FRAMES[name], orient="row", strict=False)


def one_line(frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """JSON lists as PyTorch's profiler writes them, `[[8, 16], [16]]`, where a tool has rewritten the file.

    Texts that mean the same are equal then, whether a file was indented, packed or left as it was.
    """
    rewritten = [name for name in columns if frame[name].str.contains(r"\n|,[^ ]").any()]
    tidy = (pl.col(name).str.replace_all(r"\s*\n\s*", "").str.replace_all(r", ?([^ ])", ", ${1}") for name in rewritten)
    return frame.with_columns(*tidy)


def side_of_events(name: str, rows: Sequence[tuple[object, ...]], row_of: Ints) -> pl.DataFrame:
    """A side frame whose events are turned from the builder's numbers into row numbers, in their order."""
    frame = side_frame(name, rows)
    if not len(frame):  # as most are; a query on nothing takes 1 ms
        turned = {column: pl.Int64 for column in frame.columns if column in EVENT_NUMBERS}
        return pl.DataFrame(schema={**frame.schema, **turned, "id": pl.UInt32})
    numbers = {column: frame[column].to_numpy() for column in frame.columns if column in EVENT_NUMBERS}
    found = (pl.Series(column, np.where(of >= 0, row_of[of], NONE)) for column, of in numbers.items())
    return frame.lazy().with_columns(*found).filter(pl.col("id") >= 0).cast({"id": pl.UInt32}).sort("id").collect()


def arrows_frame(arrows: Sequence[tuple[int, int]], row_of: Ints) -> pl.DataFrame:
    """Arrows from event to event, where both are in the trace."""
    if not arrows:
        return pl.DataFrame(schema=SIDE_FRAMES["flows"])
    pairs = row_of[np.array(arrows, np.int64).reshape(-1, 2)]
    pairs = pairs[(pairs >= 0).all(axis=1)]
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    return pl.DataFrame({"source": pairs[:, 0], "target": pairs[:, 1]}, schema=SIDE_FRAMES["flows"])


def flows_frame(flows: FlowEnds, host_lane: Ints, origin: int, events: pl.DataFrame) -> pl.DataFrame:
    """Flow arrows as pairs of rows: an end belongs to the innermost op that starts exactly there."""
    flows = flows.chosen(np.abs(flows.start_ns) < MAX_NS)
    if len(flows.key) == 0:
        return pl.DataFrame(schema=SIDE_FRAMES["flows"])
    row = _op_starting_at(events, host_lane[flows.lane], flows.start_ns - origin)
    matched = row >= 0
    source_of = np.full(int(flows.key.max()) + 1, NONE, np.int64)
    source_of[flows.key[flows.opens & matched]] = row[flows.opens & matched]
    ends = ~flows.opens & matched
    source, target = source_of[flows.key[ends]], row[ends]
    data = {"source": source[source >= 0], "target": target[source >= 0]}
    return pl.DataFrame(data, schema=SIDE_FRAMES["flows"])


def _op_starting_at(events: pl.DataFrame, lane: Ints, start: Ints) -> Ints:
    """The innermost op that starts at each moment on each lane, -1 where none does."""
    rows = np.flatnonzero(events["kind"].to_numpy() == CODE["op"])
    op_lane, op_start = events["lane"].to_numpy()[rows], events["start_ns"].to_numpy()[rows]
    found = np.full(len(lane), NONE, np.int64)
    for number, asked in places_by_value(lane.astype(np.int64)).items():
        # Rows are sorted by lane and start; the innermost of those that start together is the last.
        first, last = np.searchsorted(op_lane, [number, number + 1])
        own = op_start[first:last]
        index = np.searchsorted(own, start[asked], side="right") - 1
        starts_there = index >= 0
        starts_there[starts_there] = own[index[starts_there]] == start[asked][starts_there]
        found[asked[starts_there]] = rows[first + index[starts_there]]
    return found

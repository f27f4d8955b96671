"""Columns of a reader → a sorted, checked `Trace`; the one place where rows get their numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from warplens.model.arrays import sorted_unique
from warplens.model.kinds import CODE, GPU_WORK, NESTED, NONE
from warplens.model.quality import Note, Quality
from warplens.model.trace import EVENT_COLUMNS, SIDE_FRAMES, Meta, Trace

Array = npt.NDArray[Any]
MAX_MICROSECONDS = 4e15
"""Times beyond this (126 years) are damage, and would not fit in integer nanoseconds with room to add."""
SIDES = ("specs", "geometries", "copies", "collectives", "frames", "contexts", "metrics", "arguments")
"""The side frames that a reader may hand over."""
ROW_COLUMNS = ("id", "parent", "frame")
"""Columns of side frames that name an event by the reader's numbering."""
YEAR_MICROSECONDS = 3.2e13
"""No trace is this long: a time further from the others, or a longer duration, is damage."""
MAX_SUMMED_MICROSECONDS = 1e15
"""Durations that add up to more (31 years) hold damage; in nanoseconds, eight times this still fits in 64 bits."""


@dataclass(frozen=True)
class Flows:
    """Ends of flow arrows, one entry each; two ends with equal `key` are one arrow."""

    opens: npt.NDArray[np.bool_]
    key: npt.NDArray[np.int32]
    ts_us: npt.NDArray[np.float64]
    lane: npt.NDArray[np.int32]


@dataclass
class RawColumns:
    """What a reader hands over: one array entry per timed event, in any order; times in float µs."""

    kind: npt.NDArray[np.int64]
    ts_us: npt.NDArray[np.float64]
    dur_us: npt.NDArray[np.float64]
    lane: npt.NDArray[np.int32]
    name: npt.NDArray[np.int32]
    names: list[str]
    lanes: list[tuple[Any, Any]]
    ints: dict[str, npt.NDArray[np.int64]] = field(default_factory=dict)
    sides: dict[str, pl.DataFrame] = field(default_factory=dict)
    process_names: dict[Any, str] = field(default_factory=dict)
    thread_names: dict[tuple[Any, Any], str] = field(default_factory=dict)
    memory: list[tuple[float, Any, Any, str, int, int, int]] = field(default_factory=list)
    flows: Flows | None = None


def to_ns(microseconds: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Float µs → integer ns: to the ns up to 4e12 µs, beyond that to what a float still tells apart.

    The whole µs never pass through a product, which would round them once more.
    """
    whole = np.floor(microseconds)
    part = np.rint((microseconds - whole) * 1000)
    return whole.astype(np.int64) * 1000 + part.astype(np.int64)


def build(raw: RawColumns, meta: Meta, damage: Counter[str], notes: list[Note]) -> Trace:
    keep = _check_times(raw, damage)
    start, duration = to_ns(raw.ts_us[keep]), to_ns(raw.dur_us[keep])
    origin = int(start.min()) if len(start) else 0
    start -= origin
    _drop_unused_lanes(raw)
    lane, lanes = _lanes(raw, keep)
    order = _row_order(raw.kind[keep], lane, start, duration)
    rows = keep[order]
    columns: dict[str, Array] = {name: values[rows] for name, values in raw.ints.items()}
    columns |= {"kind": raw.kind[rows], "name": raw.name[rows]}
    columns |= {"start_ns": start[order], "dur_ns": duration[order], "lane": lane[order]}
    events = _events_frame(columns, len(rows))
    row_of = np.full(len(raw.kind), NONE, np.int64)
    row_of[rows] = np.arange(len(rows))
    sides = {name: _side(name, raw, row_of) for name in SIDES}
    lane_of = {key: row for row, key in enumerate(zip(lanes["process"], lanes["thread"], strict=True))}
    return Trace(
        meta=meta,
        names=raw.names,
        events=events,
        lanes=lanes,
        memory=_memory(raw, origin, lane_of, damage),
        flows=_flows(raw, origin, events),
        steps=pl.DataFrame(schema=SIDE_FRAMES["steps"]),
        quality=Quality(tuple(notes + [Note(code, count) for code, count in damage.items() if count])),
        **sides,
    )


def _check_times(raw: RawColumns, damage: Counter[str]) -> npt.NDArray[np.int64]:
    """Rows with a usable start; durations are mended in place and every mend is counted."""
    usable = np.isfinite(raw.ts_us) & (np.abs(raw.ts_us) < MAX_MICROSECONDS)
    missing = np.isnan(raw.dur_us)
    raw.dur_us[missing] = 0
    negative = raw.dur_us < 0
    raw.dur_us[negative] = 0
    usable &= raw.dur_us < YEAR_MICROSECONDS
    if raw.dur_us[usable].sum() > MAX_SUMMED_MICROSECONDS:
        usable &= raw.dur_us < MAX_SUMMED_MICROSECONDS / len(usable)
    if usable.any():
        # One absurd timestamp must not stretch the trace: far from the median it is damage.
        usable &= np.abs(raw.ts_us - _median(raw.ts_us[usable])) < YEAR_MICROSECONDS
    damage["missing_duration"] += int(missing.sum())
    damage["negative_duration"] += int(negative.sum())
    damage["out_of_range"] += int(len(usable) - usable.sum())
    return np.flatnonzero(usable)


def _median(values: npt.NDArray[np.float64]) -> float:
    """numpy's own imports its masked arrays first, which takes as long as reading a small trace."""
    middle = len(values) // 2
    return float(np.partition(values, middle)[middle])


def _drop_unused_lanes(raw: RawColumns) -> None:
    """Forget the process and thread ids of GPU work: its lanes are named by device and stream."""
    used = np.zeros(len(raw.lanes), bool)
    used[raw.lane[~np.isin(raw.kind, [CODE[kind] for kind in GPU_WORK])]] = True
    if raw.flows is not None:
        used[raw.flows.lane] = True
    allocating = {(row[1], row[2]) for row in raw.memory}
    used |= np.array([lane in allocating for lane in raw.lanes], bool)
    number = (np.cumsum(used) - 1).astype(np.int32)
    raw.lane = number[raw.lane]
    raw.lanes = [lane for lane, is_used in zip(raw.lanes, used.tolist(), strict=True) if is_used]
    if raw.flows is not None:
        raw.flows = replace(raw.flows, lane=number[raw.flows.lane])


def _lanes(raw: RawColumns, keep: npt.NDArray[np.int64]) -> tuple[Array, pl.DataFrame]:
    """A lane per host thread and per GPU stream, host first; GPU lanes are named by device and stream."""
    labels = [_host_labels(raw, process, thread) for process, thread in raw.lanes]
    lane = raw.lane[keep].astype(np.int64)
    on_gpu = np.flatnonzero(np.isin(raw.kind[keep], [CODE[kind] for kind in GPU_WORK]))
    device, stream = raw.ints["device"][keep[on_gpu]], raw.ints["stream"][keep[on_gpu]]
    streams, stream_code = np.unique(stream, return_inverse=True)
    devices, device_code = np.unique(device, return_inverse=True)
    places, code = np.unique(device_code * len(streams) + stream_code, return_inverse=True)
    lane[on_gpu] = len(labels) + code
    for place in places.tolist():
        names = f"GPU {devices[place // len(streams)]}", f"stream {streams[place % len(streams)]}"
        labels.append((*names, *names))
    return lane, pl.DataFrame(labels, schema=SIDE_FRAMES["lanes"], orient="row")


def _host_labels(raw: RawColumns, process: Any, thread: Any) -> tuple[str, str, str, str]:
    named = raw.process_names.get(process, ""), raw.thread_names.get((process, thread), "")
    return str(process), str(thread), *named


def _row_order(kind: Array, lane: Array, start: Array, duration: Array) -> npt.NDArray[np.intp]:
    """By lane, then start, longest first; of equal intervals the kind that calls the other comes first."""
    rank = np.full(len(CODE), len(NESTED))
    for place, name in enumerate(NESTED):
        rank[CODE[name]] = place
    within_start = -duration * (len(NESTED) + 1) + rank[kind]
    span = int(start.max(initial=0)) + 1
    if span * (int(lane.max(initial=0)) + 1) >= 2**62:
        return np.lexsort((within_start, start, lane))
    key = lane * span + start
    order = np.argsort(key, kind="stable")
    # Equal starts are few: sorting only those by the second key takes half the time of sorting all by both.
    same = key[order[1:]] == key[order[:-1]]
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    order[tied] = order[tied][np.lexsort((within_start[order[tied]], key[order[tied]]))]
    return order


def _events_frame(columns: dict[str, Array], height: int) -> pl.DataFrame:
    absent = np.full(height, NONE, np.int32)
    series = []
    for name, dtype in EVENT_COLUMNS.items():
        if name == "id":
            series.append(pl.Series(name, np.arange(height, dtype=np.uint32)))
        else:
            series.append(pl.Series(name, columns.get(name, absent)).cast(dtype))
    return pl.DataFrame(series)


def _side(name: str, raw: RawColumns, row_of: npt.NDArray[np.int64]) -> pl.DataFrame:
    """A reader's side frame, its events turned from the reader's numbering into row numbers."""
    frame = raw.sides.get(name)
    if frame is None or "id" not in SIDE_FRAMES[name]:
        return pl.DataFrame(schema=SIDE_FRAMES[name]) if frame is None else frame
    for column in frame.columns:
        if column in ROW_COLUMNS:
            number = frame[column].to_numpy()
            frame = frame.with_columns(pl.Series(column, np.where(number >= 0, row_of[number], NONE)))
    return frame.filter(pl.col("id") >= 0).cast({"id": pl.UInt32}).sort("id")


def _memory(raw: RawColumns, origin: int, lane_of: dict[tuple[str, str], int], damage: Counter[str]) -> pl.DataFrame:
    usable = [row for row in raw.memory if abs(row[0] - origin / 1000) < YEAR_MICROSECONDS]
    damage["out_of_range"] += len(raw.memory) - len(usable)
    start = to_ns(np.array([row[0] for row in usable], dtype=np.float64)) - origin
    data = {
        "start_ns": start,
        "lane": [lane_of.get((str(row[1]), str(row[2])), NONE) for row in usable],
        "device": [row[3] for row in usable],
        "bytes": [row[4] for row in usable],
        "allocated_bytes": [row[5] for row in usable],
        "reserved_bytes": [row[6] for row in usable],
    }
    return pl.DataFrame(data, schema=SIDE_FRAMES["memory"]).sort("start_ns", maintain_order=True)


def _flows(raw: RawColumns, origin: int, events: pl.DataFrame) -> pl.DataFrame:
    """Flow arrows as pairs of rows: an end belongs to the innermost op that starts exactly there."""
    flows = raw.flows
    if flows is None or len(flows.key) == 0:
        return pl.DataFrame(schema=SIDE_FRAMES["flows"])
    usable = np.isfinite(flows.ts_us) & (np.abs(flows.ts_us) < MAX_MICROSECONDS)
    opens, key, lane = flows.opens[usable], flows.key[usable], flows.lane[usable]
    row = _op_starting_at(events, lane, to_ns(flows.ts_us[usable]) - origin)
    found = row >= 0
    source_of = np.full(int(key.max(initial=-1)) + 1, NONE, np.int64)
    source_of[key[opens & found]] = row[opens & found]
    ends = ~opens & found
    source, target = source_of[key[ends]], row[ends]
    data = {"source": source[source >= 0], "target": target[source >= 0]}
    return pl.DataFrame(data, schema=SIDE_FRAMES["flows"])


def _op_starting_at(events: pl.DataFrame, lane: Array, start: Array) -> npt.NDArray[np.int64]:
    """The innermost op that starts at each moment on each lane, -1 where none does."""
    ops = events.filter(pl.col("kind") == CODE["op"])
    rows, op_lane, op_start = (ops[name].to_numpy().astype(np.int64) for name in ("id", "lane", "start_ns"))
    if len(rows) == 0:
        return np.full(len(lane), NONE, np.int64)
    # Rows are sorted by lane and start, so one number per (lane, start) is sorted too. Starts are numbered
    # first: as they are, a damaged one times thousands of lanes would not fit in 64 bits.
    starts = sorted_unique(op_start)
    code = np.minimum(np.searchsorted(starts, start), len(starts) - 1)
    keys, wanted = op_lane * len(starts) + np.searchsorted(starts, op_start), lane * len(starts) + code
    place = np.maximum(np.searchsorted(keys, wanted, side="right") - 1, 0)
    return np.where((keys[place] == wanted) & (starts[code] == start), rows[place], NONE)

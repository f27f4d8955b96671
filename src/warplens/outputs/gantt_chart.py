"""What a Gantt chart of GPU work shows: rows, bars and colours, before anything is drawn."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from warplens.model.kinds import NONE
from warplens.model.trace import Ints
from warplens.outputs.palette import RANK_COLOURS, REST, category_colour
from warplens_run.base.errors import UsageError, WarplensError
from warplens_run.base.units import format_ns

GROUPINGS = {
    # what the colours stand for: the column of GPU events that says it
    "category": "kernel_category",
    "kernel": "kernel_short",
}


ROW_KEYS = ("rank", "device", "stream")


class TimeWindow(NamedTuple):
    """A stretch of time, in ns since the trace's start."""

    start_ns: int
    end_ns: int

    @property
    def span_ns(self) -> int:
        return max(1, self.end_ns - self.start_ns)


@dataclass(frozen=True)
class Row:
    """One stream of one device, of a job's rank; kernels that overlap on it have lanes of their own."""

    device: int
    stream: int
    lanes: int
    rank: int = NONE


@dataclass(frozen=True)
class Group:
    """What one colour stands for, and the GPU time it has in the window."""

    name: str
    colour: str
    total_ns: int


@dataclass(frozen=True)
class Bars:
    """One entry per GPU event in the window, cut to it."""

    row: Ints
    lane: Ints
    group: Ints
    begin_ns: Ints
    end_ns: Ints

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True)
class Chart:
    """Rows from the top, groups by their time; `bars` point to both."""

    window: TimeWindow
    rows: tuple[Row, ...]
    groups: tuple[Group, ...]
    bars: Bars

    @property
    def total_ns(self) -> int:
        """The GPU time in the window, of which the groups have shares."""
        return sum(group.total_ns for group in self.groups)


def whole_window(events: pl.DataFrame) -> TimeWindow:
    """From the first GPU event to the last end."""
    if not len(events):
        raise WarplensError("no GPU work in this trace")
    ends = events["start_ns"] + events["dur_ns"]
    return TimeWindow(int(events["start_ns"].min()), int(ends.max()))  # type: ignore[arg-type]


def step_window(events: pl.DataFrame, steps: set[int]) -> TimeWindow:
    """From the first kernel of the first of these steps to the last end of the last."""
    steps_with_work = events.filter(pl.col("step") >= 0)["step"].unique().sort().to_list()
    missing = sorted(steps - set(steps_with_work))
    if missing:
        hint = f"steps with GPU work: {_ranges(steps_with_work)}" if steps_with_work else "no steps are marked"
        raise UsageError(f"no step {missing[0]} with GPU work in the trace", hint=hint)
    return whole_window(events.filter(pl.col("step").is_in(steps)))


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers in few words.

    >>> _ranges([2, 3, 4, 7])
    '2-4, 7'
    """
    starts = [number for number in numbers if number - 1 not in numbers]
    ends = [number for number in numbers if number + 1 not in numbers]
    return ", ".join(f"{start}-{end}" if end > start else str(start) for start, end in zip(starts, ends, strict=True))


def make_chart(
    events: pl.DataFrame, window: TimeWindow, *, by: str = "category", top: int = 8, unseen_ns: float = 0.0
) -> Chart:
    """The chart of the GPU events in a window; with `by="kernel"` the `top` ones have colours of their own.

    Overlaps shorter than `unseen_ns` are too short to be seen.
    """
    if by not in GROUPINGS:
        raise UsageError(f"no colours by {by!r}", hint=f"one of: {', '.join(GROUPINGS)}")
    shown = _cut(events, window)
    groups, group = _groups(shown, by, top)
    rows, row, lane = _rows(shown, unseen_ns)
    bars = Bars(row, lane, group, shown["begin_ns"].to_numpy(), shown["end_ns"].to_numpy())
    return Chart(window, rows, groups, bars)


def _cut(events: pl.DataFrame, window: TimeWindow) -> pl.DataFrame:
    """The events that reach into the window, cut to it, by rank, device, stream and start."""
    end = pl.col("start_ns") + pl.col("dur_ns")
    if "rank" not in events.columns:
        events = events.with_columns(rank=pl.lit(NONE, pl.Int64))
    reaching = events.filter(end > window.start_ns, pl.col("start_ns") < window.end_ns)
    if not len(reaching):
        every = whole_window(events)
        stretch = f"{format_ns(window.start_ns)} to {format_ns(window.end_ns)}"
        extent = f"the GPU works from {format_ns(every.start_ns)} to {format_ns(every.end_ns)}"
        raise WarplensError(f"no GPU work from {stretch}", hint=extent)
    return reaching.with_columns(
        begin_ns=pl.col("start_ns").clip(lower_bound=window.start_ns), end_ns=end.clip(upper_bound=window.end_ns)
    ).sort(*ROW_KEYS, "begin_ns", "end_ns", "id")


def _groups(shown: pl.DataFrame, by: str, top: int) -> tuple[tuple[Group, ...], Ints]:
    column = GROUPINGS[by]
    times = shown.group_by(name=pl.col(column)).agg(total_ns=(pl.col("end_ns") - pl.col("begin_ns")).sum())
    times = times.sort("total_ns", "name", descending=[True, False])
    ordered = times.rows()
    if by == "category":
        groups = [Group(name, category_colour(name), ns) for name, ns in ordered]
    else:
        groups = [Group(name, RANK_COLOURS[rank], ns) for rank, (name, ns) in enumerate(ordered[:top])]
        if rest := ordered[top:]:
            name = f"{len(rest)} other kernel{'s' if len(rest) > 1 else ''}"
            groups.append(Group(name, REST, sum(ns for _, ns in rest)))
    group_of_name = times.select("name", group=pl.int_range(pl.len()).clip(upper_bound=len(groups) - 1))
    group = shown.select(name=column).join(group_of_name, on="name", how="left", maintain_order="left")["group"]
    return tuple(groups), group.to_numpy()


def _rows(shown: pl.DataFrame, unseen_ns: float) -> tuple[tuple[Row, ...], Ints, Ints]:
    """The rows, and for each event its row and its lane in that."""
    rows: list[Row] = []
    numbers, lanes = [], []
    for (rank, device, stream), events in shown.group_by(*ROW_KEYS, maintain_order=True):
        lane = pack(events["begin_ns"].to_numpy(), events["end_ns"].to_numpy(), unseen_ns)
        numbers.append(np.full(len(lane), len(rows)))
        lanes.append(lane)
        rows.append(Row(int(device), int(stream), int(lane.max(initial=0)) + 1, int(rank)))
    return tuple(rows), np.concatenate(numbers), np.concatenate(lanes)


def pack(begin_ns: Ints, end_ns: Ints, unseen_ns: float = 0.0) -> Ints:
    """A lane for each interval, the lowest that is free, so that none covers another; they come by their start.

    Where one begins before the last has ended, but by less than `unseen_ns` and half its own length, they share a
    lane: on one stream that is common, and a lane of its own would look like work side by side.
    """
    lane = np.zeros(len(begin_ns), np.int64)
    latest = begin_ns + np.minimum(unseen_ns, (end_ns - begin_ns) / 2)
    if (latest[1:] >= np.maximum.accumulate(end_ns)[:-1]).all():
        return lane
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    events = zip(begin_ns.tolist(), latest.tolist(), end_ns.tolist(), strict=True)
    for index, (begin, late_begin, end) in enumerate(events):
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lowest = free[0] if free else len(busy)
        if busy and busy[0][0] <= late_begin and busy[0][1] < lowest:
            lowest = heapq.heappop(busy)[1]
        elif free:
            heapq.heappop(free)
        lane[index] = lowest
        heapq.heappush(busy, (end, lowest))
    return lane

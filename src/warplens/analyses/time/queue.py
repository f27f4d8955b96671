"""`queue` and `queue_timeline`: launches that wait in the queue of a GPU stream.

A launch is in the queue of its stream from the beginning of the host's call to the beginning of its work on the GPU; a
graph is one launch. The driver's queue holds about 1,024 of them: the call that finds it full returns only when the GPU
has begun another one, so that the host is blocked and its ops seem slow. An empty queue is the other extreme: the GPU
has nothing to go on with after what it runs.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import polars as pl

from warplens.analyses.shared import shared
from warplens.analyses.workspace import Workspace
from warplens.model.table import Column, Table, frame_of_rows
from warplens.model.trace import Bools, Ints

FULL: Final = 1024
"""Launches that CUDA's queue holds; other profilers count from the same length."""
MOMENTS: Final = 500
MAX_TRACKS: Final = 8
NO_LAUNCHES: Final = "no GPU work with a recorded launch"
DEVICE = Column("device", "GPU number", "", pl.Int32)
STREAM = Column("stream", "GPU stream (queue)", "", pl.Int64)
COLUMNS = (
    DEVICE,
    STREAM,
    Column("count", "launches; a graph is one", "", pl.Int64),
    Column("length_mean", "launches in the queue, mean over time", "", pl.Float64),
    Column("length_median", "launches in the queue during half of the time, at most", "", pl.Int64),
    Column("length_p90", "launches in the queue during 90 % of the time, at most", "", pl.Int64),
    Column("length_p99", "launches in the queue during 99 % of the time, at most", "", pl.Int64),
    Column("length_max", "most launches in the queue", "", pl.Int64),
    Column("wait_us_mean", "mean time from a launch call's start to the start of its work", "us", pl.Float64),
    Column("wait_us_median", "median of that time", "us", pl.Float64),
    Column("span_ms", "time from the stream's first launch to the start of its last work", "ms", pl.Float64),
    Column("empty_percent", "share of that time without a launch in the queue", "%", pl.Float64),
    Column("full_us", "time with 1,024 launches or more in the queue", "us", pl.Float64),
    Column("full_percent", "share of that time", "%", pl.Float64),
    Column("blocked_count", "launch calls that found the queue full", "", pl.Int64),
    Column("blocked_us", "time of those calls on the host", "us", pl.Float64),
)
TIMELINE = (
    Column("start_ms", "begin of the interval, since the trace's start", "ms", pl.Float64),
    DEVICE,
    STREAM,
    Column("length_mean", "launches in the queue, mean over the interval", "", pl.Float64),
    Column("length_max", "most launches in the queue in the interval", "", pl.Int64),
)


class QueueSeries(msgspec.Struct, frozen=True):
    """The length of a stream's queue: `length[i]` holds from `time_ns[i]` to the next time."""

    device: int
    stream: int
    call: Ints
    """Rows of the launch calls, by their start."""
    wait_ns: Ints
    time_ns: Ints
    length: Ints
    length_at_call: Ints
    """The length with each call itself, in the order of `call`."""

    @property
    def weight_ns(self) -> Ints:
        """How long each length holds."""
        return np.diff(self.time_ns, append=self.time_ns[-1:])


def queue(work: Workspace) -> Table:
    rows = [_summary(work, series) for series in queue_series(work)]
    notes = () if rows else (NO_LAUNCHES,)
    frame = frame_of_rows(COLUMNS, rows)
    return Table.from_frame("queue", "one row per GPU stream with launches", COLUMNS, frame, *notes)


def queue_timeline(work: Workspace) -> Table:
    series = queue_series(work)
    parts = [_moments(each) for each in series[:MAX_TRACKS]]
    frame = pl.concat([frame_of_rows(TIMELINE, []), *parts])
    notes = [] if series else [NO_LAUNCHES]
    if len(series) > MAX_TRACKS:
        notes.append(f"the {MAX_TRACKS} streams with most launches of {len(series)}")
    return Table.from_frame("queue_timeline", "one row per stream and interval of time", TIMELINE, frame, *notes)


@shared
def queue_series(work: Workspace) -> list[QueueSeries]:
    """Of each stream, those with most launches first."""
    gpu = work.gpu.filter(pl.col("launch") >= 0)
    launch, begun = gpu["launch"].to_numpy().astype(np.int64), gpu["start_ns"].to_numpy()
    called = work.trace.ints("start_ns")[launch]
    device, stream = gpu["device"].to_numpy(), gpu["stream"].to_numpy()
    # Stream by stream in the order of the calls; of what one call launched, the first to begin stands for all.
    order = np.lexsort((begun, launch, called, stream, device))
    launch, called, begun, device, stream = (column[order] for column in (launch, called, begun, device, stream))
    is_new_stream = _differs(device) | _differs(stream)
    entries = np.flatnonzero(is_new_stream | _differs(launch))
    series = [
        _series(int(device[part[0]]), int(stream[part[0]]), launch[part], called[part], begun[part])
        for part in np.split(entries, np.flatnonzero(is_new_stream[entries])[1:])
        if len(part)
    ]
    return sorted(series, key=lambda each: (-len(each.call), each.device, each.stream))


def _differs(column: Ints) -> Bools:
    """Whether a value is another than the one before it; the first is."""
    return np.concatenate([np.ones(min(len(column), 1), bool), column[1:] != column[:-1]])


def _series(device: int, stream: int, call: Ints, called: Ints, begun: Ints) -> QueueSeries:
    # Clocks of host and GPU differ by a microsecond or two: nothing begins before it is launched.
    begun = np.maximum(begun, called)
    time = np.concatenate([called, begun])
    change = np.repeat([1, -1], len(called))
    order = np.lexsort((-change, time))
    length = np.cumsum(change[order])
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    at_call = length[place[: len(called)]]
    return QueueSeries(device, stream, call.astype(np.int64), begun - called, time[order], length, at_call)


def _summary(work: Workspace, series: QueueSeries) -> tuple[float | int, ...]:
    weight, length = series.weight_ns, series.length
    span = int(weight.sum())
    median, p90, p99 = _quantiles(length, weight, (0.5, 0.9, 0.99))
    full = int(weight[length >= FULL].sum())
    blocked = series.call[series.length_at_call >= FULL]
    return (
        series.device,
        series.stream,
        len(series.call),
        float((length * weight).sum() / span) if span else 0.0,
        median,
        p90,
        p99,
        int(length.max(initial=0)),
        float(series.wait_ns.mean()) / 1000,
        float(np.median(series.wait_ns)) / 1000,
        span / 1e6,
        100 * float(weight[length == 0].sum()) / span if span else 0.0,
        full / 1000,
        100 * full / span if span else 0.0,
        len(blocked),
        float(work.trace.ints("dur_ns")[blocked].sum()) / 1000,
    )


def _quantiles(length: Ints, weight: Ints, shares: tuple[float, ...]) -> list[int]:
    """The lengths that are not exceeded during so much of the time."""
    order = np.argsort(length, kind="stable")
    reached = np.cumsum(weight[order])
    if not len(reached) or not reached[-1]:
        return [0] * len(shares)
    at = np.searchsorted(reached, np.asarray(shares) * reached[-1])
    return [int(value) for value in length[order][np.minimum(at, len(order) - 1)]]


def _moments(series: QueueSeries) -> pl.DataFrame:
    """The series in at most so many intervals of equal length."""
    begin, end = int(series.time_ns[0]), int(series.time_ns[-1])
    edges = np.unique(np.linspace(begin, end, MOMENTS + 1).astype(np.int64))
    if len(edges) < 2:
        return frame_of_rows(TIMELINE, [])
    time, length = series.time_ns, series.length
    area = np.concatenate([[0], np.cumsum(length[:-1] * np.diff(time))])
    at = np.searchsorted(time, edges, side="right") - 1
    until = area[at] + length[at] * (edges - time[at])
    width = np.diff(edges)
    # What an interval ends with counts where it began inside.
    last = np.where(time[at[1:]] < edges[1:], length[at[1:]], 0)
    largest = np.maximum(np.maximum.reduceat(length, at[:-1]), last)
    return pl.DataFrame(
        {
            "start_ms": edges[:-1] / 1e6,
            "device": np.full(len(width), series.device),
            "stream": np.full(len(width), series.stream),
            "length_mean": np.diff(until) / width,
            "length_max": largest,
        },
        schema={column.name: column.dtype for column in TIMELINE},
    )

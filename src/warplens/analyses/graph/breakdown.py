"""`breakdown`: where one step goes, in parts that do not overlap and add up to it.

The step is the one without the profiler, wherever that is known: the GPU's work is as long as recorded, and lies where
the simulated step has it. So the parts are of the same step as the first number of a report.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from warplens.analyses.graph.bounds import plain_step_ns
from warplens.analyses.graph.building import graph_of, has_graph
from warplens.analyses.graph.clock import clock
from warplens.analyses.graph.host_work import NO_NAME, HostWork, host_work
from warplens.analyses.graph.idle_chains import ON_HOST, IdlePart, idle_parts
from warplens.analyses.graph.recording_cost import plain_lags, recording_cost
from warplens.analyses.graph.records import MARK, Floats, StepGraph
from warplens.analyses.graph.simulating import COUNTED_WITHOUT_FIRST, simulate, step_ns
from warplens.analyses.shared import shared
from warplens.analyses.workspace import COMMUNICATION, Workspace
from warplens.model.answer import Part
from warplens.model.arrays import ranges
from warplens.model.intervals import Union, covers, length, subtract, union
from warplens.model.kinds import CODE
from warplens.model.table import Column, Table
from warplens.model.trace import Ints

COMPUTATION: Final = "computation"
EXPOSED_COMMUNICATION: Final = "exposed communication"
EXPOSED_COPIES: Final = "exposed copies"
BEFORE: Final = "before the first launch"
IDLE: Final = "GPU idle"
AFTER: Final = "after the last kernel"
WITH_GPU: Final = (COMPUTATION, EXPOSED_COMMUNICATION, EXPOSED_COPIES)
PARTS: Final = {
    COMPUTATION: "kernels run that do not communicate; cause: their category",
    EXPOSED_COMMUNICATION: "communication runs while nothing computes",
    EXPOSED_COPIES: "copies run while nothing computes or communicates",
    BEFORE: "no GPU works yet in this step; cause: what the host does",
    IDLE: "no GPU works between kernels of the step; cause: what the next kernel waits for",
    AFTER: "no GPU works any more in this step; cause: what the host does",
}
COLUMNS = (
    Column("part", f"part of the step: {', '.join(PARTS)}", "", pl.String),
    Column(
        "cause",
        "category of kernels; of idle time what the next kernel waits for, of the host what it does",
        "",
        pl.String,
    ),
    Column(
        "time_ms", "its time in one step without the profiler; of the run where no steps are marked", "ms", pl.Float64
    ),
    Column("percent", "the same as a share of the step", "%", pl.Float64),
    Column("place", "the line, module or op that most of it is in; empty where that is not recorded", "", pl.String),
    Column("place_ms", "the part of time_ms that is there", "ms", pl.Float64),
    Column(
        "low_ms",
        "its time in the shortest step that is expected: GPU time as recorded, idle time by its share of the rest",
        "ms",
        pl.Float64,
    ),
    Column("high_ms", "the same in the longest", "ms", pl.Float64),
)


UNUSUAL: Final = 1.5
"""A step this many times as long as the usual one, or as short, does something else."""


class _GpuTime(NamedTuple):
    """The GPU events of some windows: when they run, and as what they count."""

    start_ns: Ints
    end_ns: Ints
    label: pl.Series
    """The category; of copies their name."""
    group: Ints
    """0: computation, 1: communication, 2: copies."""


def breakdown(work: Workspace) -> Table:
    return Table.from_rows("breakdown", "one row per part of a step and cause", COLUMNS, step_parts(work))


@shared
def step_parts(work: Workspace) -> tuple[Part, ...]:
    """The parts of a step, those of each kind largest first; none of a trace without GPU work."""
    if not has_graph(work):
        return _parts_without_launches(work)
    graph = graph_of(work)
    lags = plain_lags(graph, recording_cost(work).share)
    times = simulate(graph, lag_ns=lags)
    windows = _windows(graph, times)
    nodes = np.flatnonzero(graph.is_work)
    events = _gpu_time(work, graph.row[nodes], times[nodes] - graph.weight_ns[nodes], times[nodes], windows)
    busy = union(events.start_ns, events.end_ns)
    free = subtract(windows, busy)
    whole_ns = float(length(busy) + length(free))
    if not whole_ns:
        return ()
    gaps, labels, ended_by = _gaps(graph, times, free)
    idle = idle_parts(graph, times, lags, gaps, ended_by)
    step = clock(work)
    ends = (step.low_ms, step.high_ms) if step else (plain_step_ns(work) / 1e6,) * 2
    return _of_step([*_busy_parts(events), *_idle_parts(work, idle, labels)], plain_step_ns(work) / 1e6, ends)


def _parts_without_launches(work: Workspace) -> tuple[Part, ...]:
    """As recorded: nothing tells what the GPU waits for. Steps with GPU work, where they are marked, are of equal
    weight."""
    in_steps = work.gpu.filter(pl.col("step") >= 0)
    frame = in_steps if len(in_steps) else work.gpu
    if not len(frame):
        return ()
    start = frame["start_ns"].to_numpy().astype(float)
    end = start + frame["dur_ns"].to_numpy()
    window = _rounded(start.min(), end.max())
    events = _gpu_time(work, frame["id"].to_numpy().astype(np.int64), start, end, window)
    span_ns = float(length(window))
    idle_ns = span_ns - length(union(events.start_ns, events.end_ns))
    idle = [Part(IDLE, NO_NAME, idle_ns, 0.0)] if idle_ns else []
    step_ms = span_ns / max(1, frame["step"].n_unique()) / 1e6
    return _of_step([*_busy_parts(events), *idle], step_ms, (step_ms, step_ms))


def _of_step(parts: list[Part], step_ms: float, ends_ms: tuple[float, float]) -> tuple[Part, ...]:
    """Parts of any length as those of a step, and of the shortest and the longest that is expected."""
    whole, order = sum(part.time_ms for part in parts), list(PARTS)
    if not whole or not step_ms:
        return ()
    busy_ms = sum(part.time_ms for part in parts if part.part in WITH_GPU) * step_ms / whole
    of_idle = [max(0.0, end_ms - busy_ms) / (step_ms - busy_ms) if busy_ms < step_ms else 1.0 for end_ms in ends_ms]
    scaled = []
    for part in parts:
        ms = part.time_ms * step_ms / whole
        place_ms = None if part.place_ms is None else part.place_ms * step_ms / whole
        low_ms, high_ms = (ms, ms) if part.part in WITH_GPU else (ms * of_idle[0], ms * of_idle[1])
        scaled.append(
            replace(part, time_ms=ms, percent=100 * ms / step_ms, place_ms=place_ms, low_ms=low_ms, high_ms=high_ms)
        )
    return tuple(sorted(scaled, key=lambda part: (order.index(part.part), -part.time_ms, part.cause)))


def _windows(graph: StepGraph, times: Floats) -> Union:
    """The usual ones of the steps that `step_ns` takes the median of, from mark to mark or from last kernel to last
    kernel, whichever comes nearer to it: what only a slow step does is not in every step.

    Of one step from its mark to the end of all that it does; without steps everything.
    """
    marks = np.flatnonzero(graph.kind == MARK)
    if graph.is_run:
        starts = np.where(graph.is_work, times - graph.weight_ns, times)
        return _rounded(starts.min(), times.max())
    on_host = times[marks]
    steps = graph.step[marks[:-1]]
    ends = np.array([times[graph.is_work & (graph.step == step)].max(initial=-np.inf) for step in steps.tolist()])
    ends = np.maximum.accumulate(np.maximum(ends, times.min()))
    if len(steps) == 1:
        return _rounded(on_host[0], max(on_host[1], ends[0]))
    first = 1 if len(steps) >= COUNTED_WITHOUT_FIRST else 0
    by_host, by_gpu = on_host[first:], ends[max(0, first - 1) :] if first else ends
    usual_ns = step_ns(graph, times)
    nearer = min(by_host, by_gpu, key=lambda bounds: abs(float(np.median(np.diff(bounds))) - usual_ns))
    lengths = np.diff(nearer)
    is_usual = (lengths <= UNUSUAL * usual_ns) & (UNUSUAL * lengths >= usual_ns)
    chosen = is_usual if is_usual.any() else lengths > 0
    return _rounded(nearer[:-1][chosen], nearer[1:][chosen])


def _rounded(begin_ns: Floats | float, end_ns: Floats | float) -> Union:
    return union(*(np.atleast_1d(np.rint(moments)).astype(np.int64) for moments in (begin_ns, end_ns)))


def _gpu_time(work: Workspace, rows: Ints, start_ns: Floats, end_ns: Floats, windows: Union) -> _GpuTime:
    """The events inside the windows; one that crosses several is cut into as many."""
    begin, end = (np.rint(moments).astype(np.int64) for moments in (start_ns, end_ns))
    first, last = np.searchsorted(windows.ends, begin, "right"), np.searchsorted(windows.starts, end, "left")
    last = np.where(end > begin, np.maximum(first, last), first)
    window, event = ranges(first, last), np.repeat(np.arange(len(rows)), last - first)
    begin, end = np.maximum(begin[event], windows.starts[window]), np.minimum(end[event], windows.ends[window])
    frame = work.gpu[np.searchsorted(work.gpu["id"].to_numpy(), rows[event])]
    is_copy = (frame["kind"] == CODE["memcpy"]).to_numpy()
    is_communication = (frame["kernel_category"] == COMMUNICATION).to_numpy() & ~is_copy
    label = frame["kernel_category"].zip_with(pl.Series(~is_copy), frame["kernel_short"])
    return _GpuTime(begin, end, label, np.where(is_copy, 2, is_communication.astype(np.int64)))


def _busy_parts(events: _GpuTime) -> Iterator[Part]:
    """Each moment belongs to what computes then, else to communication, else to copies; several categories that run at
    once share it."""
    taken = union(np.zeros(0, np.int64), np.zeros(0, np.int64))
    for group, part in enumerate((COMPUTATION, EXPOSED_COMMUNICATION, EXPOSED_COPIES)):
        own = events.group == group
        labels = events.label.filter(pl.Series(own))
        start, end = events.start_ns[own], events.end_ns[own]
        runs = {label: union(start[at], end[at]) for label, at in _places_of(labels)}
        yield from (Part(part, label, ns, 0.0) for label, ns in _shared_out(runs, taken).items() if ns)
        taken = union(np.append(taken.starts, start), np.append(taken.ends, end))


def _places_of(labels: pl.Series) -> Iterable[tuple[str, Ints]]:
    codes, names = labels.rank("dense").to_numpy(), sorted(labels.unique().to_list())
    return [(name, np.flatnonzero(codes == number)) for number, name in enumerate(names, 1)]


def _shared_out(runs: dict[str, Union], taken: Union) -> dict[str, float]:
    """How much of the time outside of `taken` each has, where those that run at once have equal shares."""
    if not runs:
        return {}
    edges = np.unique(np.concatenate([moments for run in runs.values() for moments in run] + [*taken]))
    counted = np.where(covers(taken, edges[:-1]), 0, np.diff(edges))
    inside = np.stack([covers(run, edges[:-1]) for run in runs.values()])
    share = inside / np.maximum(1, inside.sum(axis=0))
    return dict(zip(runs, (share * counted).sum(axis=1).tolist(), strict=True))


def _gaps(graph: StepGraph, times: Floats, free: Union) -> tuple[Union, list[str], Ints]:
    """The idle gaps, cut where a step begins; which part of a step each is, and the node that it waits for."""
    marks = np.flatnonzero((graph.kind == MARK) & ~np.bool_(graph.is_run))
    moments = np.rint(times[marks]).astype(np.int64)
    cuts = np.setdiff1d(moments[covers(free, moments)], free.starts)
    starts, ends = np.union1d(free.starts, cuts), np.union1d(free.ends, cuts)
    work = np.flatnonzero(graph.is_work)
    begins = np.rint(times[work] - graph.weight_ns[work]).astype(np.int64)
    order = np.argsort(begins, kind="stable")
    # Where nothing runs afterwards, the last node of all.
    by_work = np.append(work[order], np.argmax(times))[np.searchsorted(begins[order], ends)]
    by_mark = marks[np.minimum(np.searchsorted(moments, ends), len(marks) - 1)] if len(marks) else 0
    ends_at_mark, begins_at_mark = np.isin(ends, moments), np.isin(starts, moments)
    ended_by = np.where(ends_at_mark, by_mark, by_work)
    if graph.is_run:
        first, last = int(begins.min()), int(np.rint(times[work]).max())
        begins_at_mark, ends_at_mark = ends <= first, starts >= last
    labels = np.where(ends_at_mark, AFTER, np.where(begins_at_mark, BEFORE, IDLE)).tolist()
    return Union(starts, ends), labels, ended_by


def _idle_parts(work: Workspace, idle: list[IdlePart], labels: list[str]) -> Iterator[Part]:
    for label in (BEFORE, IDLE, AFTER):
        own = [part for part in idle if labels[part.gap] == label]
        causes = dict.fromkeys(part.cause for part in own if part.cause != ON_HOST)
        yield from (Part(label, cause, sum(p.time_ns for p in own if p.cause == cause), 0.0) for cause in causes)
        of_host = [part for part in own if part.cause == ON_HOST]
        yield from (_host_part(label, done) for done in host_work(work, of_host))


def _host_part(label: str, done: HostWork) -> Part:
    return Part(label, f"host: {done.cause}", done.time_ns, 0.0, done.place, done.place_ns)

"""`gaps` and `idle`: when each GPU had nothing to do, and what the host was doing meanwhile.

A gap is a stretch in which no stream of a GPU runs anything. The thread that launched the GPU event which ended it is
the one the GPU waited for. A gap has up to three parts, each with a cause of its own: until the launch was issued, what
that thread was doing; until the event could begin, the launch; after that, something on the GPU.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.shared import shared
from warplens.analyses.time.gap_parts import GapParts, gap_parts
from warplens.analyses.time.host_activity import (
    NO_ROWS,
    SYNC_CALL,
    innermost_at,
    matching_names,
    rows_by_thread,
)
from warplens.analyses.time.phases import phase_of
from warplens.analyses.work.modules import user_frames
from warplens.analyses.workspace import NO_LAUNCH, Workspace
from warplens.model.arrays import places_by_value
from warplens.model.idle_causes import DEPENDENCY, LAUNCHING, SHORT_GAPS, UNKNOWN
from warplens.model.intervals import complement, covered_until, union
from warplens.model.kinds import CODE, NONE
from warplens.model.table import Column, Table
from warplens.model.trace import Bools, Ints, Trace
from warplens.passes.climb import climb, climb_context
from warplens_run.base.units import format_ns

CAUSES: Final = {
    # cause: what it means and, after the colon, what usually helps
    "host sync": "the host waited for the GPU to finish before it continued: avoid .item(), .cpu(), synchronize()",
    "host busy": "the host was still preparing the next launch: fewer or fused ops, torch.compile, CUDA graphs",
    "memory allocation": "the host was inside cudaMalloc, cudaFree or similar: warm up the caching allocator",
    "kernel loading": "the host was loading or compiling a kernel: warm up before measuring",
    "data loading": "the host was waiting for the data loader: more workers, prefetching",
    LAUNCHING: "the launch was issued but could not take effect yet, for its call and its latency: CUDA graphs",
    DEPENDENCY: "launched work waited for another stream, an event or a copy: start what it waits for earlier",
    UNKNOWN: "the next GPU event has no recorded launch: record the CPU side as well",
    SHORT_GAPS: "all gaps below the threshold, mostly launch latency: fewer, larger kernels, CUDA graphs",
}
ALLOCATION = re.compile(
    r"(?:cuda|hip)(?:Malloc|Free|HostAlloc|HostMalloc|HostFree|MallocHost|FreeHost)|cuMem(?:Alloc|Free|Create|Map)"
)
LOADING = re.compile(
    r"cuModuleLoad|cuLibraryLoad|hipModuleLoad|cuLinkComplete|cudaFuncGetAttributes|cudaGraphInstantiate"
)
BETWEEN: Final = "(between recorded events)"
LONG_PAUSE_NS: Final = 5_000_000
"""After a synchronization a host launches again within a few ms, even profiled; a longer pause has another cause."""
DATA_LOADING = re.compile(r"enumerate\(DataLoader\)|.*dataloader\.py\(\d+\): __next__")
PARTS: Final = ("host", "launch", "dependency")
GAP_COLUMNS = (
    Column("device", "GPU number", "", pl.Int32),
    Column("start_ms", "start of the gap, since the trace's start", "ms", pl.Float64),
    Column("gap_us", "its length", "us", pl.Float64),
    Column("cause", f"the cause of its longest part: {', '.join(CAUSES)}", "", pl.String),
    Column(
        "host_frame",
        "innermost Python frame of user code that the host was in; for the backward pass, of the forward code",
        "",
        pl.String,
    ),
    Column("host_op", "framework op that the host was in", "", pl.String),
    Column("after", "GPU event that ended the gap", "", pl.String),
    Column("before", "GPU event that ended before the gap", "", pl.String),
    Column("host_activity", "innermost host event in the middle of the wait", "", pl.String),
    Column("after_op", "op of the event that ended the gap", "", pl.String),
    Column("step", "step of the event that ended the gap, -1 if none", "", pl.Int32),
    Column("percent_of_idle", "share of the GPU's idle time", "%", pl.Float64),
    Column("phase", "part of the step that the event which ended the gap belongs to", "", pl.String),
    Column("between_steps", "the events before and after the gap belong to different steps", "", pl.Boolean),
    Column("in_graph", "the event that ended the gap belongs to a CUDA or HIP graph", "", pl.Boolean),
    Column("host_us", "until its launch was issued; the three parts are empty where that is unknown", "us", pl.Float64),
    Column("launch_us", "from then on until the event could begin: the launch call and its latency", "us", pl.Float64),
    Column("dependency_us", "the rest: the event waited for something else on the GPU", "us", pl.Float64),
    Column("host_cause", "cause of the part until the launch was issued; empty where there is none", "", pl.String),
)
IDLE_COLUMNS = (
    Column("device", "GPU number", "", pl.Int32),
    Column("cause", f"why the GPU was idle: {', '.join(CAUSES)}", "", pl.String),
    Column("count", "gaps that have a part with this cause", "", pl.Int64),
    Column("total_us", "summed length of these parts", "us", pl.Float64),
    Column("percent_of_idle", "share of the GPU's idle time", "%", pl.Float64),
    Column("percent", "share of the GPU's total time", "%", pl.Float64),
)


def gaps(work: Workspace) -> Table:
    frame = all_gaps(work).filter(pl.col("gap_ns") >= work.options.gap_ns)
    gap, device, start = (frame[name].to_numpy() for name in ("gap_ns", "device", "start_ns"))
    frame = frame[np.lexsort((start, device, -gap))]  # by three keys, Polars takes three times as long
    idle, has_launch = pl.col("gap_ns").sum().over("device"), pl.col("cause") != UNKNOWN
    frame = frame.with_columns(
        (pl.col("start_ns") / 1e6).alias("start_ms"),
        (pl.col("gap_ns") / 1e3).alias("gap_us"),
        *((pl.when(has_launch).then(pl.col(f"{part}_ns") / 1e3)).alias(f"{part}_us") for part in PARTS),
        (100 * pl.col("gap_ns") / pl.max_horizontal(idle, "idle_ns")).round(6).alias("percent_of_idle"),
    )
    note = f"gaps of at least {format_ns(work.options.gap_ns)}; shorter ones are summed in the table idle"
    return Table.from_frame("gaps", "one row per idle gap of a GPU", GAP_COLUMNS, frame, note)


def idle(work: Workspace) -> Table:
    sums = (pl.len().cast(pl.Int64).alias("count"), pl.col("gap_ns").sum(), pl.col("idle_ns", "total_ns").first())
    frame = (
        # Each kind of part by itself: their order does not matter here, and to sort them takes as long as all else.
        pl.concat([part.group_by("device", "cause").agg(sums) for part in _parts(work)])
        .group_by("device", "cause")
        .agg(pl.col("count", "gap_ns").sum(), pl.col("idle_ns", "total_ns").first())
        .with_columns(
            (pl.col("gap_ns") / 1e3).alias("total_us"),
            (100 * pl.col("gap_ns") / pl.col("idle_ns")).round(6).alias("percent_of_idle"),
            (100 * pl.col("gap_ns") / pl.col("total_ns")).round(6).alias("percent"),
        )
        .sort("device", "total_us", "cause", descending=[False, True, False])
    )
    return Table.from_frame("idle", "one row per GPU and cause of idleness", IDLE_COLUMNS, frame)


def named_gaps(work: Workspace) -> pl.DataFrame:
    """The parts of all gaps, each with its cause, by device and time; gaps below the threshold are not split."""
    return gaps_in_any_order(work).sort("device", "start_ns")


def gaps_in_any_order(work: Workspace) -> pl.DataFrame:
    """The same for sums: to sort them takes as long as all else."""
    return pl.concat(_parts(work))


def _parts(work: Workspace) -> list[pl.DataFrame]:
    """Gaps that are not split, then the first parts of the others, the second ones, and the third."""
    frame = all_gaps(work)
    is_short, is_unknown = pl.col("gap_ns") < work.options.gap_ns, pl.col("cause") == UNKNOWN
    cause = pl.when(is_short).then(pl.lit(SHORT_GAPS)).otherwise("cause").alias("cause")
    of_gap = ("device", "idle_ns", "total_ns")
    parts = [frame.filter(is_short | is_unknown).select(*of_gap, "start_ns", "gap_ns", cause)]
    is_split, begun = ~(is_short | is_unknown), pl.col("start_ns")
    for part, cause in zip(PARTS, (pl.col("host_cause"), pl.lit(LAUNCHING), pl.lit(DEPENDENCY)), strict=True):
        length = pl.col(f"{part}_ns")
        own = frame.select(
            *of_gap, begun.alias("start_ns"), length.alias("gap_ns"), cause.alias("cause"), is_split.alias("is_split")
        )
        parts.append(own.filter("is_split", pl.col("gap_ns") > 0).drop("is_split"))
        begun = begun + length
    return parts


@shared
def all_gaps(work: Workspace) -> pl.DataFrame:
    """One row per gap of each GPU, of whatever length, with its parts and the cause of the longest."""
    devices = sorted(work.gpu["device"].unique().to_list())
    parts = [_device_gaps(work, device) for device in devices]
    return pl.concat(parts) if parts else _no_gaps(work, 0)


def _device_gaps(work: Workspace, device: int) -> pl.DataFrame:
    frame = work.gpu.filter(pl.col("device") == device)
    start = frame["start_ns"].to_numpy()
    end = start + frame["dur_ns"].to_numpy()
    busy = union(start, end)
    if len(busy.starts) == 0:
        return _no_gaps(work, device)
    free = complement(busy, int(busy.starts[0]), int(busy.ends[-1]))
    rows = frame["id"].to_numpy().astype(np.int64)
    by_start, by_end = np.argsort(start, kind="stable"), np.argsort(end, kind="stable")
    after = rows[by_start[np.searchsorted(start[by_start], free.ends)]]
    before = rows[by_end[np.searchsorted(end[by_end], free.starts, side="right") - 1]]
    order = work.gpu["id"].to_numpy()
    total = int(busy.ends[-1] - busy.starts[0])
    return _gap_frame(
        work,
        device,
        free.starts,
        free.ends,
        np.searchsorted(order, before),
        np.searchsorted(order, after),
        after,
        total,
    )


def _no_gaps(work: Workspace, device: int) -> pl.DataFrame:
    none = np.empty(0, np.int64)
    return _gap_frame(work, device, none, none, none, none, none, 0)


def _gap_frame(
    work: Workspace,
    device: int,
    start: Ints,
    end: Ints,
    before: Ints,
    after: Ints,
    after_row: Ints,
    total: int,
) -> pl.DataFrame:
    trace, gpu = work.trace, work.gpu
    launch = trace.ints("launch")[after_row]
    lane = np.where(launch >= 0, trace.ints("lane")[np.maximum(launch, 0)], NONE)
    parts = gap_parts(trace, start, end, launch)
    issued = np.where(launch >= 0, start + parts.host_ns, end)
    activity = innermost_at(trace, lane, (start + issued) // 2)
    synced = _last_call(trace, SYNC_CALL, lane, start, issued)
    host_causes = _host_causes(trace, start, issued, lane, activity, _explains(trace, synced, start, issued))
    causes = _longest(host_causes, parts, launch)
    # What the GPU waited for is the call that synchronised, not what the host did once it was back.
    activity = np.where((host_causes == "host sync").to_numpy(), synced, activity)
    frames = climb_context(activity, trace.ints("parent"), trace.ints("forward"), user_frames(work)).row
    frame = pl.DataFrame(
        {
            "device": np.full(len(start), device, np.int32),
            "start_ns": start,
            "gap_ns": end - start,
            "idle_ns": np.full(len(start), int((end - start).sum())),
            "total_ns": np.full(len(start), total),
            "cause": causes,
            **{f"{part}_ns": length for part, length in zip(PARTS, parts, strict=True)},
            "host_cause": host_causes.zip_with(pl.Series(parts.host_ns > 0), pl.Series([""])),
            "host_activity": trace.names_at(activity, absent=BETWEEN),
            "host_op": trace.names_at(_around(trace, activity, "op")),
            "host_frame": trace.names_at(frames),
            "before": gpu["kernel_short"].gather(before),
            "after": gpu["kernel_short"].gather(after),
            "after_op": gpu["op"].gather(after),
            "step": gpu["step"].gather(after),
            "phase": phase_of(work).gather(after),
            "between_steps": gpu["step"].gather(before) != gpu["step"].gather(after),
            "in_graph": gpu["in_graph"].gather(after),
        }
    )
    unlaunched = pl.when(pl.col("cause") == UNKNOWN).then(pl.lit(NO_LAUNCH)).otherwise("host_activity")
    return frame.with_columns(unlaunched.alias("host_activity"))


def _explains(trace: Trace, synced: Ints, start: Ints, end: Ints) -> Bools:
    """Whether a synchronising call explains a wait: not if the host, back from it, paused for most of a long one."""
    returned = (trace.ints("start_ns") + trace.ints("dur_ns"))[np.maximum(synced, 0)]
    pause = end - np.maximum(returned, start)
    explains: Bools = (synced >= 0) & ~((pause >= LONG_PAUSE_NS) & (2 * pause >= end - start))
    return explains


def _longest(host_causes: pl.Series, parts: GapParts, launch: Ints) -> pl.Series:
    """The cause of each gap's longest part; of equal ones, the first."""
    longest = np.where(launch >= 0, np.argmax(np.stack(parts), axis=0), len(PARTS))
    others = pl.Series(["", LAUNCHING, DEPENDENCY, UNKNOWN]).gather(longest)
    causes: pl.Series = host_causes.zip_with(pl.Series(longest == 0), others)
    return causes


def _host_causes(trace: Trace, start: Ints, issued: Ints, lane: Ints, activity: Ints, synced: Bools) -> pl.Series:
    """Why the launch was not issued at once: the first cause that holds, most specific first."""
    tests: list[tuple[str, Bools]] = [
        ("data loading", _inside(trace, activity, DATA_LOADING)),
        ("memory allocation", _called(trace, ALLOCATION, lane, start, issued, 0.3)),
        ("kernel loading", _called(trace, LOADING, lane, start, issued, 0.3)),
        ("host sync", synced),
    ]
    names = [cause for cause, _ in tests]
    code = np.select([test for _, test in tests], list(range(len(tests))), len(tests))
    causes: pl.Series = pl.Series([*names, "host busy"]).gather(code)
    return causes


def _called(trace: Trace, pattern: re.Pattern[str], lane: Ints, start: Ints, end: Ints, share: float) -> Bools:
    """Whether calls of this kind on the waiting thread reach into the gap and fill this share of it."""
    calls = _calls(trace, pattern)
    result = np.zeros(len(start), bool)
    by_thread = rows_by_thread(trace, calls)
    for thread, gaps_of_thread in places_by_value(lane.astype(np.int64)).items():
        own = by_thread.get(thread, NO_ROWS)
        if thread < 0 or len(own) == 0:
            continue
        begun = trace.ints("start_ns")[own]
        spent = union(begun, begun + trace.ints("dur_ns")[own])
        inside = covered_until(spent, end[gaps_of_thread]) - covered_until(spent, start[gaps_of_thread])
        result[gaps_of_thread] = (inside > 0) & (inside >= share * (end[gaps_of_thread] - start[gaps_of_thread]))
    return result


def _last_call(trace: Trace, pattern: re.Pattern[str], lane: Ints, start: Ints, end: Ints) -> Ints:
    """The latest call of this kind on the waiting thread that reaches into the gap, -1 where none does."""
    calls = _calls(trace, pattern)
    begun, duration = trace.ints("start_ns"), trace.ints("dur_ns")
    last_call = np.full(len(start), NONE, np.int64)
    by_thread = rows_by_thread(trace, calls)
    for thread, gaps_of_thread in places_by_value(lane.astype(np.int64)).items():
        own = by_thread.get(thread, NO_ROWS) if thread >= 0 else NO_ROWS
        latest = np.searchsorted(begun[own], end[gaps_of_thread]) - 1
        gaps_of_thread, latest = gaps_of_thread[latest >= 0], latest[latest >= 0]
        call = own[latest]
        reaches = begun[call] + duration[call] > start[gaps_of_thread]
        last_call[gaps_of_thread[reaches]] = call[reaches]
    return last_call


def _calls(trace: Trace, pattern: re.Pattern[str]) -> Ints:
    """The runtime calls whose names match."""
    calls = trace.runtime_rows
    chosen: Bools = matching_names(trace, pattern)[trace.ints("name")[calls]]
    return calls[chosen]


def _inside(trace: Trace, rows: Ints, pattern: re.Pattern[str]) -> Bools:
    matching = matching_names(trace, pattern)
    if not matching.any():
        return np.zeros(len(rows), bool)
    inside: Bools = climb(rows, trace.ints("parent"), matching[trace.ints("name")]) >= 0
    return inside


def _around(trace: Trace, rows: Ints, kind: str) -> Ints:
    return climb(rows, trace.ints("parent"), trace.ints("kind") == CODE[kind])

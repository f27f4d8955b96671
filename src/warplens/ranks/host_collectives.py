"""Collectives that libraries run on the host: gloo; MPI and UCC by their names, untried.

PyTorch records `gloo:all_reduce` on the thread that runs it. A tensor on the GPU is first copied to the host, so its
rank is ready when that copy has ended. Where the library's own events are missing, the calls `c10d::…` or
`record_param_comms` stand for them: each lasts until its thread goes on.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.time.host_activity import matching_names
from warplens.analyses.time.timeline import device_work
from warplens.analyses.work.comm import UNKNOWN, described_collectives
from warplens.analyses.work.modules import modules_around
from warplens.analyses.workspace import Workspace
from warplens.model.intervals import Union, covered_until, union
from warplens.model.kinds import CODE, NONE
from warplens.model.trace import Bools, Ints
from warplens.passes.climb import climb
from warplens.ranks.kinds import kind_of
from warplens.ranks.tensors import tensor_bytes, tensor_elements, tensor_types

LIBRARY: Final = re.compile(r"(gloo|mpi|ucc):\w|MPI_I?[A-Z][a-z]|ucc_collective")
ON_DEVICES: Final = re.compile(r"(?!gloo|mpi|ucc)\w*ccl:\w")
"""Annotations of libraries whose collectives are kernels."""
CALL: Final = re.compile(r"c10d::\w|record_param_comms")


def host_collectives(work: Workspace) -> pl.DataFrame | None:
    """The columns of the digest's `collectives`, times since the trace's origin; None where there are none."""
    trace = work.trace
    rows, calls = _rows(work, LIBRARY), _outermost(work, _rows(work, CALL))
    is_call = len(rows) == 0
    if is_call:
        has_others = len(described_collectives(work)) or len(_rows(work, ON_DEVICES))
        rows = calls[:0] if has_others else calls
    if len(rows) == 0:
        return None
    start = trace.ints("start_ns")[rows]
    end = start + trace.ints("dur_ns")[rows]
    if is_call:
        end = np.maximum(end, next_on_lane(work, rows))
    call = rows if is_call else _calls_of(work, rows, calls)
    issued = np.where(call >= 0, trace.ints("start_ns")[np.maximum(call, 0)], start)
    ready = np.clip(_copied_ns(work, call), start, end)
    group, ranks = _group(work)
    size = tensor_bytes(work, rows)
    frame = pl.DataFrame({
        "id": rows.astype(np.int64),
        "step": trace.ints("step")[np.where(call >= 0, call, rows)].astype(np.int64),
        "kernel": trace.names_at(rows),
        "kind": [kind_of(name) for name in trace.names_at(rows).to_list()],
        "launch_ns": np.minimum(issued, start),
        "begun_ns": start,
        "start_ns": ready,
        "end_ns": end,
        "stream": trace.ints("lane")[rows].astype(np.int64),
        "bytes": np.where(size > 0, size, NONE),
        "dtype": tensor_types(work, rows),
    }).with_columns(
        modules_around(work, np.where(call >= 0, call, rows)),
        pl.lit(group).alias("group"),
        pl.lit("").alias("group_ranks"),
        pl.lit(len(ranks) or NONE, pl.Int64).alias("group_size"),
        pl.lit(NONE, pl.Int64).alias("device"),
        *(pl.lit(NONE, pl.Int64).alias(name) for name in ("seq", "peer", "member")),
        *(pl.lit("").alias(name) for name in ("in_splits", "out_splits")),
    )  # fmt: skip
    frame = frame.with_columns(pl.Series("exposed_ns", _exposed(work, frame)))
    return frame.sort("launch_ns", "start_ns", "id")


def busy_threads(work: Workspace) -> Union:
    """When a thread of the program works: the one that marks steps, or one that issues collectives, as in backward."""
    trace = work.trace
    marks = trace.rows_of("annotation")
    marking = marks[np.isin(trace.ints("start_ns")[marks], trace.steps["start_ns"].to_numpy())]
    lanes = np.unique(trace.ints("lane")[np.concatenate([marking, _rows(work, CALL)])])
    rows = np.flatnonzero(working(work) & np.isin(trace.ints("lane"), lanes))
    begun = trace.ints("start_ns")[rows]
    return union(begun, begun + trace.ints("dur_ns")[rows])


def working(work: Workspace) -> Bools:
    """Events in which a thread is at work: ops and calls of the runtime, but not those that issue collectives."""
    trace = work.trace
    own: Bools = trace.is_kind("op", "runtime") & ~matching_names(trace, CALL)[trace.ints("name")]
    inside = np.zeros(len(trace), bool)
    inside[_rows(work, CALL)] = True
    rows = np.flatnonzero(own)
    own[rows] &= climb(rows, trace.ints("parent"), inside) < 0
    return own


def next_on_lane(work: Workspace, rows: Ints) -> Ints:
    """When the thread of each event is at work again after it, or in the next of them; else its own end."""
    trace, is_working = work.trace, working(work)
    is_working[rows] = True
    start, lane = trace.ints("start_ns"), trace.ints("lane")
    after: Ints = start[rows] + trace.ints("dur_ns")[rows]
    for number in np.unique(lane[rows]).tolist():
        begun = np.sort(start[is_working & (lane == number)])
        own = np.flatnonzero(lane[rows] == number)
        at = np.searchsorted(begun, after[own], "left")
        known = at < len(begun)
        after[own[known]] = begun[at[known]]
    return after


def _rows(work: Workspace, names: re.Pattern[str]) -> Ints:
    """Host events of these names, in the order of their begin, that are collectives or messages."""
    trace = work.trace
    is_meant = matching_names(trace, names)
    if names is not ON_DEVICES and names is not CALL:
        is_meant &= np.array([kind_of(name) != "other" for name in trace.names], bool)
    rows = np.flatnonzero(is_meant[trace.ints("name")] & trace.is_kind("op", "annotation", "runtime"))
    ordered: Ints = rows[np.argsort(trace.ints("start_ns")[rows], kind="stable")]
    return ordered


def _outermost(work: Workspace, calls: Ints) -> Ints:
    """Calls that are in no other, of a kind that their names tell."""
    trace = work.trace
    is_call = np.zeros(len(trace), bool)
    is_call[calls] = True
    parent = trace.ints("parent")
    above = np.where(parent[calls] >= 0, parent[calls], NONE)
    outer = calls[climb(above, parent, is_call) < 0]
    kinds = [kind_of(trace.names[code]) != "other" for code in trace.ints("name")[outer]]
    chosen: Ints = outer[np.array(kinds, bool)] if len(outer) else outer
    return chosen


def _calls_of(work: Workspace, rows: Ints, calls: Ints) -> Ints:
    """The call that issued each collective: by kind and size, in their order, where there are as many; -1 elsewhere."""
    queues: dict[tuple[str, int], list[int]] = defaultdict(list)
    wanted: dict[tuple[str, int], list[int]] = defaultdict(list)
    for key, event in zip(_keys(work, calls), calls.tolist(), strict=True):
        queues[key].append(event)
    for place, key in enumerate(_keys(work, rows)):
        wanted[key].append(place)
    call = np.full(len(rows), NONE, np.int64)
    for key, places in wanted.items():
        if len(queues[key]) == len(places):
            call[places] = queues[key]
    return call


def _keys(work: Workspace, rows: Ints) -> list[tuple[str, int]]:
    kinds = [kind_of(name) for name in work.trace.names_at(rows).to_list()]
    return list(zip(kinds, tensor_elements(work, rows).tolist(), strict=True))


def _copied_ns(work: Workspace, call: Ints) -> Ints:
    """When the last copy to the host that each call launched has ended; 0 without any."""
    trace = work.trace
    copied = np.zeros(len(trace) + 1, np.int64)
    copies = work.gpu.filter(pl.col("kind") == CODE["memcpy"])
    launch = trace.ints("launch")[copies["id"].to_numpy()]
    is_call = np.zeros(len(trace), bool)
    is_call[call[call >= 0]] = True
    owner = climb(launch, trace.ints("parent"), is_call)
    ends = (copies["start_ns"] + copies["dur_ns"]).to_numpy()
    np.maximum.at(copied, owner[owner >= 0], ends[owner >= 0])
    result: Ints = copied[call]
    return result


def _group(work: Workspace) -> tuple[str, tuple[int, ...]]:
    """The name and the ranks of the only group that the rank is in; unknown where there are several."""
    job = work.trace.meta.distributed
    groups = [] if job is None else [group for group in job.groups if not group.ranks or job.rank in group.ranks]
    return (groups[0].name, groups[0].ranks) if len(groups) == 1 else (UNKNOWN, ())


def exposed_by_step(work: Workspace, calls: pl.DataFrame) -> pl.DataFrame:
    """Time of each step in which some call runs, from when its rank is ready for it, and nothing computes."""
    busy = _computing(work)
    rows = []
    for (step,), own in calls.filter(pl.col("step") >= 0).group_by("step"):
        running = union(own["start_ns"].to_numpy(), own["end_ns"].to_numpy())
        rows.append((step, int(_uncovered(busy, running.starts, running.ends).sum())))
    return pl.DataFrame(rows, schema={"step": pl.Int64, "on_host_ns": pl.Int64}, orient="row")


def _exposed(work: Workspace, frame: pl.DataFrame) -> Ints:
    return _uncovered(_computing(work), frame["start_ns"].to_numpy(), frame["end_ns"].to_numpy())


def _uncovered(busy: Union, start: Ints, end: Ints) -> Ints:
    exposed: Ints = end - start - (covered_until(busy, end) - covered_until(busy, start))
    return exposed


def _computing(work: Workspace) -> Union:
    """When the GPU computes; without a GPU, when a thread of the program works."""
    return device_work(work, None).computation if len(work.gpu) else busy_threads(work)

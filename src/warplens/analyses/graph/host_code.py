"""Host code that a step may wait for: the user's own functions and those of libraries, where they launch nothing.

What an op or a call of the GPU's runtime takes is none of it, nor what the framework's Python takes to get there: those
are what launches cost. Nor are waits for a data loader.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from warplens.analyses.graph.bounds import calibration
from warplens.analyses.graph.building import graph_of
from warplens.analyses.graph.host_work import own_annotations
from warplens.analyses.graph.recording_cost import plain_host, recording_cost
from warplens.analyses.graph.records import CALL, MARK
from warplens.analyses.graph.simulating import simulate, step_ns
from warplens.analyses.shared import shared
from warplens.analyses.time.gaps import DATA_LOADING
from warplens.analyses.time.host_activity import Pieces, matching_names, pieces_of
from warplens.analyses.work.modules import frame_parts, user_frames
from warplens.analyses.work.places import place_text
from warplens.analyses.workspace import Workspace
from warplens.lazy_patterns import LazyPattern
from warplens.model.intervals import Union, complement, union
from warplens.model.kinds import NESTED, NONE
from warplens.model.trace import Bools, Ints, Trace
from warplens.model.user_code import FRAMEWORKS
from warplens.passes.climb import climb

LEAST_NS: Final = 100_000
"""Between two ops of a model Python takes 1 to 60 µs, stacks recorded; an op that describes a tensor less than 20."""
LEAST_IN_RANGE_NS: Final = 1_000_000
"""Where no frames tell the framework's Python from the program's: no op takes the host that long to get to."""
ON_CPU: Final = ("aten::", "torchvision::")


class CodePlace(NamedTuple):
    """A function, or a range that the program names: its time in one step without the profiler, how often it was
    recorded, and the longest of them."""

    place: str
    file: str
    """Of a range its name."""
    time_ms: float
    times: int
    longest_ns: tuple[int, int]


class HostCode(NamedTuple):
    """All of it: by function, the most time first, and what the step saves, simulated, if it takes no time."""

    places: tuple[CodePlace, ...]
    time_ms: float
    saves_ms: float
    ranges_ns: tuple[tuple[int, int], ...]

    @property
    def as_union(self) -> Union:
        return union(*np.array(self.ranges_ns, np.int64).reshape(-1, 2).T)


@shared
def host_code(work: Workspace) -> HostCode | None:
    """Of a trace that has a graph; None where no Python frame of the user's own is long enough, nor, without
    frames, a range that the program names."""
    runs = _runs(work)
    if not len(runs):
        return None
    graph, share = graph_of(work), recording_cost(work).share
    plain = plain_host(graph, share)
    steps = 1 if graph.is_run else np.count_nonzero(graph.kind == MARK) - 1
    to_step = calibration(work) / 1e6

    def inside_ms(own: pl.DataFrame) -> float:
        _, time_ns = graph.host_time_inside(plain, union(own["start"].to_numpy(), own["end"].to_numpy()))
        return float(time_ns.sum()) * to_step / steps

    places = []
    for (name,), own in runs.group_by("name", maintain_order=True):
        longest = own.sort(pl.col("end") - pl.col("start"), descending=True).select("start", "end").row(0)
        text = work.trace.names[name]
        places.append(CodePlace(place_text(text), frame_parts(text)[0], inside_ms(own), len(own), longest))
    ranges = union(runs["start"].to_numpy(), runs["end"].to_numpy())
    edges, time_ns = graph.host_time_inside(plain, ranges)
    lags = graph.lag_ns - graph.host_ns + plain
    before_ns = step_ns(graph, simulate(graph, lag_ns=lags))
    lags[edges] -= time_ns
    saves_ns = before_ns - step_ns(graph, simulate(graph, lag_ns=lags))
    return HostCode(
        tuple(sorted(places, key=lambda each: (-each.time_ms, each.place))),
        float(time_ns.sum()) * to_step / steps,
        max(0.0, saves_ns) * to_step,
        tuple(zip(ranges.starts.tolist(), ranges.ends.tolist(), strict=True)),
    )


def _runs(work: Workspace) -> pl.DataFrame:
    """Time in one function without a launch, on threads that launch: its name's code, start and end."""
    graph, trace = graph_of(work), work.trace
    schema = {"name": pl.Int64, "start": pl.Int64, "end": pl.Int64}
    _, begun, ended = graph.host_spans
    own, least_ns = user_frames(work), LEAST_NS
    if not own.any():
        own, least_ns = own_annotations(work), LEAST_IN_RANGE_NS
    if not own.any() or not len(begun):
        return pl.DataFrame(schema=schema)
    calls = graph.row[(graph.kind == CALL) & (graph.row >= 0)]
    frames = [pl.DataFrame(schema=schema)]
    lanes = np.unique(trace.ints("lane")[calls])
    free = _without_launches(trace, lanes, int(begun.min()), int(ended.max()))
    for lane in lanes.tolist():
        pieces = pieces_of(trace, lane, free)
        if len(pieces.row):
            frames.append(_own_runs(work, pieces, own, least_ns))
    return pl.concat(frames)


def _without_launches(trace: Trace, lanes: Ints, begin_ns: int, end_ns: int) -> Union:
    """Where none of these threads is in an op or a call of the runtime for long: where one is, another may wait for it,
    as for autograd's. Ops that compute on the CPU are code like any other."""
    start, duration, on_lane = trace.ints("start_ns"), trace.ints("dur_ns"), np.isin(trace.ints("lane"), lanes)
    calls = np.flatnonzero(trace.is_kind("runtime") & on_lane)
    ops = np.flatnonzero(trace.is_kind("op") & on_lane)
    is_cpu_op = np.array([name.startswith(ON_CPU) for name in trace.names], bool)
    begun = np.sort(start[calls])
    has_calls = np.searchsorted(begun, start[ops]) < np.searchsorted(begun, start[ops] + duration[ops])
    computes = is_cpu_op[trace.ints("name")[ops]] & ~has_calls & (duration[ops] >= LEAST_NS)
    launching = np.concatenate([calls, ops[~computes]])
    free = complement(union(start[launching], start[launching] + duration[launching]), begin_ns, end_ns)
    is_long = free.ends - free.starts >= LEAST_NS
    return Union(free.starts[is_long], free.ends[is_long])


def _own_runs(work: Workspace, pieces: Pieces, own: Bools, least_ns: int) -> pl.DataFrame:
    """Of what a thread does the time in own functions, if it is long without the framework's in between."""
    trace, parent = work.trace, work.trace.ints("parent")
    row = pieces.row
    in_op = climb(row, parent, trace.is_kind("op")) != NONE
    nearest = np.where(in_op, climb(row, parent, own), climb(row, parent, own | _frames(trace, FRAMEWORKS)))
    is_own = (nearest != NONE) & own[nearest] & (climb(row, parent, _frames(trace, DATA_LOADING)) == NONE)
    follows = np.append(False, (pieces.start_ns[1:] == pieces.end_ns[:-1]) & (is_own[1:] == is_own[:-1]))
    frame = pl.DataFrame({
        "run": np.cumsum(~follows), "own": is_own, "frame": nearest, "start": pieces.start_ns, "end": pieces.end_ns,
        "name": trace.ints("name")[np.maximum(nearest, 0)].astype(np.int64),
    }).filter("own")  # fmt: skip
    length = (pl.col("end") - pl.col("start")).sum()
    frame = frame.filter(length.over("run") >= least_ns)
    # Pieces of one call that follow each other are one.
    begins = (pl.col("frame") != pl.col("frame").shift()) | (pl.col("start") != pl.col("end").shift())
    frame = frame.with_columns(begins.fill_null(True).cum_sum().alias("part"))
    return frame.group_by("part", maintain_order=True).agg(
        pl.col("name").first(), pl.col("start").first(), pl.col("end").last()
    ).drop("part")  # fmt: skip


def _frames(trace: Trace, pattern: re.Pattern[str] | LazyPattern) -> Bools:
    """The host events whose names match."""
    found: Bools = matching_names(trace, pattern)[trace.ints("name")] & trace.is_kind(*NESTED)
    return found

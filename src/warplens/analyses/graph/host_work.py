"""What the host does in some stretches of time: by kind of work, with the place that most of each is at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from warplens.analyses.graph.idle_chains import IdlePart
from warplens.analyses.graph.records import Floats
from warplens.analyses.shared import shared
from warplens.analyses.time.gaps import ALLOCATION, DATA_LOADING, LOADING
from warplens.analyses.time.host_activity import SYNC_CALL, matching_names, pieces_of
from warplens.analyses.time.phases import MARKS
from warplens.analyses.work.modules import lines_around, modules_around, user_frames
from warplens.analyses.work.places import pattern_of
from warplens.analyses.workspace import Workspace
from warplens.model.arrays import numbered
from warplens.model.intervals import union
from warplens.model.kinds import CODE, NONE
from warplens.model.trace import Bools, Ints
from warplens.passes.climb import climb
from warplens.passes.steps import PROFILER_STEP

WAITS_INSIDE: Final = {
    "data loading": DATA_LOADING,
    "memory allocation": ALLOCATION,
    "kernel loading": LOADING,
    "synchronisation": SYNC_CALL,
}
"""Calls whose time, with all that is inside, is named after them."""
FORWARD: Final = "forward"
NO_NAME: Final = "not recorded"
OPS: Final = "ops"
CALLS: Final = "runtime calls"
MEANINGS: Final = {
    "data loading": "the host waits for the data loader, or loads in the same process",
    "memory allocation": "calls that allocate or free memory of the GPU",
    "kernel loading": "calls that load or instantiate kernels or graphs",
    "synchronisation": "calls that return when the GPU is done",
    "optimizer": "inside Optimizer.step",
    "recompute": "forward work repeated in the backward pass",
    "backward": "ops of the autograd engine, and what it does between them",
    FORWARD: "inside an nn.Module, outside of the backward pass",
    OPS: "framework ops outside of modules, or where modules are not recorded",
    CALLS: "calls of the GPU's runtime outside of ops",
    NO_NAME: "no module, line, op or call is recorded there; record Python stacks",
}
"""What the host does; anything else is a file of the user's or a range that the program names."""
PLACED: Final = {"cause": pl.String, "place": pl.String, "ns": pl.Float64}


class HostWork(NamedTuple):
    """Of one kind of work: its name, its time, and the module, line or op that most of it is in."""

    cause: str
    time_ns: float
    place: str
    place_ns: float


def host_work(work: Workspace, parts: Sequence[IdlePart]) -> list[HostWork]:
    """The host's time in these parts by what it does; the sum is theirs."""
    lanes = work.trace.ints("lane")
    by_lane: dict[int, list[IdlePart]] = {}
    for part in parts:
        is_known = part.row != NONE and part.recorded_end_ns > part.recorded_start_ns
        by_lane.setdefault(int(lanes[part.row]) if is_known else NONE, []).append(part)
    frames = [_on_lane(work, lane, own) for lane, own in sorted(by_lane.items())]
    found = []
    for (name,), own in pl.concat(frames).group_by("cause", maintain_order=True) if frames else ():
        by_place = own.group_by("place").agg(pl.col("ns").sum()).sort("ns", "place", descending=[True, False])
        named = by_place.filter(pl.col("place") != "").head(1)
        where, there = named.row(0) if len(named) else ("", 0.0)
        found.append(HostWork(str(name), float(own["ns"].sum()), str(where), float(there)))
    return found


def _on_lane(work: Workspace, lane: int, parts: Sequence[IdlePart]) -> pl.DataFrame:
    """What one thread does in these stretches; the time between its events is the engine's on autograd's thread."""
    whole = sum(part.time_ns for part in parts)
    rows, own_ns = _own_times(work, lane, parts) if lane != NONE else (np.zeros(0, np.int64), np.zeros(0))
    # Where stretches of two ways overlap as recorded, an event counts once, and no more than there is.
    own_ns = own_ns * min(1.0, whole / max(float(own_ns.sum()), 1e-9))
    between = "backward" if lane in _autograd_lanes(work) else NO_NAME
    cause, place = [*_causes(work, rows), between], [*_places(work, rows), ""]
    ns = [*own_ns.tolist(), max(0.0, whole - float(own_ns.sum()))]
    return pl.DataFrame({"cause": cause, "place": place, "ns": ns}, schema=PLACED).filter(pl.col("ns") > 0)


@shared
def _autograd_lanes(work: Workspace) -> frozenset[int]:
    """Threads whose outermost events are the autograd engine's."""
    trace = work.trace
    is_backward = matching_names(trace, MARKS["backward"])[trace.ints("name")]
    return frozenset(trace.ints("lane")[is_backward & (trace.ints("parent") == NONE)].tolist())


def _own_times(work: Workspace, lane: int, parts: Sequence[IdlePart]) -> tuple[Ints, Floats]:
    """Events of a thread that run in these stretches, and the time in which each is the innermost one there."""
    own = sorted(parts, key=lambda part: part.recorded_start_ns)
    moments = np.array([(part.recorded_start_ns, part.recorded_end_ns) for part in own]).ravel()
    moments = np.maximum.accumulate(moments)
    passed = np.repeat(np.cumsum([0.0, *(part.time_ns for part in own)]), 2)[1:-1]
    rounded = np.rint(moments).astype(np.int64)
    pieces = pieces_of(work.trace, lane, union(rounded[::2], rounded[1::2]))
    covered = np.interp(pieces.end_ns, moments, passed) - np.interp(pieces.start_ns, moments, passed)
    is_known = (pieces.row != NONE) & (covered > 0)
    rows, row_of = numbered(pieces.row[is_known])
    own_ns: Floats = np.bincount(row_of, covered[is_known], len(rows)).astype(float)
    return rows, own_ns


def _causes(work: Workspace, rows: Ints) -> list[str]:
    """The first of these that holds of each event."""
    trace = work.trace
    parent, kind = trace.ints("parent"), trace.ints("kind")
    name = trace.ints("name")
    tests = [(cause, _at_or_above(rows, parent, marks)) for cause, marks in _marked(work)]
    around = climb(rows, parent, kind == CODE["module"])
    frames = climb(rows, parent, user_frames(work))
    annotated = climb(rows, parent, own_annotations(work))
    in_op = climb(rows, parent, kind == CODE["op"])
    tests.append((FORWARD, around >= 0))
    causes = np.select([test for _, test in tests], np.arange(len(tests)), len(tests)).tolist()
    names, texts = [cause for cause, _ in tests], []
    for row, cause, frame, annotation, op in zip(
        rows.tolist(), causes, frames.tolist(), annotated.tolist(), in_op.tolist(), strict=True
    ):
        if cause < len(names):
            texts.append(names[cause])
        elif annotation >= 0:
            texts.append(trace.names[name[annotation]])
        elif frame >= 0:
            texts.append(trace.names[name[frame]].partition("(")[0])
        elif op >= 0:
            texts.append(OPS)
        elif kind[row] == CODE["runtime"]:
            texts.append(CALLS)
        else:
            texts.append(NO_NAME if kind[row] == CODE["annotation"] else trace.names[name[row]].partition("(")[0])
    return texts


@shared
def _marked(work: Workspace) -> list[tuple[str, Bools]]:
    """Per cause: which events have it, with all that is inside them."""
    trace, name = work.trace, work.trace.ints("name")
    patterns = WAITS_INSIDE | {
        "optimizer": MARKS["optimizer"],
        "backward": MARKS["backward"],
    }
    return [(cause, matching_names(trace, pattern)[name]) for cause, pattern in patterns.items()]


def _at_or_above(rows: Ints, parent: Ints, marks: Bools) -> Bools:
    above: Bools = climb(rows, parent, marks) >= 0 if marks.any() else np.zeros(len(rows), bool)
    return above


def own_annotations(work: Workspace) -> Bools:
    """Ranges that the program names, those that mark steps aside."""
    trace = work.trace
    marks = set(trace.steps["name"].to_list())
    is_step = matching_names(trace, PROFILER_STEP)
    is_step[[code for code in trace.host_names.tolist() if trace.names[code] in marks]] = True
    own: Bools = trace.is_kind("annotation") & ~is_step[trace.ints("name")]
    return own


def _places(work: Workspace, rows: Ints) -> list[str]:
    """The module of each event, else the user's line, else the outermost op or call."""
    if not len(rows):
        return []
    trace = work.trace
    modules = [pattern_of(path) for path in modules_around(work, rows).to_list()]
    lines = lines_around(work, rows)
    texts = lines.text(lines.codes).to_list()
    ops = trace.names_at(climb(rows, trace.ints("parent"), trace.is_kind("op") | trace.is_kind("runtime"))).to_list()
    return [line or module or op for module, line, op in zip(modules, texts, ops, strict=True)]

"""A trace's captures of graphs: one per BeginCapture/EndCapture, with the launches that became its nodes, in order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np

from warplens.model.graph_records import CapturedLaunch, CaptureTrace
from warplens.model.iteration_marks import parse_capture
from warplens.model.kinds import CODE, NONE
from warplens.model.trace import Bools, Ints, Trace
from warplens.passes.climb import climb

BEGIN: Final = "StreamBeginCapture"
END: Final = "StreamEndCapture"
NODE_CALLS: Final = (
    # kind of GPU event: calls of CUDA's and HIP's runtime and driver that add such a node to a graph
    ("kernel", re.compile(r"(?:cuda|cu|hip)\w{0,80}Launch\w{0,80}Kernel|hipLaunchByPtr")),
    ("memcpy", re.compile(r"(?:cuda|cu|hip)Memcpy")),
    ("memset", re.compile(r"(?:cuda|cu|hip)Memset")),
)
STEP_MARK: Final = "ProfilerStep#"
TRITON_OP: Final = re.compile(r"triton_\w+")
"""Inductor's ops have the name of the kernel that they launch."""
MAX_CAPTURES: Final = 20_000


class CapturedGraph(msgspec.Struct, frozen=True):
    """One capture: rows of its trace, and what each of its launches says."""

    capture: CaptureTrace
    label: str
    """What its annotation calls it; "" without one."""
    batch: int | None
    """The size that it was captured for, where the label says it."""
    family: int
    """Graphs that were captured one after the other under one annotation have one number."""
    place: int
    """Where in its family, from 0."""
    begin: int
    end: int
    launches: Ints
    """Rows of the calls that added its nodes, in order."""
    kinds: Ints
    """Code of the kind of GPU event that each leaves."""
    kernels: tuple[str, ...]
    """The name of each one's kernel, "" where that is not recorded."""
    ops: Ints
    """The row of the innermost op around each, -1 for none."""

    @property
    def title(self) -> str:
        number = f"#{self.place + 1}"
        return f"{self.label} {number}" if self.label else f"capture {number}"


def find_captures(capture: CaptureTrace) -> tuple[list[CapturedGraph], int]:
    """The graphs that were captured in a linked trace, and how many captures have no end or no beginning."""
    trace = capture.trace
    begins, ends, incomplete = _intervals(trace)
    if not len(begins):
        return [], incomplete
    calls, kinds = node_calls(trace)
    owner = _owners(trace, begins, ends, calls)
    is_op = trace.is_kind("op")
    parent = trace.ints("parent")
    ops = climb(calls, parent, is_op)
    labels = _labels(trace, begins)
    graphs: list[CapturedGraph] = []
    families: dict[object, tuple[int, int]] = {}
    for number, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        own = np.flatnonzero(owner == number)
        own = own[np.argsort(trace.ints("start_ns")[calls[own]], kind="stable")]
        if not len(own):
            continue
        label, key = labels[number]
        family, place = families.get(key, (len(families), 0))
        families[key] = family, place + 1
        mark = parse_capture(label)
        names = tuple(_kernel_names(capture, calls[own], ops[own]))
        graphs.append(
            CapturedGraph(capture, label, mark.batch if mark else None, family, place, begin, end, calls[own],
                          kinds[own], names, ops[own])
        )  # fmt: skip
    return graphs, incomplete


def has_captures(trace: Trace) -> bool:
    return any(BEGIN in trace.names[code] for code in trace.host_names.tolist())


def captured_ops(trace: Trace) -> Ints:
    """Rows of op calls that only added nodes to a graph while it was captured in this trace."""
    parent, start, is_op = trace.ints("parent"), trace.ints("start_ns"), trace.is_kind("op")
    captured = np.zeros(len(trace), bool)
    for graph in find_captures(CaptureTrace(trace))[0]:
        at = np.unique(graph.ops[graph.ops >= 0])
        while len(at := at[(at >= 0) & (start[at] >= start[graph.begin])]):
            captured[at] = True
            at = np.unique(climb(parent[at].astype(np.int64), parent, is_op))
    return np.flatnonzero(captured)


def node_calls(trace: Trace) -> tuple[Ints, Ints]:
    """Calls that launched nothing in this trace, so that they may have added a node to a graph, and their kinds."""
    rows = trace.runtime_rows
    kind_of_name = np.full(len(trace.names), NONE, np.int64)
    for code in np.unique(trace.ints("name")[rows]).tolist():
        name = trace.names[code]
        kind_of_name[code] = next((CODE[kind] for kind, pattern in NODE_CALLS if pattern.match(name)), NONE)
    kinds = kind_of_name[trace.ints("name")]
    is_call = np.zeros(len(trace), bool)
    is_call[rows] = kinds[rows] >= 0
    launched = trace.ints("launch")[trace.gpu_rows]
    is_call[launched[launched >= 0]] = False
    parent = trace.ints("parent")
    # A call of the driver inside one of the runtime adds no node of its own.
    is_call &= ~((parent >= 0) & is_call[np.maximum(parent, 0)])
    calls = np.flatnonzero(is_call)
    return calls, kinds[calls]


def _intervals(trace: Trace) -> tuple[Ints, Ints, int]:
    """Rows of calls that begin and end captures, as pairs in the order in which they begin, on whichever thread."""
    rows = trace.runtime_rows
    is_begin, is_end = (_named(trace, word)[trace.ints("name")[rows]] for word in (BEGIN, END))
    marked = np.flatnonzero(is_begin | is_end)
    lane, start = trace.ints("lane")[rows], trace.ints("start_ns")[rows]
    open_rows: dict[int, list[int]] = {}
    pairs: list[tuple[int, int]] = []
    incomplete = 0
    for index in marked[np.lexsort((start[marked], lane[marked]))].tolist():
        stack = open_rows.setdefault(int(lane[index]), [])
        if is_begin[index]:
            stack.append(int(rows[index]))
        elif stack:
            pairs.append((stack.pop(), int(rows[index])))
        else:
            incomplete += 1
    incomplete += sum(map(len, open_rows.values()))
    began = trace.ints("start_ns")
    pairs.sort(key=lambda pair: int(began[pair[0]]))
    begins, ends = np.array(pairs[:MAX_CAPTURES], np.int64).reshape(-1, 2).T
    return begins, ends, incomplete + max(0, len(pairs) - MAX_CAPTURES)


def _named(trace: Trace, word: str) -> Bools:
    named = np.zeros(len(trace.names), bool)
    named[trace.host_names] = [word in trace.names[code] for code in trace.host_names.tolist()]
    return named


def _owners(trace: Trace, begins: Ints, ends: Ints, calls: Ints) -> Ints:
    """Which capture each call belongs to, -1 for none: the innermost of its thread, else the only one at that time.

    Backward passes are captured on threads of autograd's, which begin no capture themselves.
    """
    start, lane = trace.ints("start_ns"), trace.ints("lane")
    owner = np.full(len(calls), NONE, np.int64)
    elsewhere = np.full(len(calls), NONE, np.int64)
    order = np.argsort(start[calls], kind="stable")
    times = start[calls][order]
    for number, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):  # outer ones come first
        first, last = np.searchsorted(times, start[begin], "left"), np.searchsorted(times, start[end], "right")
        inside = order[first:last]
        own = lane[calls[inside]] == lane[begin]
        owner[inside[own]] = number
        elsewhere[inside[~own]] = number
    return np.where(owner >= 0, owner, elsewhere)


def _labels(trace: Trace, begins: Ints) -> list[tuple[str, object]]:
    """What the annotation around each capture says, and which annotation that is: one of an engine before any other."""
    parent, is_annotation = trace.ints("parent"), trace.is_kind("annotation")
    names = trace.ints("name")
    is_mark, is_step = np.zeros(len(trace.names), bool), np.zeros(len(trace.names), bool)
    for code in np.unique(names[is_annotation]).tolist():
        is_mark[code] = parse_capture(trace.names[code]) is not None
        is_step[code] = trace.names[code].startswith(STEP_MARK)
    marked = climb(begins, parent, is_annotation & is_mark[names])
    nearest = climb(begins, parent, is_annotation & ~is_step[names])
    rows = np.where(marked >= 0, marked, nearest)
    return [(trace.names[names[row]], row) if row >= 0 else ("", NONE) for row in rows.tolist()]


def _kernel_names(capture: CaptureTrace, rows: Ints, ops: Ints) -> Iterator[str]:
    trace, unnamed = capture.trace, CapturedLaunch()
    names, correlations = trace.ints("name"), trace.ints("correlation")[rows]
    for correlation, op in zip(correlations.tolist(), ops.tolist(), strict=True):
        op_name = trace.names[names[op]] if op >= 0 else ""
        of_op = op_name if TRITON_OP.fullmatch(op_name) else ""
        yield capture.launches.get(correlation, unnamed).kernel or of_op

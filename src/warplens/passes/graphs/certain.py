"""Which capture a launch replays, where that is recorded: by the recorder's own list, or by the number of its graph."""

from __future__ import annotations

from typing import Final

import numpy as np

from warplens.model.graph_records import CaptureIndex
from warplens.model.kinds import NONE
from warplens.model.trace import Ints, Trace
from warplens.passes.graphs.captures import CapturedGraph
from warplens.passes.graphs.replays import Replays

NOT_RECORDED: Final = -2
"""The graph was captured before the recording, or its capture was not kept."""
TOLERANCE_NS: Final = 2_000
"""Between the clock of the recorder and that of the profiler."""


def known_captures(trace: Trace, replays: Replays, graphs: list[CapturedGraph], index: CaptureIndex) -> Ints:
    """For each launch the number of its capture among `graphs`, -1 where nothing says it, -2 where there is none."""
    known = np.full(len(replays), NONE, np.int64)
    if not index.captures:
        return known
    graph_of = _graphs_by_number(graphs, index)
    numbers = {record.graph_id: record.number for record in index.captures if record.graph_id >= 0}
    for launch, graph_id in enumerate(replays.graph_id.tolist()):
        if graph_id in numbers:
            known[launch] = graph_of.get(numbers[graph_id], NOT_RECORDED)
    threads = trace.lanes["thread"].to_list()
    lanes, moments = trace.ints("lane")[replays.rows], trace.ints("start_ns")[replays.rows] + trace.meta.origin_ns
    for thread in {record.thread for record in index.replays}:
        records = sorted((record for record in index.replays if record.thread == thread), key=lambda own: own.time_ns)
        times = np.array([record.time_ns for record in records], np.int64)
        own = np.flatnonzero([threads[lane] == thread for lane in lanes.tolist()])
        places = np.searchsorted(times, moments[own] + TOLERANCE_NS, "right") - 1
        for launch, place, before in zip(own.tolist(), places.tolist(), [NONE, *places[:-1].tolist()], strict=True):
            # A record stands just before its launch; launches after that are not the recorder's.
            if place >= 0 and place != before and known[launch] == NONE:
                known[launch] = graph_of.get(records[place].number, NOT_RECORDED)
    return known


def _graphs_by_number(graphs: list[CapturedGraph], index: CaptureIndex) -> dict[int, int]:
    """The captures that the recorder numbered, by the file they are in and the time at which they began."""
    numbered = {}
    for place, graph in enumerate(graphs):
        trace = graph.capture.trace
        begun = int(trace.ints("start_ns")[graph.begin]) + trace.meta.origin_ns
        for record in index.captures:
            is_there = record.file == graph.capture.name or not graph.capture.name
            if is_there and record.start_ns - TOLERANCE_NS <= begun <= record.end_ns + TOLERANCE_NS:
                numbered[record.number] = place
    return numbered

"""A trace's launches of graphs, and the sequences of GPU events that they ran: equal ones are one sequence."""

from __future__ import annotations

import re
from typing import Final

import msgspec
import numpy as np

from warplens.model.graph_records import GraphNodes
from warplens.model.iteration_marks import parse_mark
from warplens.model.kinds import CODE, NONE
from warplens.model.trace import Ints, Trace
from warplens.passes.climb import climb

ROCM_COPY: Final = re.compile(r"__amd_rocclr_copy")
ROCM_FILL: Final = re.compile(r"__amd_rocclr_fill")


class Replays(msgspec.Struct, frozen=True):
    """The launches of graphs that ran something, in the order of time."""

    rows: Ints
    """The row of each launch."""
    sequence: Ints
    """Which sequence each ran."""
    events: list[Ints]
    """The rows of its GPU events, in the order of the graph."""
    batch: Ints
    """The size that the annotation around each says, -1 for none."""
    graph_id: Ints
    """The number of its graph, -1 where that is not recorded."""

    def __len__(self) -> int:
        return len(self.rows)

    def first_of(self, sequence: int) -> Ints:
        """The GPU events of the first launch that ran this sequence."""
        return self.events[int(np.argmax(self.sequence == sequence))]


def find_replays(trace: Trace, in_graph: Ints, nodes: GraphNodes) -> Replays:
    """`in_graph` are the rows of GPU events that launches of graphs ran."""
    launch, start = trace.ints("launch"), trace.ints("start_ns")
    node, graph = np.zeros(len(trace), np.int64), np.full(len(trace), NONE, np.int64)
    node[nodes.rows], graph[nodes.rows] = nodes.node, nodes.graph
    order = np.lexsort((in_graph, start[in_graph], node[in_graph], start[launch[in_graph]], launch[in_graph]))
    rows = in_graph[order]
    groups = np.split(rows, np.flatnonzero(np.diff(launch[rows])) + 1) if len(rows) else []
    groups.sort(key=lambda own: (int(start[launch[own[0]]]), int(own[0])))
    names, lanes = trace.ints("name").astype(np.int64), trace.ints("stream")
    numbers: dict[bytes, int] = {}
    sequence = []
    for own in groups:
        key = names[own].tobytes() + lanes[own].tobytes()
        sequence.append(numbers.setdefault(key, len(numbers)))
    launches = np.array([launch[own[0]] for own in groups], np.int64)
    return Replays(
        launches,
        np.array(sequence, np.int64),
        groups,
        _batches(trace, launches),
        np.array([graph[own[0]] for own in groups], np.int64),
    )


def event_kinds(trace: Trace, rows: Ints) -> Ints:
    """Kinds of GPU events; ROCm copies and fills with kernels."""
    kinds: Ints = trace.ints("kind")[rows].astype(np.int64)
    names = trace.ints("name")[rows]
    for code in np.unique(names).tolist():
        for pattern, kind in ((ROCM_COPY, "memcpy"), (ROCM_FILL, "memset")):
            if pattern.match(trace.names[code]):
                kinds[names == code] = CODE[kind]
    return kinds


def _batches(trace: Trace, launches: Ints) -> Ints:
    is_annotation, names = trace.is_kind("annotation"), trace.ints("name")
    batch_of_name = np.full(len(trace.names), NONE, np.int64)
    for code in np.unique(names[is_annotation]).tolist():
        mark = parse_mark(trace.names[code])
        size = None if mark is None else mark.padded_batch or mark.batch
        batch_of_name[code] = NONE if size is None else min(size, 2**62)
    around = climb(launches, trace.ints("parent"), is_annotation & (batch_of_name[names] >= 0))
    return np.where(around >= 0, batch_of_name[names[np.maximum(around, 0)]], NONE)

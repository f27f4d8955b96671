"""Why no GPU works at a moment: the chain of nodes that the GPU event after an idle gap waited for, within that gap."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from warplens.analyses.graph.records import (
    EARLIER,
    HANDOVER,
    HOST,
    LAUNCH,
    QUEUE,
    STREAM,
    SYNC,
    WAIT,
    Floats,
    StepGraph,
)
from warplens.model.intervals import Union
from warplens.model.kinds import NONE
from warplens.model.trace import Ints

LATENCY: Final = "launch latency"
DEPENDENCY: Final = "dependency"
SYNCHRONISATION: Final = "synchronisation"
EARLIER_WORK: Final = "earlier work"
UNEXPLAINED: Final = "unexplained"
ON_HOST: Final = "host"
"""What the host does is told from its events."""
CAUSES: Final = {
    LATENCY: "from a launch call until its event starts on an idle stream, and the pause between two events",
    DEPENDENCY: "the next event waits for an event of another stream or GPU",
    SYNCHRONISATION: "the host waits for the GPU and then launches what comes next: nothing was launched ahead",
    EARLIER_WORK: "the first event of a stream waits for work from before the recording",
    UNEXPLAINED: "a wait that nothing recorded explains, as of processes that share a GPU",
}
"""Of idle time that is not the host's own work."""
CAUSE_OF_EDGE: Final = {
    LAUNCH: LATENCY,
    STREAM: LATENCY,
    WAIT: DEPENDENCY,
    SYNC: SYNCHRONISATION,
    QUEUE: SYNCHRONISATION,
    EARLIER: EARLIER_WORK,
}
LONG_PAUSE_NS: Final = 5_000_000
"""A host that is back from a synchronisation launches again within a few ms; a longer pause is its own work."""


class IdlePart(NamedTuple):
    """Part of an idle gap: its length, its cause, and of the host's time when that was in the recording."""

    gap: int
    cause: str
    time_ns: float
    row: int = NONE
    """The call that the host's time leads to, which says on which thread it was."""
    recorded_start_ns: float = 0.0
    recorded_end_ns: float = 0.0


def idle_parts(graph: StepGraph, times: Floats, lag_ns: Floats, gaps: Union, ended_by: Ints) -> list[IdlePart]:
    """The parts of each gap, whose lengths are the gap's; `ended_by` are the nodes that end the gaps."""
    deciding = deciding_edges(graph, times, lag_ns).tolist()
    source, kinds, rows = graph.source.tolist(), graph.edge_kind.tolist(), graph.row.tolist()
    reached, weight, residual = times.tolist(), graph.weight_ns.tolist(), graph.residual_ns.tolist()
    recorded, recorded_lag, opening = graph.recorded_ns.tolist(), graph.lag_ns.tolist(), graph.is_opening.tolist()
    parts: list[IdlePart] = []
    for gap, (begin, end, last) in enumerate(
        zip(gaps.starts.tolist(), gaps.ends.tolist(), ended_by.tolist(), strict=True)
    ):
        node, upper, of_gap = last, float(end), []
        while upper > begin:
            edge = deciding[node]
            begins = max(begin, min(upper, reached[node] - weight[node]))
            if begins < upper:  # work of a GPU that is not looked at
                of_gap.append(IdlePart(gap, DEPENDENCY, upper - begins))
                upper = begins
            if edge == NONE:
                of_gap.append(IdlePart(gap, ON_HOST, upper - begin))
                break
            held_until = max(begin, upper - max(0.0, residual[node]))
            if opening[node] and 2 * held_until < begin + upper:  # the GPU was busy, whatever the host did before
                held_until = begin
            if held_until < upper:
                of_gap.append(IdlePart(gap, EARLIER_WORK if opening[node] else UNEXPLAINED, upper - held_until))
            upper, before = held_until, reached[source[edge]]
            lower = min(upper, max(begin, before))
            if kinds[edge] in (HOST, HANDOVER):
                # The part of the way that is in the gap, and the same part of it as recorded.
                ended, length = recorded[node], recorded_lag[edge]
                scale = length / lag_ns[edge] if lag_ns[edge] > 0 else 0.0
                since, until = ended - scale * (reached[node] - lower), ended - scale * (reached[node] - upper)
                row = rows[node] if rows[node] >= 0 else rows[source[edge]]
                of_gap.append(IdlePart(gap, ON_HOST, upper - lower, row, since, until))
            else:
                of_gap.append(IdlePart(gap, CAUSE_OF_EDGE[kinds[edge]], upper - lower))
            node, upper = source[edge], lower
        parts += _with_synchronisation(of_gap)
    return [part for part in parts if part.time_ns > 0]


def _with_synchronisation(parts: list[IdlePart]) -> list[IdlePart]:
    """A gap that begins with the host's return from a wait for the GPU is the wait's: nothing was launched ahead."""
    after = sum(part.time_ns for part in parts if part.cause == ON_HOST)
    if after >= LONG_PAUSE_NS or all(part.cause != SYNCHRONISATION for part in parts):
        return parts
    return [part._replace(cause=SYNCHRONISATION) if part.cause == ON_HOST else part for part in parts]


def deciding_edges(graph: StepGraph, times: Floats, lag_ns: Floats) -> Ints:
    """Of each node the edge that held it up, -1 for none."""
    target, reached = graph.target, times[graph.source] + lag_ns
    latest = np.full(len(graph), -np.inf)
    np.maximum.at(latest, target, reached)
    deciding = np.full(len(graph), NONE, np.int64)
    edges = np.flatnonzero(reached >= latest[target])[::-1]  # of equal ones the first stays
    deciding[target[edges]] = edges
    return deciding

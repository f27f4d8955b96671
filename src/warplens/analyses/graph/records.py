"""`StepGraph`: the moments of some steps that matter and what each has to come after, as arrays."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from warplens.model.arrays import ranges
from warplens.model.intervals import Union, covered_until
from warplens.model.kinds import NONE
from warplens.model.trace import Bools, Ints

Floats = npt.NDArray[np.float64]

NODE_KINDS: Final = ("call", "return", "mark", "work")
CALL, RETURN, MARK, WORK = range(len(NODE_KINDS))
"""A call of the GPU's runtime begins (a launch, a copy, a synchronisation); a call that waits for the GPU returns; a
step begins on the host, or the last one ends; a GPU event ends."""

EDGE_KINDS: Final = ("host", "handover", "launch", "stream", "wait", "sync", "queue", "earlier")
HOST, HANDOVER, LAUNCH, STREAM, WAIT, SYNC, QUEUE, EARLIER = range(len(EDGE_KINDS))
"""Why a node comes after another: its thread reached it next; another thread had to end first; the event was launched
by that call; it is the next in its stream; it waits for an event of another stream; the call returns when that event
has ended; the launch waits until that event leaves room in the queue; work from before the graph held the event up."""
UNEXPLAINED_SHARE: Final = 0.05
"""From this share of the time on, waits that no edge explains make what is simulated doubtful."""
OPENING_NS: Final = 10_000_000
"""Of what is launched this soon after the first moment, the first in a stream may wait for work that ran before."""
ON_HOST: Final = (HOST, HANDOVER)


class StepGraph(msgspec.Struct, frozen=True, dict=True):
    """Nodes in an order in which each comes after all that it depends on; times in ns since the trace's start.

    A node's time is max(time of source + lag, over its edges) + residual + weight. With the recorded weights and lags
    that is the recorded time, exactly.
    """

    kind: Ints
    row: Ints
    """The event of the trace: a host call or a GPU event; -1 for a mark."""
    step: Ints
    """Of work the step that launched it, of a mark the step that begins; else -1."""
    recorded_ns: Floats
    """When the call began or returned, the step began, or the GPU event ended."""
    weight_ns: Floats
    """Duration of a GPU event, else 0."""
    residual_ns: Floats
    """A wait that no edge explains."""
    first_edge: Ints
    """Edges of node n: `first_edge[n]` up to `first_edge[n + 1]`."""
    source: Ints
    lag_ns: Floats
    host_ns: Floats
    """Per edge: the part of its lag in which the host was busy; the rest is latency of the GPU and its driver."""
    ops_ns: Floats
    """Per edge: how much of the host's part is inside recorded ops; what Python frames in it cost is added."""
    edge_kind: Ints
    fetches_ns: Union
    """When ops run that fetch a value to the host and wait for it."""
    is_earlier: Bools
    """Per node: whether it is work that was launched before the first step."""
    light_host_ns: Floats | None = None
    """Per edge: the host's part as steps recorded without ops have it, NaN where they have none; None without any."""
    light_note: str = ""

    def __len__(self) -> int:
        return len(self.kind)

    @cached_property
    def is_run(self) -> bool:
        """Of a trace without steps, whose marks are where all begins and ends."""
        steps = self.step[self.kind == MARK]
        return len(steps) < 2 or bool(steps[0] == NONE)

    @cached_property
    def is_work(self) -> Bools:
        is_work: Bools = self.kind == WORK
        return is_work

    @cached_property
    def unexplained_ns(self) -> float:
        """The waits that nothing explains, where they are so many that what is simulated is doubtful; else 0."""
        unexplained = float(self.residual_ns[~self.is_opening].sum())
        return unexplained if unexplained >= UNEXPLAINED_SHARE * self._span_ns else 0.0

    @cached_property
    def is_opening(self) -> Bools:
        """Work that is the first of its stream, launched when the recording began: what held it up ran before."""
        follows = np.zeros(len(self), bool)
        follows[self.target[self.edge_kind == STREAM]] = True
        is_launch = self.edge_kind == LAUNCH
        is_early = np.zeros(len(self), bool)
        begun = self.recorded_ns[self.kind != MARK].min(initial=np.inf)
        is_early[self.target[is_launch]] = self.recorded_ns[self.source[is_launch]] - begun < OPENING_NS
        is_opening: Bools = self.is_work & is_early & ~follows
        return is_opening

    @property
    def _span_ns(self) -> float:
        return float(np.ptp(self.recorded_ns)) if len(self) else 0.0

    @property
    def notes(self) -> tuple[str, ...]:
        """What a table that is made from the graph says of it."""
        notes = [self.light_note] if self.light_note else []
        opening, span = float(self.residual_ns[self.is_opening].sum()), self._span_ns
        if opening > UNEXPLAINED_SHARE * span:
            notes.append(
                f"{opening / 1e6:.2f} of {span / 1e6:.2f} ms pass before the first GPU event: "
                "the GPU was busy with work from before the recording"
            )
        if self.unexplained_ns:
            waits = f"{self.unexplained_ns / 1e6:.2f} of {span / 1e6:.2f} ms"
            notes.append(f"{waits} are waits that nothing recorded explains")
        return tuple(notes)

    @cached_property
    def target(self) -> Ints:
        """Per edge: the node that it leads to."""
        return np.repeat(np.arange(len(self)), np.diff(self.first_edge))

    @cached_property
    def call_of(self) -> Ints:
        """Of each node the call that launched it, -1 for none."""
        launches = np.flatnonzero(self.edge_kind == LAUNCH)
        call_of = np.full(len(self), NONE, np.int64)
        call_of[self.target[launches]] = self.source[launches]
        return call_of

    @cached_property
    def events_of_call(self) -> Ints:
        """Of each node how many GPU events it launched: one, or those of a graph."""
        return np.bincount(self.call_of[self.call_of != NONE], minlength=len(self)).astype(np.int64)

    @cached_property
    def place_in_call(self) -> Ints:
        """Of each GPU event its place among those of its call, by the time at which they ended."""
        launched = np.flatnonzero(self.call_of != NONE)
        order = launched[np.lexsort((self.recorded_ns[launched], self.call_of[launched]))]
        call = self.call_of[order]
        first = np.flatnonzero(np.append(True, call[1:] != call[:-1])) if len(order) else order
        place = np.zeros(len(self), np.int64)
        place[order] = np.arange(len(order)) - np.repeat(first, np.diff(np.append(first, len(order))))
        return place

    @cached_property
    def way_to(self) -> Ints:
        """Of each node the edge from the host's moment before it, -1 for none."""
        edges = np.flatnonzero(self.on_host)
        edge_of = np.full(len(self), NONE, np.int64)
        edge_of[self.target[edges]] = edges
        return edge_of

    def edges_to(self, nodes: Ints) -> Ints:
        """The edges that lead to some nodes."""
        return ranges(self.first_edge[nodes], self.first_edge[nodes + 1])

    def work_of(self, rows: Ints) -> Ints:
        """The nodes of some GPU events, in order."""
        ordered, nodes = self._work_by_row
        return np.sort(nodes[ranges(np.searchsorted(ordered, rows, "left"), np.searchsorted(ordered, rows, "right"))])

    @cached_property
    def _work_by_row(self) -> tuple[Ints, Ints]:
        """GPU events in order, and their nodes."""
        nodes = np.flatnonzero(self.is_work)
        nodes = nodes[np.argsort(self.row[nodes], kind="stable")]
        return self.row[nodes], nodes

    @cached_property
    def host_spans(self) -> tuple[Ints, Ints, Ints]:
        """The edges whose lag is time of the host, and from when to when that was, as recorded."""
        edges = np.flatnonzero(self.on_host)
        end = self.recorded_ns[self.target[edges]]
        return edges, (end - self.lag_ns[edges]).astype(np.int64), end.astype(np.int64)

    def host_time_inside(self, plain_host_ns: Floats, removed: Union) -> tuple[Ints, Floats]:
        """The edges of the host, and how much of each one's time without the profiler is within some ranges of time, as
        recorded."""
        edges, start, end = self.host_spans
        inside = covered_until(removed, end) - covered_until(removed, start)
        share = np.divide(plain_host_ns, self.host_ns, out=np.zeros(len(self.lag_ns)), where=self.host_ns > 0)
        time_ns: Floats = share[edges] * inside
        return edges, time_ns

    @cached_property
    def on_host(self) -> Bools:
        """Per edge: whether its lag is time of the host between two moments."""
        return np.isin(self.edge_kind, ON_HOST)

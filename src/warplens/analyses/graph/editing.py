"""Edits of a step as new weights and lags of its graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field

import numpy as np

from warplens.analyses.graph.records import CALL, LAUNCH, MARK, STREAM, SYNC, Floats, StepGraph
from warplens.analyses.graph.simulating import simulate, simulate_many, step_ns, steps_ns
from warplens.model.arrays import numbered
from warplens.model.edits import (
    CaptureGraph,
    Edit,
    FuseWork,
    RemoveHostTime,
    RemoveWaits,
    ReplaceWork,
    ScaleHost,
    ScaleWork,
    WorkOfRows,
)
from warplens.model.intervals import EMPTY, Union, covers, subtract, union
from warplens.model.kinds import NONE
from warplens.model.trace import Bools, Ints

Members = Callable[[WorkOfRows], Ints]
"""The GPU events, as rows of the trace in order, that belong to some rows of a table."""
Launches = tuple[Ints, Ints]
"""The edges on which the host makes the launches of some GPU events, and those on which it gets to them."""


class KnownWork:
    """What was found out of some rows: a change is simulated with three costs of recording, each time anew."""

    def __init__(self) -> None:
        self.nodes: dict[WorkOfRows, Ints] = {}
        self.launches: dict[WorkOfRows, Launches] = {}


@dataclass
class EditedGraph:
    """Weights and lags of a graph's copy, while edits are made to it."""

    graph: StepGraph
    members: Members
    plain_host_ns: Floats
    """Per edge: the host's part of its lag without the recording."""
    known: KnownWork = field(default_factory=KnownWork, repr=False)
    """Shared by the copies of one graph."""
    weight_ns: Floats = field(init=False)
    whole_ns: Floats = field(init=False)
    """The weights without what only makes kernels faster: what a kernel that takes their place is a share of."""
    is_replaced: Bools = field(init=False)
    """Per node: whether it is another kernel by now, or gone: what makes the old one faster does nothing to it."""
    host_ns: Floats = field(init=False)
    """Per edge: the host's part of its lag."""
    latency_ns: Floats = field(init=False)
    """Per edge: the rest of it."""
    removed: Union = EMPTY
    """When the host's time is gone, as recorded."""

    def __post_init__(self) -> None:
        self.weight_ns, self.whole_ns = self.graph.weight_ns.copy(), self.graph.weight_ns.copy()
        self.is_replaced = np.zeros(len(self.graph), bool)
        self.host_ns = self.plain_host_ns.copy()
        self.latency_ns = self.graph.lag_ns - self.graph.host_ns

    def with_edits(self, edits: Iterable[Edit]) -> EditedGraph:
        """A copy of it with more edits."""
        other = copy(self)
        arrays = (self.weight_ns, self.whole_ns, self.host_ns, self.latency_ns)
        other.weight_ns, other.whole_ns, other.host_ns, other.latency_ns = (array.copy() for array in arrays)
        other.is_replaced = self.is_replaced.copy()
        for edit in edits:
            other.apply(edit)
        return other

    @property
    def lag_ns(self) -> Floats:
        return self.host_ns + self.latency_ns

    def step_ns(self) -> float:
        return step_ns(self.graph, simulate(self.graph, self.weight_ns, self.lag_ns))

    def apply(self, edit: Edit) -> None:
        match edit:
            case ScaleWork():
                self._scale_work(edit)
            case FuseWork():
                self._fuse(self._chosen(edit.work), edit)
            case ReplaceWork():
                self._replace(self._chosen(edit.work), edit)
            case RemoveWaits():
                self._remove_waits(edit)
            case RemoveHostTime():
                self._remove_host_time(union(*np.array(edit.ranges_ns, np.int64).reshape(-1, 2).T))
            case ScaleHost():
                self.host_ns *= edit.factor
            case CaptureGraph():
                self._capture(edit)

    def _chosen(self, work: WorkOfRows) -> Ints:
        """The nodes of these rows, in the order of their launches."""
        if work not in self.known.nodes:
            nodes = self.graph.work_of(self.members(work))
            self.known.nodes[work] = nodes[np.argsort(self.graph.call_of[nodes], kind="stable")]
        return self.known.nodes[work]

    def _scale_work(self, edit: ScaleWork) -> None:
        nodes = self._chosen(edit.work)
        self.weight_ns[nodes[~self.is_replaced[nodes]]] *= edit.factor
        if edit.with_host:
            if edit.work not in self.known.launches:
                self.known.launches[edit.work] = self._launches_of(nodes)
            self._scale_launches(self.known.launches[edit.work], edit.factor)

    def _scale_launches(self, launches: Launches, factor: float) -> None:
        """The host's time on the way to the launches of GPU events, and in them."""
        for edges in launches:
            self.host_ns[edges] *= factor

    def _launches_of(self, nodes: Ints) -> Launches:
        graph = self.graph
        edges = graph.edges_to(nodes)
        launched = graph.call_of[nodes]
        # The launch of a graph is still needed for those of its events that stay as they are.
        whole = graph.events_of_call == np.bincount(launched[launched != NONE], minlength=len(graph.events_of_call))
        edges = edges[graph.edge_kind[edges] == LAUNCH]
        caller = graph.call_of[graph.target[edges]]
        calls = numbered(launched[launched != NONE])[0]
        ways = graph.way_to[calls[whole[calls]]]
        return edges[(caller == NONE) | whole[caller]], ways[ways != NONE]

    def _remove(self, nodes: Ints) -> None:
        """GPU events with their launches."""
        self._scale_launches(self._launches_of(nodes), 0.0)
        self._remove_from_gpu(nodes)

    def _remove_from_gpu(self, nodes: Ints) -> None:
        self._set(nodes, -self.graph.residual_ns[nodes])
        self.latency_ns[self.graph.edges_to(nodes)] = 0.0

    def _set(self, nodes: Ints, weight_ns: Floats) -> None:
        """Other kernels, or none, in the place of those nodes."""
        self.weight_ns[nodes] = self.whole_ns[nodes] = weight_ns
        self.is_replaced[nodes] = True

    def _fuse(self, nodes: Ints, edit: FuseWork) -> None:
        if len(nodes) == 0:
            return
        number = np.cumsum(self.graph.kind == CALL)[self.graph.call_of[nodes]]
        follows = np.append(False, np.diff(number) <= 1)
        # Events of one call, the launch of a graph, follow each other where no other event of it is between them.
        call, place = self.graph.call_of[nodes], self.graph.place_in_call[nodes]
        in_one_call = np.append(False, (call[1:] == call[:-1]) & (call[1:] != NONE))
        follows &= ~in_one_call | (np.diff(place, prepend=0) == 1)
        run = np.cumsum(~follows) - 1
        total: Floats = np.bincount(run, self.whole_ns[nodes]).astype(np.float64)
        place_in_run = np.arange(len(nodes)) - np.flatnonzero(~follows)[run]
        self._scale_launches(self._launches_of(nodes[place_in_run >= edit.calls]), 0.0)
        self._remove_from_gpu(nodes[follows])
        self._set(nodes[~follows], edit.factor * total)

    def _replace(self, nodes: Ints, edit: ReplaceWork) -> None:
        for step in np.unique(self.graph.step[nodes]).tolist():
            own = nodes[self.graph.step[nodes] == step]
            kept = own[np.unique(np.linspace(0, len(own) - 1, edit.launches).astype(np.int64))]
            total = float(self.whole_ns[own].sum())
            self._remove(np.setdiff1d(own, kept))
            self._set(kept, np.full(len(kept), edit.factor * total / len(kept)))

    def _remove_waits(self, edit: RemoveWaits) -> None:
        graph = self.graph
        waits = graph.edge_kind == SYNC
        if edit.only_copies:
            call = self.graph.call_of[graph.source]
            waits &= (call != NONE) & (graph.row[call] == graph.row[graph.target])
        self.latency_ns[waits] = -np.inf
        if not edit.only_copies:
            self._remove_fetches()

    def _remove_fetches(self) -> None:
        """Ops that fetch a value go, with what they launch: the value stays on the GPU."""
        graph = self.graph
        calls = np.flatnonzero(graph.kind == CALL)
        fetching = calls[covers(graph.fetches_ns, graph.recorded_ns[calls].astype(np.int64))]
        self._remove(np.flatnonzero(graph.is_work & np.isin(self.graph.call_of, fetching)))
        self._remove_host_time(graph.fetches_ns)

    def _remove_host_time(self, removed: Union) -> None:
        """Time that an earlier edit has removed is gone already."""
        edges, time_ns = self.graph.host_time_inside(self.plain_host_ns, subtract(removed, self.removed))
        self.host_ns[edges] -= np.minimum(self.host_ns[edges], time_ns)
        self.removed = union(*(np.concatenate(ends) for ends in zip(self.removed, removed, strict=True)))

    def _capture(self, edit: CaptureGraph) -> None:
        """The host's time goes, and what is left between kernels is the pause inside a graph."""
        for weights in (self.weight_ns, self.whole_ns):
            weights[self.graph.is_work] *= edit.factor
        graph = self.graph
        is_launch = graph.edge_kind == LAUNCH
        # What a run does before its first call and after its last one is no part of any graph.
        frames_run = ((graph.kind[graph.source] == MARK) | (graph.kind[graph.target] == MARK)) & graph.is_run
        self.host_ns[(graph.on_host & ~frames_run) | is_launch] = 0.0
        on_gpu = is_launch | (self.graph.edge_kind == STREAM)
        self.latency_ns[on_gpu] = np.minimum(self.latency_ns[on_gpu], edit.pause_ns)


def steps_of(graph: StepGraph, edited: Sequence[EditedGraph]) -> Floats:
    """Times of the step in ns, of several edited copies of a graph that are simulated at once."""
    weights = np.stack([each.weight_ns for each in edited], axis=1)
    lags = np.empty((len(graph.lag_ns), len(edited)))
    for column, each in enumerate(edited):
        np.add(each.host_ns, each.latency_ns, out=lags[:, column])
    return steps_ns(graph, simulate_many(graph, weights, lags))

"""Edits of a step as new weights and lags of its graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from warplens.analyses.graph.records import HANDOVER, HOST, LAUNCH, STREAM, Floats, StepGraph
from warplens.analyses.graph.simulating import simulate, step_ns
from warplens.model.edits import CaptureGraph, Edit, ScaleHost, ScaleWork, WorkOfRows
from warplens.model.kinds import NONE
from warplens.model.trace import Bools, Ints

GRAPH_PAUSE_NS: Final = 450.0
"""Between two kernels of a CUDA graph: the median of 2,800 pauses on an H200 was 420 to 450 ns."""

Members = Callable[[WorkOfRows], Bools]
"""Which GPU events of the trace, by their row, belong to some rows of a table."""


@dataclass
class EditedGraph:
    """Weights and lags of a graph's copy, while edits are made to it."""

    graph: StepGraph
    members: Members
    host_factor: float
    weight_ns: Floats = field(init=False)
    host_ns: Floats = field(init=False)
    """Per edge: the host's part of its lag."""
    latency_ns: Floats = field(init=False)
    """Per edge: the rest of it."""

    def __post_init__(self) -> None:
        self.weight_ns = self.graph.weight_ns.copy()
        self.host_ns = self.graph.host_ns * self.host_factor
        self.latency_ns = self.graph.lag_ns - self.graph.host_ns

    def step_ns(self) -> float:
        return step_ns(self.graph, simulate(self.graph, self.weight_ns, self.host_ns + self.latency_ns))

    def apply(self, edit: Edit) -> None:
        if isinstance(edit, ScaleWork):
            self._scale_work(edit)
        elif isinstance(edit, ScaleHost):
            self.host_ns *= edit.factor
        elif isinstance(edit, CaptureGraph):
            self._capture()

    def _scale_work(self, edit: ScaleWork) -> None:
        graph = self.graph
        is_member = graph.is_work & self.members(edit.work)[graph.row]
        self.weight_ns[is_member] *= edit.factor
        if edit.with_host:
            launches = np.flatnonzero(is_member[graph.target] & (graph.edge_kind == LAUNCH))
            calls = np.unique(graph.source[launches])
            before = self._host_edges()[calls]
            self.host_ns[launches] *= edit.factor
            self.host_ns[before[before != NONE]] *= edit.factor

    def _host_edges(self) -> Ints:
        """Of each node the edge from the host's moment before it, -1 for none."""
        edges = np.flatnonzero(self.graph.on_host)
        edge_of = np.full(len(self.graph), NONE, np.int64)
        edge_of[self.graph.target[edges]] = edges
        return edge_of

    def _capture(self) -> None:
        """The host's time goes, and what is left between kernels is the pause inside a graph."""
        kind = self.graph.edge_kind
        self.host_ns[np.isin(kind, (HOST, HANDOVER, LAUNCH))] = 0.0
        on_gpu = np.isin(kind, (STREAM, LAUNCH))
        self.latency_ns[on_gpu] = np.minimum(self.latency_ns[on_gpu], GRAPH_PAUSE_NS)

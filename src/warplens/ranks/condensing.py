"""A rank's step graph, reduced to the moments that ranks share.

Moments are: a step begins on the host; a collective could begin (arrival); it has ended; the last GPU event of a step
in a stream has ended. A way leads from a moment to a later one and has the length of the longest path between them
that passes no other moment, split into the host's part and the GPU's. A moment's time is the latest over its ways,
time of source + length; an end is reached from its arrival, through the meeting of all ranks of the collective.
Of each moment the `MOST_WAYS` latest ways are kept.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import polars as pl

from warplens.analyses.graph.building import graph_of, has_graph
from warplens.analyses.graph.records import MARK, StepGraph
from warplens.analyses.work.comm import described_collectives
from warplens.analyses.workspace import Workspace
from warplens.model.kinds import NONE
from warplens.model.trace import Bools, Ints
from warplens.ranks.records import FRAMES

MOMENT_KINDS: Final = ("origin", "mark", "arrival", "end", "done")
ORIGIN, MARK_MOMENT, ARRIVAL, END, DONE = range(len(MOMENT_KINDS))
MOST_WAYS: Final = 4

Path = tuple[float, float, float]
"""Length of a path, the host's part of it, and the GPU's."""
Paths = dict[int, Path]
"""By the moment that it comes from."""


class Moment(NamedTuple):
    kind: int
    step: int
    id: int
    recorded_ns: int


def condensed(work: Workspace) -> dict[str, pl.DataFrame]:
    """The frames `moments` and `ways`; empty where the trace does not record launches."""
    if not has_graph(work):
        return {name: pl.DataFrame(schema=FRAMES[name]) for name in ("moments", "ways")}
    graph = graph_of(work)
    is_collective = np.zeros(len(work.trace), bool)
    is_collective[described_collectives(work)["id"].to_numpy()] = True
    reduction = _Reduction(graph, is_collective, work.trace.meta.origin_ns, work.trace.ints("stream"))
    reduction.run()
    return reduction.frames()


class _Reduction:
    def __init__(self, graph: StepGraph, is_collective: Bools, origin_ns: int, streams: Ints) -> None:
        self._graph = graph
        self._origin_ns = origin_ns
        self.moments: list[Moment] = [Moment(ORIGIN, NONE, NONE, origin_ns)]
        self.ways: list[tuple[int, int, int, int, int]] = []
        self._is_collective = graph.is_work & is_collective[np.maximum(graph.row, 0)] & (graph.row >= 0)
        self._is_last = _last_of_steps(graph, streams)

    def run(self) -> None:
        """Plain lists: nodes depend on each other in one long chain, which numpy cannot shorten."""
        graph = self._graph
        paths: list[Paths] = []
        lags, hosts = graph.lag_ns.tolist(), graph.host_ns.tolist()
        sources, weights = graph.source.tolist(), graph.weight_ns.tolist()
        residuals, recorded = graph.residual_ns.tolist(), graph.recorded_ns.tolist()
        is_mark, is_collective = ((graph.kind == MARK) & ~np.bool_(graph.is_run)).tolist(), self._is_collective.tolist()
        is_last = self._is_last.tolist()
        begin = 0
        for node, end in enumerate(graph.first_edge[1:].tolist()):
            weight, residual = weights[node], residuals[node]
            own = 0.0 if is_mark[node] or is_collective[node] else weight
            if begin == end:
                arrived: Paths = {0: (recorded[node] - weight + own, 0.0, own)}
            elif begin + 1 == end:
                lag, busy = lags[begin] + residual + own, hosts[begin]
                arrived = {
                    moment: (length + lag, host + busy, gpu + own)
                    for moment, (length, host, gpu) in paths[sources[begin]].items()
                }
            else:
                arrived = _arrived(paths, sources, lags, hosts, range(begin, end), residual, own)
                if len(arrived) > MOST_WAYS:
                    arrived = self._latest(arrived)
            begin = end
            if is_mark[node]:
                arrived = self._moment(MARK_MOMENT, node, recorded[node], arrived)
            elif is_collective[node]:
                self._moment(ARRIVAL, node, recorded[node] - weight, arrived)
                self.moments.append(self._described(END, node, recorded[node]))
                arrived = {len(self.moments) - 1: (0.0, 0.0, 0.0)}
            if is_last[node] and not is_collective[node]:
                self._moment(DONE, node, recorded[node], arrived)
            paths.append(arrived)

    def _moment(self, kind: int, node: int, recorded_ns: float, arrived: Paths) -> Paths:
        """A new moment that these paths lead to; the path from it to itself."""
        self.moments.append(self._described(kind, node, recorded_ns))
        target = len(self.moments) - 1
        self.ways += [
            (target, source, round(length), round(host), round(gpu))
            for source, (length, host, gpu) in self._latest(arrived).items()
        ]
        return {target: (0.0, 0.0, 0.0)}

    def _described(self, kind: int, node: int, recorded_ns: float) -> Moment:
        graph = self._graph
        return Moment(kind, int(graph.step[node]), int(graph.row[node]), self._origin_ns + round(recorded_ns))

    def _latest(self, paths: Paths) -> Paths:
        def reached(item: tuple[int, Path]) -> float:
            return self.moments[item[0]].recorded_ns + item[1][0]

        return dict(sorted(paths.items(), key=reached, reverse=True)[:MOST_WAYS])

    def frames(self) -> dict[str, pl.DataFrame]:
        moments = [tuple(moment) for moment in self.moments]
        return {
            "moments": pl.DataFrame(moments, schema=FRAMES["moments"], orient="row"),
            "ways": pl.DataFrame(self.ways, schema=FRAMES["ways"], orient="row"),
        }


def _arrived(
    paths: list[Paths],
    sources: list[int],
    lags: list[float],
    hosts: list[float],
    edges: range,
    residual: float,
    weight: float,
) -> Paths:
    """The longest path from each moment over these edges, to the end of the node's own work of this length."""
    arrived: Paths = {}
    for edge in edges:
        lag, busy = lags[edge] + residual + weight, hosts[edge]
        for moment, (length, host, gpu) in paths[sources[edge]].items():
            known = arrived.get(moment)
            if known is None or length + lag > known[0]:
                arrived[moment] = (length + lag, host + busy, gpu + weight)
    return arrived


def _last_of_steps(graph: StepGraph, streams: Ints) -> Bools:
    """The work that ends last in each step and stream."""
    work = np.flatnonzero(graph.is_work & (graph.step >= 0))
    order = work[np.argsort(graph.recorded_ns[work], kind="stable")]
    names, stream = np.unique(streams[graph.row[order]], return_inverse=True)
    key = graph.step[order] * (len(names) + 1) + stream.ravel()
    _, last = np.unique(key[::-1], return_index=True)
    is_last = np.zeros(len(graph), bool)
    is_last[order[::-1][last]] = True
    return is_last

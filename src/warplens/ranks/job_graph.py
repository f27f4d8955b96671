"""The graphs of all ranks as one: each collective is a meeting that ends for everyone after the last has come."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from warplens.analyses.graph.records import Floats
from warplens.model.kinds import NONE
from warplens.model.trace import Ints
from warplens.ranks.condensing import END, MARK_MOMENT
from warplens.ranks.job import Job
from warplens.ranks.job_plan import Plan, plan
from warplens.ranks.labels import labels

EARLY_NS: Final = 2_000
"""A rank that leaves a collective so long before the last one has come did not wait for it."""


@dataclass(frozen=True)
class JobGraph:
    """Moments of all ranks and the ways between them; see condensing.py. Times in ns since the job's first moment."""

    rank: Ints
    kind: Ints
    step: Ints
    id: Ints
    recorded_ns: Floats
    first_way: Ints
    """Ways of moment m: `first_way[m]` up to `first_way[m + 1]`."""
    source: Ints
    length_ns: Floats
    host_ns: Floats
    gpu_ns: Floats
    match: Ints
    """Of an end: the collective, -1 where its rank meets nobody."""
    transfer_ns: Floats
    """Of an end: how long after the last arrival (of its own rank, where it meets nobody) it comes."""
    others_ns: Floats
    """Of an end: when the last of those ranks came whose moments are not here; -inf where there is none."""
    plan: Plan
    """In which order moments are computed; edits of lengths and transfers leave it as it is."""
    label: Ints
    """Moments of ranks with the same number are the same moment of the program."""

    def __len__(self) -> int:
        return len(self.rank)

    @cached_property
    def target(self) -> Ints:
        """Per way: the moment that it leads to."""
        return np.repeat(np.arange(len(self)), np.diff(self.first_way))

    @property
    def order(self) -> Ints:
        """All moments, each after everything that it depends on."""
        return self.plan.order

    def alone(self) -> JobGraph:
        """The same ranks, none of which ever waits for another."""
        match = np.full(len(self), NONE)
        return replace(self, match=match, transfer_ns=np.maximum(self.transfer_ns, 0.0),
                       others_ns=np.full(len(self), -np.inf),
                       plan=plan(self.first_way, self.source, self.kind, match))  # fmt: skip

    def with_lengths(self, length_ns: Floats) -> JobGraph:
        return replace(self, length_ns=length_ns)

    @cached_property
    def steps(self) -> list[int]:
        """The steps that all ranks recorded."""
        marked = (self.kind == MARK_MOMENT) & (self.step != NONE)
        marks = np.unique(np.column_stack([self.step[marked], self.rank[marked]]), axis=0)
        steps, ranks = np.unique(marks[:, 0], return_counts=True)
        return [int(step) for step in steps[ranks == len(np.unique(self.rank))]]


@dataclass(frozen=True)
class Simulated:
    """When every moment of a graph is reached, and by which way: what of the path to it is host, GPU and transfer."""

    graph: JobGraph
    nodes_ns: Floats
    """Times of moments, and of meetings after them."""

    @property
    def times(self) -> Floats:
        return self.nodes_ns[: len(self.graph)]

    @cached_property
    def _link(self) -> Ints:
        graph = self.graph
        return graph.plan.binding(self.nodes_ns, graph.plan.lengths(graph.length_ns, graph.transfer_ns))

    @cached_property
    def binding(self) -> Ints:
        """The moment that each one had to wait for longest; -1 for none."""
        node_plan = self.graph.plan
        before = np.where(self._link >= 0, node_plan.source[self._link], NONE) if len(node_plan.source) else self._link
        binding: Ints = before[: len(self.graph)].copy()
        binding[node_plan.ends] = before[node_plan.meeting]
        return binding

    @cached_property
    def host_ns(self) -> Floats:
        return self._summed(self.graph.host_ns, np.zeros(len(self.graph)))

    @cached_property
    def gpu_ns(self) -> Floats:
        return self._summed(self.graph.gpu_ns, np.zeros(len(self.graph)))

    @cached_property
    def transfer_ns(self) -> Floats:
        return self._summed(np.zeros(len(self.graph.length_ns)), self.graph.transfer_ns)

    def _summed(self, of_ways: Floats, of_ends: Floats) -> Floats:
        node_plan = self.graph.plan
        return node_plan.summed(self._link, node_plan.lengths(of_ways, of_ends))[: len(self.graph)]


def simulate(graph: JobGraph) -> Simulated:
    """When every moment is reached with the graph's lengths and transfers."""
    node_plan = graph.plan
    meetings = len(node_plan.level) - len(graph)
    least = np.full(len(node_plan.level), -np.inf)
    np.maximum.at(least, node_plan.meeting, graph.others_ns[node_plan.ends])
    begun = np.append(graph.recorded_ns, np.zeros(meetings))
    lengths = node_plan.lengths(graph.length_ns, graph.transfer_ns)
    return Simulated(graph, node_plan.times(begun, lengths, least))


def job_graph(job: Job) -> JobGraph:
    """The graphs of all ranks, joined where their collectives meet."""
    parts = [_rank_part(job, position) for position in range(len(job.digests))]
    moments = pl.concat([part[0] for part in parts])
    sizes = np.cumsum([0, *(part[0].height for part in parts)])
    ways = pl.concat([
        part[1].with_columns((pl.col("target") + first).alias("target"), (pl.col("source") + first).alias("source"))
        for part, first in zip(parts, sizes[:-1].tolist(), strict=True)
    ]).sort("target", maintain_order=True)  # fmt: skip
    counts = np.bincount(ways["target"].to_numpy(), minlength=len(moments))
    recorded = (moments["recorded_ns"].to_numpy() - job.origin_ns).astype(np.float64)
    ends = _ends(job, moments, recorded)
    lengths = ways.select(pl.col("length_ns", "host_ns", "gpu_ns").cast(pl.Float64))
    length = lengths["length_ns"].to_numpy().copy()
    first_way, source = np.append(0, np.cumsum(counts)), ways["source"].to_numpy().astype(np.int64)
    kind = moments["kind"].to_numpy().astype(np.int64)
    return JobGraph(
        rank=moments["rank"].to_numpy().astype(np.int64),
        kind=kind,
        step=moments["step"].to_numpy(),
        id=moments["id"].to_numpy(),
        recorded_ns=recorded,
        first_way=first_way,
        source=source,
        length_ns=length,
        host_ns=lengths["host_ns"].to_numpy(),
        gpu_ns=lengths["gpu_ns"].to_numpy(),
        match=ends.match,
        transfer_ns=ends.transfer_ns,
        others_ns=ends.others_ns,
        plan=plan(first_way, source, kind, ends.match),
        label=labels(job, moments),
    )


class _Ends(NamedTuple):
    """See the fields of the same names of `JobGraph`."""

    match: Ints
    transfer_ns: Floats
    others_ns: Floats


def _rank_part(job: Job, position: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    frames = job.digests[position].frames
    moments = frames["moments"]
    rank = np.full(len(moments), position)
    corrected = job.clocks.corrected(rank, moments["recorded_ns"].to_numpy())
    ways = frames["ways"].with_columns(pl.col("target", "source").cast(pl.Int64))
    drift = float(job.clocks.drift[position])
    if drift:  # lengths are of the rank's own clock
        ways = ways.with_columns(pl.Series("length_ns", _on_clock(ways, corrected, drift)))
    return moments.with_columns(pl.Series("recorded_ns", corrected), pl.Series("rank", rank)), ways


def _on_clock(ways: pl.DataFrame, recorded: Ints, drift: float) -> Ints:
    """Lengths on the job's clock, to the ns such that the latest way of each moment reaches it when it was recorded."""
    source, target = ways["source"].to_numpy(), ways["target"].to_numpy()
    length = np.round(ways["length_ns"].to_numpy() * (1 - drift)).astype(np.int64)
    reached = np.full(len(recorded), np.iinfo(np.int64).min)
    np.maximum.at(reached, target, recorded[source] + length)
    adjusted: Ints = length + (recorded - reached)[target]
    return adjusted


def _ends(job: Job, moments: pl.DataFrame, recorded: Floats) -> _Ends:
    """Of each end its collective, its transfer, and the last arrival of ranks that are not in the graph."""
    count = len(moments)
    match, transfer, others = np.full(count, NONE), np.zeros(count), np.full(count, -np.inf)
    ends = np.flatnonzero(moments["kind"].to_numpy() == END)
    calls = job.calls.select("rank", "id", "match", "last_start_ns", "start_ns")
    own = moments[ends].select(pl.col("rank").cast(pl.Int32), "id").with_columns(pl.Series("moment", ends))
    joined = own.join(calls, on=["rank", "id"], how="left", maintain_order="left")
    last = joined["last_start_ns"].fill_null(0).to_numpy() - job.origin_ns
    number = joined["match"].fill_null(NONE).to_numpy()
    meets = (number >= 0) & (recorded[ends] >= last - EARLY_NS)
    match[ends[meets]] = number[meets]
    transfer[ends] = recorded[ends] - np.where(meets, last, recorded[ends - 1])
    present = joined.filter(pl.Series(meets)).group_by("match").agg(pl.col("start_ns").max().alias("here_ns"))
    here = joined.join(present, on="match", how="left", maintain_order="left")["here_ns"].fill_null(0).to_numpy()
    is_absent = meets & (here - job.origin_ns < last)
    others[ends[is_absent]] = last[is_absent].astype(np.float64)
    return _Ends(match, transfer, others)


def step_ends(simulated: Simulated) -> Floats:
    """When each step (columns) is done on each rank (rows): its last GPU event, or the mark that follows it."""
    return simulated.times[last_moments(simulated)]


def last_moments(simulated: Simulated) -> Ints:
    """The moments at which each rank (rows) is done with each step (columns)."""
    graph, times = simulated.graph, simulated.times
    ranks, steps = np.unique(graph.rank), graph.steps
    frame = pl.DataFrame(
        {"rank": graph.rank, "step": _ended_step(graph), "time": times, "moment": np.arange(len(graph))}
    )
    last = frame.filter(pl.col("step").is_in(steps)).group_by("rank", "step").agg(
        pl.col("moment").sort_by("time").last()
    )  # fmt: skip
    grid = np.zeros((len(ranks), len(steps)), np.int64)
    row = np.searchsorted(ranks, last["rank"].to_numpy())
    column = np.searchsorted(steps, last["step"].to_numpy())
    grid[row, column] = last["moment"].to_numpy()
    return grid


def _ended_step(graph: JobGraph) -> Ints:
    """The step that a moment is a part of; a mark ends the step before the one that it begins."""
    step: Ints = graph.step.copy()
    marks = np.flatnonzero(graph.kind == MARK_MOMENT)
    for rank in np.unique(graph.rank).tolist():
        own = marks[graph.rank[marks] == rank]
        step[own] = np.append(NONE, graph.step[own])[:-1]
    return step


def first_marks(simulated: Simulated) -> Floats:
    """When the first of the common steps begins on each rank."""
    graph = simulated.graph
    first = (graph.kind == MARK_MOMENT) & (graph.step == graph.steps[0])
    begun = np.zeros(len(np.unique(graph.rank)))
    begun[np.searchsorted(np.unique(graph.rank), graph.rank[first])] = simulated.times[first]
    return begun


def step_lengths(simulated: Simulated) -> Floats:
    """How long each step of each rank took: from the end of the one before it; the first from its begin."""
    ends = step_ends(simulated)
    return np.diff(np.column_stack([first_marks(simulated), ends]), axis=1)


def job_step_lengths(simulated: Simulated) -> Floats:
    """How long each step of the job took: until its last rank was done."""
    ends = step_ends(simulated).max(axis=0, initial=0.0)
    begun = first_marks(simulated).min(initial=np.inf)
    return np.diff(np.append(begun, ends))

"""`what_if`: how long a step would take with some changes, one by one and all together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import polars as pl

from warplens.analyses.graph.building import NO_GRAPH, graph_of, has_graph
from warplens.analyses.graph.editing import EditedGraph, Members
from warplens.analyses.graph.host_scale import host_scale
from warplens.analyses.workspace import Workspace
from warplens.model.edits import Change
from warplens.model.table import Column, Table

COLUMNS = (
    Column("fixes", "the changes; empty for the step as it is", "", pl.String),
    Column("step_ms", "time of a step without the profiler; of the trace where no steps are marked", "ms", pl.Float64),
    Column("gain_ms", "what the changes win", "ms", pl.Float64),
    Column("low_ms", "the least that they win, by what is not known of the profiler's cost", "ms", pl.Float64),
    Column("high_ms", "the most", "ms", pl.Float64),
)
MEANING: Final = "one row per change, and one for all of them"


class Gain(NamedTuple):
    """A step with some changes, and what they win: expected, at least, at most."""

    step_ms: float
    gain_ms: float
    low_ms: float
    high_ms: float


def what_if(work: Workspace, changes: Sequence[Change], members: Members) -> Table:
    if not has_graph(work):
        return Table.from_rows("what_if", MEANING, COLUMNS, [], NO_GRAPH)
    chosen: list[tuple[Change, ...]] = [(), *((change,) for change in changes)]
    if len(changes) > 1:
        chosen.append(tuple(changes))
    rows = [("; ".join(change.name for change in some), *simulated_gain(work, some, members)) for some in chosen]
    return Table.from_rows("what_if", MEANING, COLUMNS, rows, host_scale(work).note)


def simulated_gain(work: Workspace, changes: Sequence[Change], members: Members) -> Gain:
    """What these changes win together, with the host as fast as expected, and as fast and as slow as it may be."""
    graph, scale = graph_of(work), host_scale(work)
    steps, gains = [], []
    for factor in (scale.factor, scale.low, scale.high):
        edited = EditedGraph(graph, members, factor)
        before = edited.step_ns() / 1e6
        for change in changes:
            for edit in change.edits:
                edited.apply(edit)
        steps.append(edited.step_ns() / 1e6)
        gains.append(before - steps[-1])
    return Gain(steps[0], gains[0], min(gains), max(gains))

"""`what_if`: how long a step would take with some changes, one by one and all together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import hypot
from typing import Final, NamedTuple

import polars as pl

from warplens.analyses.graph.bounds import plain_step_ns
from warplens.analyses.graph.building import NO_GRAPH, graph_of, has_graph
from warplens.analyses.graph.editing import EditedGraph, Members
from warplens.analyses.graph.recording_cost import RecordingCost, plain_host, recording_cost
from warplens.analyses.graph.records import StepGraph
from warplens.analyses.workspace import Workspace
from warplens.model.edits import Edit, StepChange, with_saving
from warplens.model.table import Column, Table

COLUMNS = (
    Column("fixes", "the changes; empty for the step as it is", "", pl.String),
    Column("step_ms", "time of a step without the profiler; of the trace where no steps are marked", "ms", pl.Float64),
    Column("gain_ms", "what the changes win", "ms", pl.Float64),
    Column("low_ms", "the least that they are expected to win", "ms", pl.Float64),
    Column("high_ms", "the most", "ms", pl.Float64),
)
SHARE_OF_GAIN: Final = 0.2
SHARE_OF_STEP: Final = 0.025
"""What a simulated gain is off by besides: edits are simpler than changes of a program, and steps differ."""
MEANING: Final = "one row per set of changes, the first without any"


class Gain(NamedTuple):
    """A step with some edits, and what they win of the step without them: expected, at least, at most."""

    step_ms: float
    gain_ms: float
    low_ms: float
    high_ms: float


@dataclass(frozen=True)
class StepModel:
    """The graph of a trace's steps, what recording costs, and which GPU events the rows of tables stand for."""

    graph: StepGraph
    cost: RecordingCost
    members: Members
    _plain_ms: dict[float, float] = field(default_factory=dict, repr=False)
    """The step without edits, by the cost of a record."""

    @property
    def step_ms(self) -> float:
        """The step without the profiler."""
        return self._plain(self.cost.per_op_ns)

    def gain(self, edits: Iterable[Edit], *, least: float = 1.0, most: float = 1.0) -> Gain:
        """What edits win; they save at `least` and at `most` this share of the GPU time that they say."""
        return self.gain_of([StepChange("", tuple(edits), least, most)])

    def gain_of(self, changes: Sequence[StepChange]) -> Gain:
        """What changes win together, with the host as fast as expected, and as fast and as slow as it may be."""
        if not any(change.edits for change in changes):
            return Gain(self.step_ms, 0.0, 0.0, 0.0)
        step_ms = self.changed_ms(changes)
        most = [with_saving(edit, change.most) for change in changes for edit in change.edits]
        least = [with_saving(edit, change.least) for change in changes for edit in change.edits]
        more, less = (
            self._plain(per_op_ns) - self._edited(edits, per_op_ns)
            for per_op_ns, edits in ((self.cost.high_ns, most), (self.cost.low_ns, least))
        )
        gain_ms = self.step_ms - step_ms
        model_error = (SHARE_OF_GAIN * gain_ms, SHARE_OF_STEP * self.step_ms)
        low, high = min(gain_ms, more, less), max(gain_ms, more, less)
        return Gain(step_ms, gain_ms, gain_ms - hypot(gain_ms - low, *model_error),
                    gain_ms + hypot(high - gain_ms, *model_error))  # fmt: skip

    def changed_ms(self, changes: Iterable[StepChange]) -> float:
        """The step without the profiler, with changes."""
        return self._edited((edit for change in changes for edit in change.edits), self.cost.per_op_ns)

    def _plain(self, per_op_ns: float) -> float:
        if per_op_ns not in self._plain_ms:
            self._plain_ms[per_op_ns] = self._edited((), per_op_ns)
        return self._plain_ms[per_op_ns]

    def _edited(self, edits: Iterable[Edit], per_op_ns: float) -> float:
        edited = EditedGraph(self.graph, self.members, plain_host(self.graph, per_op_ns))
        for edit in edits:
            edited.apply(edit)
        return edited.step_ns() / 1e6


def step_model(work: Workspace, members: Members) -> StepModel | None:
    """None where the trace does not record launches."""
    if not has_graph(work):
        return None
    cost = recording_cost(work)
    return StepModel(graph_of(work), cost, members, {cost.per_op_ns: plain_step_ns(work) / 1e6})


def what_if(model: StepModel | None, changes: Sequence[StepChange]) -> Table:
    """The step as it is, with each change, and with all of them."""
    return _table(model, [(), *((change,) for change in changes), *([tuple(changes)] if len(changes) > 1 else ())])


def best_first(model: StepModel | None, changes: Sequence[StepChange]) -> Table:
    """The step as it is, with the change that wins most, with that and the one that then wins most, and so on."""
    left = list(changes)
    chosen: list[tuple[StepChange, ...]] = [()]
    while model is not None and left:
        best = min(left, key=lambda change: model.changed_ms([*chosen[-1], change]))
        left.remove(best)
        chosen.append((*chosen[-1], best))
    return _table(model, chosen)


def _table(model: StepModel | None, chosen: Sequence[tuple[StepChange, ...]]) -> Table:
    if model is None:
        return Table.from_rows("what_if", MEANING, COLUMNS, [], NO_GRAPH)
    rows = [("; ".join(change.name for change in changes), *model.gain_of(changes)) for changes in chosen]
    return Table.from_rows("what_if", MEANING, COLUMNS, rows, model.cost.note, *model.graph.notes)

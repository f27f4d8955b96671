"""`what_if`: how long a step would take with some changes, one by one and all together."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec
import polars as pl

from warplens.analyses.graph.bounds import calibration, plain_step_ns
from warplens.analyses.graph.building import NO_GRAPH, graph_of, has_graph
from warplens.analyses.graph.clock import clock
from warplens.analyses.graph.editing import EditedGraph, KnownWork, Members, steps_of
from warplens.analyses.graph.recording_cost import RecordingCost, cost_without_light, plain_host, recording_cost
from warplens.analyses.graph.records import Floats, StepGraph
from warplens.analyses.graph.simulating import graph_notes
from warplens.analyses.graph.slow_steps import step_excess
from warplens.analyses.workspace import Workspace
from warplens.model.edits import Edit, StepChange, with_saving
from warplens.model.table import Column, Table

COLUMNS = (
    Column("fixes", "the changes; empty for the step as it is", "", pl.String),
    Column("step_ms", "time of a step without the profiler; of the trace where no steps are marked", "ms", pl.Float64),
    Column("gain_ms", "what the changes win", "ms", pl.Float64),
    Column("low_ms", "the least that they are expected to win", "ms", pl.Float64),
    Column("high_ms", "the most", "ms", pl.Float64),
    Column("step_low_ms", "the least that the step is expected to take then", "ms", pl.Float64),
    Column("step_high_ms", "the most", "ms", pl.Float64),
)
SHARE_OF_GAIN: Final = 0.2
SHARE_OF_STEP: Final = 0.025
"""What a simulated gain is off by besides: edits are simpler than changes of a program, and steps differ."""
FEW: Final = 6
"""Fewer variants are simulated faster one by one."""
AT_ONCE: Final = 64
"""Variants that are simulated together: 45 MB for a graph of 20,000 nodes; more win little."""
NOTHING_MS: Final = 1e-6
"""What two simulations of the same step may differ by."""
MEANING: Final = "one row per set of changes, the first without any"


class Gain(NamedTuple):
    """A step with some edits, and what they win of the step without them: expected, at least, at most."""

    step_ms: float
    gain_ms: float
    low_ms: float
    high_ms: float
    step_low_ms: float
    step_high_ms: float


class StepModel(msgspec.Struct, frozen=True, eq=False):
    """The graph of a trace's steps, what recording costs, and which GPU events the rows of tables stand for."""

    graph: StepGraph
    cost: RecordingCost
    members: Members
    step_ms: float
    """The step without the profiler."""
    step_low_ms: float
    step_high_ms: float
    """Its interval."""
    calibration: float = 1.0
    """What simulated steps are multiplied by."""
    cost_without_light: Callable[[], RecordingCost] | None = None
    """What recording costs in the steps recorded with ops; `cost` where there are no others."""

    known: KnownWork = msgspec.field(default_factory=KnownWork)
    plain_hosts: dict[float, Floats] = msgspec.field(default_factory=dict)
    """The host's part of each edge by the cost of recording, of which all sets of changes have the same three."""

    def excess_kept(self, steps: Collection[int]) -> tuple[float, float]:
        """What slow steps take more than the others without the profiler, over what they do as recorded; and the same
        of its share of all steps."""
        cost = self.cost if self.cost_without_light is None else self.cost_without_light()
        recorded, plain = (step_excess(self.graph, steps, share) for share in (0.0, cost.share))
        if recorded.excess_ms <= 0 or plain.all_ms <= 0:
            return 1.0, 1.0
        kept = max(0.0, plain.excess_ms) / recorded.excess_ms
        return kept, kept * recorded.all_ms / plain.all_ms

    def gain(self, edits: Iterable[Edit], *, least: float = 1.0, most: float = 1.0) -> Gain:
        """What edits win; they save at `least` and at `most` this share of the GPU time that they say."""
        return self.gain_of([StepChange("", tuple(edits), least, most)])

    def gain_of(self, changes: Sequence[StepChange]) -> Gain:
        """What changes win together."""
        return self.gains_of([changes])[0]

    def gains_of(self, sets: Sequence[Sequence[StepChange]]) -> list[Gain]:
        """What sets of changes win, with the host as fast as expected, and as fast and as slow as it may be."""
        unchanged = Gain(self.step_ms, 0.0, 0.0, 0.0, self.step_low_ms, self.step_high_ms)
        if not any(change.edits for changes in sets for change in changes):
            return [unchanged] * len(sets)
        cost = self.cost
        per_op = [cost.share, cost.high, cost.low]
        variants: list[tuple[Sequence[Edit], float]] = [((), cost.high), ((), cost.low)]
        for changes in sets:
            pairs = [(edit, change) for change in changes for edit in change.edits]
            edits = [edit for edit, _ in pairs]
            most = [with_saving(edit, change.most) for edit, change in pairs]
            least = [with_saving(edit, change.least) for edit, change in pairs]
            variants += zip((edits, most, least), per_op, strict=True)
        fast_ms, slow_ms, *changed = self._simulated(variants)
        changed_ms = zip(changed[::3], changed[1::3], changed[2::3], strict=True)
        return [
            self._gain((step_ms, most_ms, least_ms), fast_ms - most_ms, slow_ms - least_ms)
            if any(change.edits for change in changes)
            else unchanged
            for (step_ms, most_ms, least_ms), changes in zip(changed_ms, sets, strict=True)
        ]

    def _gain(self, steps_ms: tuple[float, float, float], more: float, less: float) -> Gain:
        """`steps_ms`: with the edits, as expected, with a fast host and the most saved, and with a slow one."""
        step_ms = steps_ms[0]
        gain_ms = self.step_ms - step_ms
        model_error = (SHARE_OF_GAIN * gain_ms, SHARE_OF_STEP * self.step_ms)

        def interval(expected: float, *others: float) -> tuple[float, float]:
            low, high = min(expected, *others), max(expected, *others)
            return (
                expected - math.hypot(expected - low, *model_error),
                expected + math.hypot(high - expected, *model_error),
            )

        low, high = interval(gain_ms, more, less)
        step_low, step_high = interval(*steps_ms)
        # What shortens the step however fast the host is loses nothing, and what lengthens it wins nothing.
        if min(gain_ms, more, less) >= -NOTHING_MS:
            low, step_high = max(min(0.0, gain_ms), low), min(max(step_ms, self.step_high_ms), step_high)
        if max(gain_ms, more, less) <= NOTHING_MS:
            high, step_low = min(max(0.0, gain_ms), high), max(min(step_ms, self.step_low_ms), step_low)
        return Gain(step_ms, gain_ms, low, min(self.step_high_ms, high), max(0.0, step_low), step_high)

    def changed_ms(self, changes: Iterable[StepChange]) -> float:
        """The step without the profiler, with changes."""
        return (
            self._edited([edit for change in changes for edit in change.edits], self.cost.share).step_ns()
            * self.calibration
            / 1e6
        )

    def _simulated(self, variants: Sequence[tuple[Sequence[Edit], float]]) -> list[float]:
        """The step with some edits and a cost of recording, in ms; several are simulated at once."""
        if len(variants) < FEW:
            return [self._edited(*variant).step_ns() * self.calibration / 1e6 for variant in variants]
        steps: list[float] = []
        for first in range(0, len(variants), AT_ONCE):
            edited = [self._edited(*variant) for variant in variants[first : first + AT_ONCE]]
            steps += (steps_of(self.graph, edited) * self.calibration / 1e6).tolist()
        return steps

    def _edited(self, edits: Sequence[Edit], share: float) -> EditedGraph:
        if share not in self.plain_hosts:
            self.plain_hosts[share] = plain_host(self.graph, share)
        edited = EditedGraph(self.graph, self.members, self.plain_hosts[share], self.known)
        for edit in edits:
            edited.apply(edit)
        return edited


def step_model(work: Workspace, members: Members) -> StepModel | None:
    """None where the trace does not record launches."""
    if not has_graph(work):
        return None
    cost, step_ms, step = recording_cost(work), plain_step_ns(work) / 1e6, clock(work)
    ends = (step.low_ms, step.high_ms) if step else (step_ms, step_ms)
    return StepModel(graph_of(work), cost, members, step_ms, *ends, calibration(work), lambda: cost_without_light(work))


def what_if(model: StepModel | None, changes: Sequence[StepChange]) -> Table:
    """The step as it is, with each change, and with all of them."""
    return _table(model, [(), *((change,) for change in changes), *([tuple(changes)] if len(changes) > 1 else ())])


def best_first(model: StepModel | None, changes: Sequence[StepChange]) -> Table:
    """The step as it is, with the change that wins most, with that and the one that then wins most, and so on; without
    those that would make it longer again."""
    left = list(changes)
    chosen: list[tuple[StepChange, ...]] = [()]
    reached_ms = math.inf
    while model is not None and left:
        steps_ms = [model.changed_ms([*chosen[-1], change]) for change in left]
        best = min(range(len(left)), key=steps_ms.__getitem__)
        if steps_ms[best] > reached_ms + NOTHING_MS:
            names = ", ".join(change.name for change in left)
            return _table(model, chosen, f"{names} would win nothing besides, or make the step longer")
        reached_ms = steps_ms[best]
        chosen.append((*chosen[-1], left.pop(best)))
    return _table(model, chosen)


def _table(model: StepModel | None, chosen: Sequence[tuple[StepChange, ...]], *notes: str) -> Table:
    if model is None:
        return Table.from_rows("what_if", MEANING, COLUMNS, [], NO_GRAPH)
    gains = model.gains_of(chosen)
    rows = [("; ".join(change.name for change in changes), *gain) for changes, gain in zip(chosen, gains, strict=True)]
    return Table.from_rows("what_if", MEANING, COLUMNS, rows, *notes, model.cost.note, *graph_notes(model.graph))

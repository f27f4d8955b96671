"""The step with every subset of some changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import numpy as np
from msgspec.structs import replace

from warplens.analyses.graph.editing import EditedGraph, steps_of
from warplens.analyses.graph.recording_cost import plain_host
from warplens.analyses.graph.what_if import AT_ONCE, StepModel
from warplens.model.edits import StepChange, with_saving


def subset_steps_ms(model: StepModel, changes: Sequence[StepChange]) -> tuple[float, ...]:
    """Time of the step per subset; bit n of the subset's number says whether it has `changes[n]`."""
    return _steps_ms(model, changes, model.cost.share)


def fast_steps_ms(model: StepModel, changes: Sequence[StepChange]) -> tuple[float, ...]:
    """The same with the fastest host that fits, and changes that save the most."""
    return _steps_ms(model, [_saving(change, lambda each: each.most) for change in changes], model.cost.high)


def slow_steps_ms(model: StepModel, changes: Sequence[StepChange]) -> tuple[float, ...]:
    """The same with the slowest host, and changes that save the least."""
    return _steps_ms(model, [_saving(change, lambda each: each.least) for change in changes], model.cost.low)


def _saving(change: StepChange, share: Callable[[StepChange], float]) -> StepChange:
    return replace(change, edits=tuple(with_saving(edit, share(change)) for edit in change.edits))


def _steps_ms(model: StepModel, changes: Sequence[StepChange], share: float) -> tuple[float, ...]:
    graph = model.graph
    unchanged = EditedGraph(graph, model.members, plain_host(graph, share), model.known)
    steps_ms = np.zeros(1 << len(changes))
    variants = _variants(unchanged, changes, 0, 0)
    while batch := list(islice(variants, AT_ONCE)):
        steps_ms[[subset for subset, _ in batch]] = (
            steps_of(graph, [edited for _, edited in batch]) * model.calibration / 1e6
        )
    return tuple(steps_ms.tolist())


def _variants(
    edited: EditedGraph, changes: Sequence[StepChange], place: int, subset: int
) -> Iterator[tuple[int, EditedGraph]]:
    """Every subset of the changes from a place on; what subsets have in common is edited once."""
    if place == len(changes):
        yield subset, edited
        return
    yield from _variants(edited, changes, place + 1, subset)
    yield from _variants(edited.with_edits(changes[place].edits), changes, place + 1, subset | 1 << place)

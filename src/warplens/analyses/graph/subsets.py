"""The step with every subset of some changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from warplens.analyses.graph.editing import EditedGraph, steps_of
from warplens.analyses.graph.recording_cost import plain_host
from warplens.analyses.graph.what_if import AT_ONCE, StepModel
from warplens.model.edits import StepChange


def subset_steps_ms(model: StepModel, changes: Sequence[StepChange]) -> tuple[float, ...]:
    """Time of the step per subset; bit n of the subset's number says whether it has `changes[n]`."""
    graph = model.graph
    unchanged = EditedGraph(graph, model.members, plain_host(graph, model.cost.share), model.known)
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

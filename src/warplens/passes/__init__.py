"""Trace → Trace: plain functions in a list, checked by the model's own laws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from warplens.model.check import self_check
from warplens.model.trace import Trace
from warplens.passes.autograd import join_backward
from warplens.passes.context import apply_contexts
from warplens.passes.devices import limit_devices
from warplens.passes.link import link_launches
from warplens.passes.nest import nest
from warplens.passes.steps import mark_steps
from warplens.passes.survey import survey

Pass = Callable[[Trace], Trace]
PASSES: Final[tuple[Pass, ...]] = (
    limit_devices,
    nest,
    link_launches,
    join_backward,
    apply_contexts,
    mark_steps,
    survey,
)


def run_passes(trace: Trace, *, check_each: bool = False, join_graphs: Pass | None = None) -> Trace:
    """The linked trace; checked at the end, or after every pass, as the tests ask.

    `join_graphs` joins graphs with their captures, which may be in other files; the survey comes after it.
    """
    for step in PASSES:
        if step is survey and join_graphs is not None:
            trace = join_graphs(trace)
        trace = step(trace)
        if check_each:
            self_check(trace)
    self_check(trace)
    return trace

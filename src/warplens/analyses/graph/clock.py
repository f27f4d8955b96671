"""`step_time`: the clock of a trace. Which one there is depends on what was recorded, by the rules in `source_of`."""

from __future__ import annotations

from typing import Final, NamedTuple

import polars as pl

from warplens.analyses.graph.as_recorded import recorded_reason
from warplens.analyses.graph.bounds import known_step_ns, step_bounds
from warplens.analyses.graph.building import has_graph
from warplens.analyses.shared import shared
from warplens.analyses.time.steps import launched_by_step, step_windows
from warplens.analyses.workspace import Workspace
from warplens.model.clock import ESTIMATED, GIVEN, MEASURED, RECORDED, SOURCES, Clock
from warplens.model.iteration_marks import parse_mark
from warplens.model.table import Column, Table

NO_LAUNCHES: Final = "no launches are recorded, so what recording cost cannot be told"
NO_FIT: Final = "the time that is given fits no cost of recording"
COLUMNS = (
    Column("step_ms", "a step without the profiler; of the run where no steps are marked", "ms", pl.Float64),
    Column("low_ms", "the least that it is expected to take", "ms", pl.Float64),
    Column("high_ms", "the most", "ms", pl.Float64),
    Column("source", "; ".join(f"{name}: {meaning}" for name, meaning in SOURCES.items()), "", pl.String),
    Column("recorded_ms", "the same step as recorded, with what recording cost", "ms", pl.Float64),
    Column("whole", "what it is of: step, iteration (of a served model) or run", "", pl.String),
    Column("steps", "how many were recorded, 0 for a run", "", pl.Int64),
    Column("reason", "why it is no better known", "", pl.String),
)


class Source(NamedTuple):
    name: str
    reason: str = ""


def step_time(work: Workspace) -> Table:
    own = clock(work)
    return Table.from_rows("step_time", "how long one step takes, and how that is known", COLUMNS, [own] if own else [])


@shared
def clock(work: Workspace) -> Clock | None:
    """None where no GPU worked."""
    if not len(work.gpu) or not int(work.gpu["dur_ns"].sum()):
        return None
    source, whole, steps = source_of(work), _whole(work), work.trace.steps.height
    if not has_graph(work):
        ms = _recorded_ms(work)
        return Clock(ms, ms, ms, source.name, ms, whole, steps, source.reason)
    bounds = step_bounds(work)
    is_estimated = source.name == ESTIMATED
    low, high = (bounds.plain_low_ms, bounds.plain_high_ms) if is_estimated else (bounds.plain_ms, bounds.plain_ms)
    return Clock(bounds.plain_ms, low, high, source.name, bounds.recorded_ms, whole, steps, source.reason)


@shared
def source_of(work: Workspace) -> Source:
    """The first rule that holds."""
    if not has_graph(work):
        return Source(RECORDED, NO_LAUNCHES)
    if known_step_ns(work):
        return Source(GIVEN if work.options.step_ns else MEASURED)
    if as_recorded := recorded_reason(work):
        return Source(RECORDED, as_recorded)
    return Source(ESTIMATED, NO_FIT if work.options.step_ns or work.trace.meta.plain_step_ns else "")


def _whole(work: Workspace) -> str:
    names = work.trace.steps["name"].head(1).to_list()
    if not names:
        return "run"
    return "iteration" if parse_mark(names[0]) is not None else "step"


def _recorded_ms(work: Workspace) -> float:
    """Without launches: from the first kernel of a step to that of the next, else from the first to the last."""
    windows = list(step_windows(launched_by_step(work.gpu)).values())
    if windows:
        lengths = sorted(end - begin for begin, end in windows)
        return float(lengths[len(lengths) // 2]) / 1e6
    start = work.gpu["start_ns"].to_numpy()
    return float((start + work.gpu["dur_ns"].to_numpy()).max() - start.min()) / 1e6

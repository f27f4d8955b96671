"""The host's time between the calls of a step, taken from steps of the same run that were recorded lightly.

A light pass records calls of the runtime and GPU events, but no ops: the host is nearly as fast as without a profiler.
Its launches come in the same order as those of the fully recorded steps, so each part of the host's time in the graph
has a counterpart. Where a step's calls differ from those of every light step, nothing is taken over.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
import numpy as np

from warplens.analyses.graph.host_waits import calls_that_matter
from warplens.analyses.graph.records import CALL, MARK, RETURN, Floats, StepGraph
from warplens.model.kinds import NONE
from warplens.model.trace import Ints, Trace
from warplens_run.base.units import plural

LONGEST_CALL_NS: Final = 20_000.0
"""A call that launches takes no longer by itself: what goes beyond it is a wait, for room in the queue say."""


class LightPass(NamedTuple):
    """Per edge of a graph the host's part of its lag as the light pass has it, NaN where it has none."""

    host_ns: Floats
    note: str


class _StepCalls(msgspec.Struct, frozen=True):
    """The calls of one step in the order in which they began, thread by thread."""

    identity: tuple[tuple[tuple[str, str], ...], ...]
    """Of each thread, in the order of first calls: name of each call and of what it launched first."""
    rows: Ints
    begin_ns: int
    end_ns: int


def light_pass(trace: Trace, graph: StepGraph, light: Trace) -> LightPass:
    """What the light pass says of a graph's host time; the median over its steps."""
    host_ns = np.full(len(graph.lag_ns), np.nan)
    light_steps = _steps(light)
    joined = 0
    marks = set(graph.recorded_ns[graph.kind == MARK].tolist())
    steps = [step for step in _steps(trace) if {step.begin_ns, step.end_ns} <= marks]
    for step in steps:
        same = [other for other in light_steps if other.identity == step.identity]
        if same:
            joined += 1
            _take_over(trace, graph, step, light, same, host_ns)
    note = (
        f"the host's times of {joined} of {plural(len(steps), 'step')} are those of "
        f"{plural(len(light_steps), 'step')} recorded without ops"
    )
    return LightPass(host_ns, note if steps and light_steps else "")


def _steps(trace: Trace) -> list[_StepCalls]:
    calls = calls_that_matter(trace)
    start = trace.ints("start_ns")
    calls = calls[np.argsort(start[calls], kind="stable")]
    launched = _first_launched(trace)
    begins = trace.steps["start_ns"].to_list()
    ends = [*begins[1:], *trace.steps["end_ns"].to_list()[-1:]]
    return [_calls_between(trace, calls, launched, *bounds) for bounds in zip(begins, ends, strict=True)]


def _first_launched(trace: Trace) -> dict[int, int]:
    """The name of the first GPU event that each call launched."""
    rows = trace.gpu_rows[::-1]
    return dict(zip(trace.ints("launch")[rows].tolist(), trace.ints("name")[rows].tolist(), strict=True))


def _calls_between(trace: Trace, calls: Ints, launched: dict[int, int], begin: int, end: int) -> _StepCalls:
    start = trace.ints("start_ns")[calls]
    own = calls[(start >= begin) & (start < end)]
    lanes = trace.ints("lane")[own]
    threads = list(dict.fromkeys(lanes.tolist()))
    by_thread = [own[lanes == thread] for thread in threads]
    names, texts = trace.ints("name"), [*trace.names, ""]
    identity = tuple(
        tuple((texts[names[row]], texts[launched.get(row, NONE)]) for row in rows.tolist()) for rows in by_thread
    )
    return _StepCalls(identity, np.concatenate(by_thread) if by_thread else own, begin, end)


def _take_over(
    trace: Trace, graph: StepGraph, step: _StepCalls, light: Trace, same: list[_StepCalls], host_ns: Floats
) -> None:
    """Fill in the edges between moments of this step."""
    position = np.full(len(trace), NONE, np.int64)
    position[step.rows] = np.arange(len(step.rows))
    count = len(step.rows)
    is_call = np.isin(graph.kind, (CALL, RETURN))
    at = np.full(len(graph), NONE, np.int64)
    at[is_call] = position[graph.row[is_call]]
    marks = np.flatnonzero(graph.kind == MARK)
    at[marks[graph.recorded_ns[marks] == step.begin_ns]] = count
    at[marks[graph.recorded_ns[marks] == step.end_ns]] = count + 1
    edges = np.flatnonzero(graph.on_host)
    source, target = graph.source[edges], graph.target[edges]
    # The way from a waiting call to its own return is not the host's pace.
    edges = edges[(at[source] != NONE) & (at[target] != NONE) & (at[source] != at[target])]
    source, target = graph.source[edges], graph.target[edges]
    lags = np.stack([_lags(graph, at, source, target, light, other) for other in same])
    host_ns[edges] = np.maximum(0.0, np.median(lags, axis=0))


def _lags(graph: StepGraph, at: Ints, source: Ints, target: Ints, light: Trace, step: _StepCalls) -> Floats:
    """How long the host took between these moments in a light step."""
    start = light.ints("start_ns")[step.rows].astype(float)
    duration = light.ints("dur_ns")[step.rows].astype(float)
    bounds = [float(step.begin_ns), float(step.end_ns)]
    begins, ends = np.append(start, bounds), np.append(start + duration, bounds)
    own = np.append(np.minimum(duration, LONGEST_CALL_NS), [0.0, 0.0])
    own_of_source = np.where(graph.kind[source] == CALL, own[at[source]], 0.0)
    lags: Floats = begins[at[target]] - ends[at[source]] + own_of_source
    return lags

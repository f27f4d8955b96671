"""`bounds`: how long a step would take if the GPU, the host or communication took no time at all."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import polars as pl

from warplens.analyses.graph.building import NO_GRAPH, graph_of, has_graph
from warplens.analyses.graph.host_waits import LONG_LAUNCH_NS
from warplens.analyses.graph.recording_cost import plain_host, plain_lags, recording_cost
from warplens.analyses.graph.records import CALL, EARLIER, LAUNCH, STREAM, WAIT, Floats, StepGraph
from warplens.analyses.graph.simulating import graph_notes, marked_step_ns, simulate, step_ns
from warplens.analyses.shared import shared
from warplens.analyses.workspace import COMMUNICATION, Workspace
from warplens.model.table import Column, Table
from warplens.model.trace import Bools, Trace

CASES: Final = {
    "recorded": "as in the trace",
    "plain": "without the profiler: the host without the time that recording takes",
    "fast GPU": "plain, with kernels and copies that take no time; communication takes as long as recorded",
    "fast host": "plain, with a host that takes no time and launches without latency, as in a graph",
    "free communication": "plain, with communication that takes no time",
    "no stream waits": "plain, without waits of streams for each other",
}
COLUMNS = (
    Column("case", f"what is simulated: {', '.join(CASES)}", "", pl.String),
    Column("step_ms", "time of a step; of the whole trace where no steps are marked", "ms", pl.Float64),
    Column("saves_ms", "what that saves of the plain step; empty for what is not a change", "ms", pl.Float64),
    Column("saves_percent", "the same as a share of the plain step", "%", pl.Float64),
    Column("meaning", "what is changed", "", pl.String),
)
LITTLE: Final = 0.01
"""What the recorded step may differ from the plain one by without a word on it."""
ABOUT: Final = 0.1
"""A simulated step that differs by less from the known one is that step."""
MEANING: Final = "one row per simulated case"


class StepBounds(NamedTuple):
    """The time of a step in each case."""

    recorded_ms: float
    plain_ms: float
    fast_gpu_ms: float
    fast_host_ms: float
    free_communication_ms: float
    no_stream_waits_ms: float
    is_known: bool = False
    """The plain step is given or measured."""
    earlier_ms: float = 0.0
    """What passes of a trace without steps while the GPU is busy with work from before the recording; in each case."""
    earlier_until_ms: float = 0.0
    """Until when, since the trace's start."""
    left_out_ms: float = 0.0
    """Recorded time in which the first step waits for work that was launched before it; no case contains it."""

    @property
    def is_estimated(self) -> bool:
        """The plain step is neither given nor measured, and differs from the recorded one."""
        return not self.is_known and abs(self.recorded_ms - self.plain_ms) > LITTLE * self.plain_ms

    def saves_ms(self, case_ms: float) -> float:
        """What a case saves of the plain step."""
        return self.plain_ms - case_ms

    def saves_percent(self, case_ms: float) -> float:
        return 100 * self.saves_ms(case_ms) / self.plain_ms if self.plain_ms else 0.0


def bounds(work: Workspace) -> Table:
    if not has_graph(work):
        return Table.from_rows("bounds", MEANING, COLUMNS, [], NO_GRAPH)
    times = step_bounds(work)
    rows = [(case, ms, *_saving(case, ms, times), CASES[case]) for case, ms in zip(CASES, times, strict=False)]
    return Table.from_rows("bounds", MEANING, COLUMNS, rows, recording_cost(work).note, *graph_notes(graph_of(work)))


@shared
def step_bounds(work: Workspace) -> StepBounds:
    """Of a trace that has a graph. What a trace does not have, communication or waits of streams, is not simulated."""
    graph = graph_of(work)
    host_ns = plain_host(graph, recording_cost(work).per_op_ns)
    latency_ns = graph.lag_ns - graph.host_ns
    lags, plain_ms = latency_ns + host_ns, plain_step_ns(work) / 1e6
    is_communication = _is_communication(work, graph)
    is_wait = graph.edge_kind == WAIT
    only_communication = np.where(is_communication, graph.weight_ns, 0.0)
    without_communication = np.where(is_communication, 0.0, graph.weight_ns)

    def simulated_ms(weight_ns: Floats | None, lag_ns: Floats) -> float:
        return calibration(work) * step_ns(graph, simulate(graph, weight_ns, lag_ns)) / 1e6

    recorded_ms = step_ns(graph, graph.recorded_ns) / 1e6
    fast_gpu_lags = lags - np.minimum(host_ns, _waits_for_room(work.trace, graph))
    if len(work.trace.steps):  # work from before them would be fast too
        fast_gpu_lags[graph.edge_kind == EARLIER] = 0.0
    opening = graph.is_opening & (graph.residual_ns > 0) & (len(work.trace.steps) == 0)
    return StepBounds(
        recorded_ms=recorded_ms,
        plain_ms=plain_ms,
        fast_gpu_ms=simulated_ms(only_communication, fast_gpu_lags),
        fast_host_ms=simulated_ms(None, np.where(graph.edge_kind == LAUNCH, 0.0, latency_ns)),
        free_communication_ms=simulated_ms(without_communication, lags) if is_communication.any() else plain_ms,
        no_stream_waits_ms=simulated_ms(None, np.where(is_wait, -np.inf, lags)) if is_wait.any() else plain_ms,
        earlier_ms=float(graph.residual_ns[opening].max(initial=0.0)) / 1e6,
        earlier_until_ms=float((graph.recorded_ns - graph.weight_ns)[opening].max(initial=0.0)) / 1e6,
        is_known=known_step_ns(work) > 0,
        left_out_ms=marked_step_ns(graph, graph.recorded_ns) / 1e6 - recorded_ms,
    )


def plain_step_ns(work: Workspace) -> float:
    """The step without the profiler: as it is given or measured, else simulated."""
    return calibration(work) * _simulated_step_ns(work)


@shared
def _simulated_step_ns(work: Workspace) -> float:
    graph = graph_of(work)
    return step_ns(graph, simulate(graph, lag_ns=plain_lags(graph, recording_cost(work).per_op_ns)))


@shared
def calibration(work: Workspace) -> float:
    """What simulated steps are multiplied by, so that the plain one takes exactly the time that is known."""
    known_ns = known_step_ns(work)
    return known_ns / _simulated_step_ns(work) if known_ns else 1.0


@shared
def known_step_ns(work: Workspace) -> float:
    """The step without the profiler as it is given, else as the capture measured it.

    0 where it is neither, and where no cost of recording makes the simulated step take about that long: a step time of
    another program, or the mean of steps one of which is much longer than the others.
    """
    known_ns = work.options.step_ns or work.trace.meta.plain_step_ns or 0.0
    simulated_ns = _simulated_step_ns(work) if known_ns and has_graph(work) else known_ns
    return known_ns if abs(simulated_ns - known_ns) <= ABOUT * known_ns else 0.0


def _saving(case: str, step_ms: float, times: StepBounds) -> tuple[float | None, float | None]:
    if case in ("recorded", "plain"):
        return None, None
    return times.saves_ms(step_ms), times.saves_percent(step_ms)


def _is_communication(work: Workspace, graph: StepGraph) -> Bools:
    """Per node: whether it is a GPU event of communication."""
    events = work.gpu.filter(pl.col("kernel_category") == COMMUNICATION)["id"].to_numpy()
    is_communication: Bools = graph.is_work & np.isin(graph.row, events)
    return is_communication


def _waits_for_room(trace: Trace, graph: StepGraph) -> Floats:
    """Per edge: the time of a launch call that waited for room in the queue behind work that is not in the graph.

    Such a call takes long and returns while its stream still has work to do: with a fast GPU it returns at once.
    """
    launches, follows = (np.flatnonzero(graph.edge_kind == kind) for kind in (LAUNCH, STREAM))
    stream_free_ns = np.full(len(graph), -np.inf)
    np.maximum.at(stream_free_ns, graph.target[follows], graph.recorded_ns[graph.source[follows]])
    first_free_ns = np.full(len(graph), np.inf)
    np.minimum.at(first_free_ns, graph.source[launches], stream_free_ns[graph.target[launches]])
    calls = np.flatnonzero((graph.kind == CALL) & np.isfinite(first_free_ns))
    duration = trace.ints("dur_ns")[graph.row[calls]].astype(float)
    waits = (duration >= LONG_LAUNCH_NS) & (first_free_ns[calls] > graph.recorded_ns[calls] + duration)
    waited_ns = np.zeros(len(graph))
    waited_ns[calls[waits]] = duration[waits]
    return np.where(graph.on_host, waited_ns[graph.source], 0.0)

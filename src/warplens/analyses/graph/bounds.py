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
    "fast host": "only what the GPU's work waits for on the GPU: no time of the host, of launches, or between kernels",
    "free communication": "plain, with communication that takes no time",
    "no stream waits": "plain, without waits of streams for each other",
}
COLUMNS = (
    Column("case", f"what is simulated: {', '.join(CASES)}", "", pl.String),
    Column("step_ms", "time of a step; of the whole trace where no steps are marked", "ms", pl.Float64),
    Column("saves_ms", "what that saves of the plain step; empty for what is not a change", "ms", pl.Float64),
    Column("saves_percent", "the same as a share of the plain step", "%", pl.Float64),
    Column("meaning", "what is changed", "", pl.String),
    Column("saves_low_ms", "the least that it saves, with each cost of recording that is likely", "ms", pl.Float64),
    Column("saves_high_ms", "the most", "ms", pl.Float64),
)
LITTLE: Final = 0.01
"""What the recorded step may differ from the plain one by without a word on it."""
ABOUT: Final = 0.1
"""A simulated step that differs by less from the known one is that step."""
STEPS_DRIFT: Final = 0.04
"""Steps of a program that the GPU decides differ by this share from one run to the next."""
MEANING: Final = "one row per simulated case"


class Saving(NamedTuple):
    """What a case saves of the plain step, with each cost of recording that is likely: the least and the most."""

    low_ms: float = 0.0
    high_ms: float = 0.0


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
    plain_low_ms: float = 0.0
    plain_high_ms: float = 0.0
    """The interval of an estimated plain step; else its time."""
    fast_gpu_saves: Saving = Saving()
    fast_host_saves: Saving = Saving()
    free_communication_saves: Saving = Saving()
    with_pauses_ms: float = 0.0
    """The fast host where kernels and calls that wait keep the pauses that they have: whether the host is the limit."""

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
    intervals = {
        "fast GPU": times.fast_gpu_saves,
        "fast host": times.fast_host_saves,
        "free communication": times.free_communication_saves,
    }
    rows = [
        (case, ms, *_saving(case, ms, times), CASES[case], *intervals.get(case, (None, None)))
        for case, ms in zip(CASES, times[:6], strict=True)
    ]
    return Table.from_rows("bounds", MEANING, COLUMNS, rows, recording_cost(work).note, *graph_notes(graph_of(work)))


@shared
def step_bounds(work: Workspace) -> StepBounds:
    """Of a trace that has a graph. What a trace does not have, communication or waits of streams, is not simulated."""
    graph, cost, known_ns = graph_of(work), recording_cost(work), known_step_ns(work)
    recorded_ns = step_ns(graph, graph.recorded_ns)
    latency_ns = graph.lag_ns - graph.host_ns
    is_communication, is_wait = _is_communication(work, graph), graph.edge_kind == WAIT
    only_communication = np.where(is_communication, graph.weight_ns, 0.0)
    without_communication = np.where(is_communication, 0.0, graph.weight_ns)

    def simulated_ns(weight_ns: Floats | None, lag_ns: Floats) -> float:
        return step_ns(graph, simulate(graph, weight_ns, lag_ns))

    # No graph of kernels, however short its pauses, is faster. Work from before the step still holds it up.
    unexplained_ns = np.where(graph.is_opening, 0.0, graph.residual_ns)
    without_pauses = np.where(graph.edge_kind == EARLIER, latency_ns, np.minimum(latency_ns, 0.0))
    fast_host_ns = simulated_ns(graph.weight_ns - unexplained_ns, without_pauses)
    with_pauses_ns = simulated_ns(None, np.where(graph.edge_kind == LAUNCH, 0.0, latency_ns))
    # Plain, fast GPU, fast host, free communication: as expected, and with a slow and a fast host.
    times: list[Floats] = []
    for share in (cost.share, cost.low, cost.high):
        host_ns = plain_host(graph, share)
        lags = latency_ns + host_ns
        plain_ns = simulated_ns(None, lags) if times else _simulated_step_ns(work)
        free_ns = simulated_ns(without_communication, lags) if is_communication.any() else plain_ns
        fast_gpu_ns = simulated_ns(only_communication, _fast_gpu_lags(work.trace, graph, lags, host_ns))
        to_known = known_ns / plain_ns if known_ns else min(1.0, recorded_ns / max(plain_ns, 1.0))
        times.append(np.array([plain_ns, fast_gpu_ns, fast_host_ns, free_ns, with_pauses_ns]) * to_known / 1e6)
    plain_ms, fast_gpu_ms, fast_host_ms, free_communication_ms, with_pauses_ms = times[0].tolist()
    without_waits = np.where(is_wait, -np.inf, latency_ns + plain_host(graph, cost.share))
    saves_ms = np.stack([each[0] - each for each in times])
    _, *savings = map(Saving, saves_ms.min(axis=0).tolist(), saves_ms.max(axis=0).tolist())
    drift = 0.0 if known_ns else STEPS_DRIFT
    opening = graph.is_opening & (graph.residual_ns > 0) & (len(work.trace.steps) == 0)
    plain_high_ms = float((1 + drift) * max(each[0] for each in times))
    return StepBounds(
        recorded_ns / 1e6,
        plain_ms,
        fast_gpu_ms,
        fast_host_ms,
        free_communication_ms,
        calibration(work) * simulated_ns(None, without_waits) / 1e6 if is_wait.any() else plain_ms,
        earlier_ms=float(graph.residual_ns[opening].max(initial=0.0)) / 1e6,
        earlier_until_ms=float((graph.recorded_ns - graph.weight_ns)[opening].max(initial=0.0)) / 1e6,
        is_known=known_ns > 0,
        left_out_ms=(marked_step_ns(graph, graph.recorded_ns) - recorded_ns) / 1e6,
        plain_low_ms=float((1 - drift) * min(each[0] for each in times)),
        plain_high_ms=plain_high_ms if known_ns else max(plain_ms, min(plain_high_ms, recorded_ns / 1e6)),
        fast_gpu_saves=savings[0],
        fast_host_saves=savings[1],
        free_communication_saves=savings[2],
        with_pauses_ms=with_pauses_ms,
    )


def _fast_gpu_lags(trace: Trace, graph: StepGraph, lags: Floats, host_ns: Floats) -> Floats:
    """With a GPU that takes no time no launch waits for room in its queue, and no work from before is left."""
    fast: Floats = lags - np.minimum(host_ns, _waits_for_room(trace, graph))
    if len(trace.steps):
        fast[graph.edge_kind == EARLIER] = 0.0
    return fast


def plain_step_ns(work: Workspace) -> float:
    """The step without the profiler: as it is given or measured, else simulated."""
    return calibration(work) * _simulated_step_ns(work)


@shared
def _simulated_step_ns(work: Workspace) -> float:
    graph = graph_of(work)
    return step_ns(graph, simulate(graph, lag_ns=plain_lags(graph, recording_cost(work).share)))


@shared
def calibration(work: Workspace) -> float:
    """What simulated steps are multiplied by, so that the plain one takes exactly the time that is known.

    An estimated one takes no longer than the recorded: waits that begin earlier in each step can make it seem so.
    """
    known_ns, simulated_ns, graph = known_step_ns(work), max(1.0, _simulated_step_ns(work)), graph_of(work)
    return known_ns / simulated_ns if known_ns else min(1.0, step_ns(graph, graph.recorded_ns) / simulated_ns)


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

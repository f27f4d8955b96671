"""`bounds`: how long a step would take if the GPU, the host or communication took no time at all."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.graph.building import NO_GRAPH, graph_of, has_graph
from warplens.analyses.graph.recording_cost import plain_lags, recording_cost
from warplens.analyses.graph.records import WAIT, StepGraph
from warplens.analyses.graph.simulating import simulate, step_ns
from warplens.analyses.workspace import COMMUNICATION, Workspace
from warplens.model.table import Column, Table
from warplens.model.trace import Bools

CASES: Final = {
    "recorded": "as in the trace",
    "plain": "without the profiler: the host without the time that recording takes",
    "fast GPU": "plain, with kernels and copies that take no time; communication takes as long as recorded",
    "fast host": "plain, with a host that takes no time",
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


MEANING: Final = "one row per simulated case"


def bounds(work: Workspace) -> Table:
    if not has_graph(work):
        return Table.from_rows("bounds", MEANING, COLUMNS, [], NO_GRAPH)
    graph, cost = graph_of(work), recording_cost(work)
    lags = plain_lags(graph, cost.per_op_ns)
    is_communication = _is_communication(work, graph)
    is_wait = graph.edge_kind == WAIT
    simulated = {
        "recorded": simulate(graph),
        "plain": simulate(graph, lag_ns=lags),
        "fast GPU": simulate(graph, np.where(is_communication, graph.weight_ns, 0.0), lags),
        "fast host": simulate(graph, lag_ns=graph.lag_ns - graph.host_ns),
        "free communication": simulate(graph, np.where(is_communication, 0.0, graph.weight_ns), lags),
        "no stream waits": simulate(graph, lag_ns=np.where(is_wait, -np.inf, lags)),
    }
    step_ms = {case: step_ns(graph, times) / 1e6 for case, times in simulated.items()}
    plain = step_ms["plain"]
    rows = [(case, time, *_saving(case, time, plain), CASES[case]) for case, time in step_ms.items()]
    return Table.from_rows("bounds", MEANING, COLUMNS, rows, cost.note, *graph.notes)


def _saving(case: str, step_ms: float, plain_ms: float) -> tuple[float | None, float | None]:
    if case in ("recorded", "plain"):
        return None, None
    saved_ms = plain_ms - step_ms
    return saved_ms, 100 * saved_ms / plain_ms if plain_ms else 0.0


def _is_communication(work: Workspace, graph: StepGraph) -> Bools:
    """Per node: whether it is a GPU event of communication."""
    events = work.gpu.filter(pl.col("kernel_category") == COMMUNICATION)["id"].to_numpy()
    is_communication: Bools = graph.is_work & np.isin(graph.row, events)
    return is_communication

"""`job_critical_path`: the chain of moments, over all ranks, that decides when the job is done."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from warplens.model.kinds import NONE
from warplens.model.table import Column, Table
from warplens.ranks.condensing import ARRIVAL, END
from warplens.ranks.job_graph import step_ends
from warplens.ranks.own_pace import JobModel
from warplens.ranks.tables.shared import STEP

COLUMNS = (
    Column("segment", "number, in the order of time", "", pl.Int64),
    STEP,
    Column("rank", "rank that the job waits for meanwhile", "", pl.Int64),
    Column("start_ms", "when the part begins, since the job's first event", "ms", pl.Float64),
    Column("length_ms", "how long it takes, on the job's clock, as recorded", "ms", pl.Float64),
    Column("host_ms", "part of it: the host", "ms", pl.Float64),
    Column("gpu_ms", "part of it: computation on the GPU", "ms", pl.Float64),
    Column("transfer_ms", "part of it: a transfer between ranks", "ms", pl.Float64),
    Column("until", "what it ends with", "", pl.String),
    Column("percent", "share of the path", "%", pl.Float64),
)


class Segment(NamedTuple):
    step: int
    rank: int
    start_ms: float
    length_ms: float
    host_ms: float
    gpu_ms: float
    transfer_ms: float
    until: str


def job_critical_path(model: JobModel) -> Table:
    meaning = "one row per part of the path, over all ranks and recorded steps, that decides when the job is done"
    if not model.is_known:
        return Table.from_rows("job_critical_path", meaning, COLUMNS, [], "needs steps that all ranks recorded")
    rows = _segments(model)
    lengths = [row.length_ms for row in rows]
    whole = sum(lengths)
    numbered = [(number, *row, 100 * row.length_ms / whole if whole else 0.0) for number, row in enumerate(rows)]
    return Table.from_rows("job_critical_path", meaning, COLUMNS, numbered)


def _segments(model: JobModel) -> list[Segment]:
    """From the last end back over what each moment waited for."""
    simulated, graph, job = model.recorded, model.graph, model.job
    kinds = {(rank, event): kind for rank, event, kind in job.calls.select("rank", "id", "kind").iter_rows()}
    ends = step_ends(simulated)
    moment = int(abs(simulated.times - ends.max()).argmin())
    rows: list[Segment] = []
    while simulated.binding[moment] != NONE:
        before = int(simulated.binding[moment])
        rank = int(graph.rank[before])
        host, gpu, transfer = (
            float(sums[moment] - sums[before]) / 1e6
            for sums in (simulated.host_ns, simulated.gpu_ns, simulated.transfer_ns)
        )
        kind = kinds.get((int(graph.rank[moment]), int(graph.id[moment])), "")
        ending = {ARRIVAL: f"{kind} begins", END: f"{kind} ends"}.get(int(graph.kind[moment]), "")
        start = float(simulated.times[before]) / 1e6
        length = float(simulated.times[moment]) / 1e6 - start
        rows.append(Segment(int(graph.step[moment]), job.ranks[rank], start, length, host, gpu, transfer, ending))
        moment = before
    return rows[::-1]

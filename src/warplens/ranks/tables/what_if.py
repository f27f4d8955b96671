"""`job_what_if`: the job's step if some of it were as in the median rank."""

from __future__ import annotations

from typing import Final

import polars as pl

from warplens.model.finding import SPREAD
from warplens.model.table import Column, Table
from warplens.ranks.job_step import COUNTED
from warplens.ranks.own_pace import JobModel
from warplens.ranks.what_ifs import what_ifs

COLUMNS: Final = (
    Column(
        "what",
        "S: all of the job; S_type: the host or the GPU of all ranks; S_transfer: all transfers; S_rank: one of the "
        "slowest ranks; S_stage: one pipeline stage; M_W: the slowest 3 % of ranks; M_S: the last stage; S_data: "
        "computation, as with even work",
        "",
        pl.String,
    ),
    Column("scope", "the part of the step, ranks or stage that is meant", "", pl.String),
    Column("slowdown", "the step with only this scope as recorded / the ideal step", "", pl.Float64),
    Column(
        "step_ms",
        f"the job's step if this scope were ideal and all else as recorded: mean {COUNTED}",
        "ms",
        pl.Float64,
    ),
    Column("gain_ms", "what a step would be shorter by then, simulated", "ms", pl.Float64),
    Column("gain_low_ms", "the least that it is expected to be shorter by", "ms", pl.Float64),
    Column("gain_high_ms", "the most", "ms", pl.Float64),
    Column("explained", "gain_ms / gain of the whole job; null where the job has no gain", "", pl.Float64),
)


def job_what_if(model: JobModel) -> Table:
    meaning = "one row per part of the job that would be as in the median rank"
    if not model.is_known:
        return Table.from_rows("job_what_if", meaning, COLUMNS, [], "needs steps that all ranks recorded")
    rows = [
        (*row[:5], *sorted(share * row[4] for share in (1 - SPREAD, 1 + SPREAD)), row[5]) for row in what_ifs(model)
    ]
    return Table.from_rows("job_what_if", meaning, COLUMNS, rows)

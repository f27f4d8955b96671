"""`step_time` and `breakdown`: the job's step, and where it goes on each rank."""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import Final

from warplens.analyses.graph.breakdown import COLUMNS as PART_COLUMNS
from warplens.analyses.graph.clock import COLUMNS as CLOCK_COLUMNS
from warplens.model.table import Table
from warplens.ranks.job_step import job_clock
from warplens.ranks.own_pace import JobModel
from warplens.ranks.step_parts import parts_by_rank
from warplens.ranks.tables.shared import RANK

RANK_OF_JOB: Final = replace(RANK, meaning="of a job: number of the rank whose step it is")
NOT_KNOWN: Final = "needs steps that all ranks recorded, with the launches of their kernels"


def step_time(model: JobModel) -> Table:
    clock = job_clock(model)
    meaning = "how long one step of the job takes, until its last rank is done, and how that is known"
    return Table.from_rows("step_time", meaning, CLOCK_COLUMNS, [clock] if clock else [], *_notes(model))


def breakdown(model: JobModel) -> Table:
    rows = [
        (model.job.ranks[position], *astuple(part))
        for position, parts in parts_by_rank(model).items()
        for part in parts
    ]
    meaning = "one row per rank, part of the job's step and cause"
    return Table.from_rows("breakdown", meaning, (RANK_OF_JOB, *PART_COLUMNS), rows, *_notes(model))


def _notes(model: JobModel) -> tuple[str, ...]:
    return () if model.is_known else (NOT_KNOWN,)

"""`job_what_if`: the job's step if some of it were as in the median rank."""

from __future__ import annotations

from warplens.model.table import Table
from warplens.ranks.op_tables.what_if import COLUMNS
from warplens.ranks.own_pace import JobModel
from warplens.ranks.what_ifs import what_ifs


def job_what_if(model: JobModel) -> Table:
    meaning = "one row per part of the job that would be as in the median rank"
    if not model.is_known:
        return Table.from_rows("job_what_if", meaning, COLUMNS, [], "needs steps that all ranks recorded")
    return Table.from_rows("job_what_if", meaning, COLUMNS, what_ifs(model))

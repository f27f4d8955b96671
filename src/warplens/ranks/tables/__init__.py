"""The tables of a job, by name."""

from __future__ import annotations

from typing import Final

from warplens.model.table_entry import TableEntry, entries
from warplens.ranks.own_pace import JobModel
from warplens.ranks.tables.collectives import collective_kinds, collectives, groups, waits
from warplens.ranks.tables.exchange import all_to_all, exposed_by_module, pipeline
from warplens.ranks.tables.job_path import job_critical_path
from warplens.ranks.tables.per_rank import quality, rank_idle, rank_steps, ranks
from warplens.ranks.tables.step import breakdown, step_time
from warplens.ranks.tables.stragglers import stragglers_table
from warplens.ranks.tables.what_if import job_what_if

JOB_TABLES: Final[dict[str, TableEntry[JobModel]]] = {
    **entries(quality),
    "stragglers": TableEntry("stragglers", stragglers_table),
    **entries(
        step_time,
        breakdown,
        ranks,
        rank_steps,
        collective_kinds,
        groups,
        waits,
        pipeline,
        all_to_all,
        exposed_by_module,
        job_what_if,
        job_critical_path,
        rank_idle,
        collectives,
    ),
}

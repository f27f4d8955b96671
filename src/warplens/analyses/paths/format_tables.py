"""Tables that only files of one format have: their reader makes them, and kernels get their short names here."""

from __future__ import annotations

from typing import Final

from warplens.analyses.inside_kernels.counters import with_short_names
from warplens.analyses.paths.workspace import PathWorkspace
from warplens.model.table import Table
from warplens.model.table_entry import TableEntry

NEEDS: Final = {
    # table: what it is read from
    "counters": "a CSV page of Nsight Compute",
    "counter_stalls": "a raw CSV page of Nsight Compute",
    "counter_instructions": "a source page of Nsight Compute",
    "counter_rules": "a CSV page of Nsight Compute with the details of its rules",
}


def _entry(name: str, needs: str) -> TableEntry[PathWorkspace]:
    def exists(work: PathWorkspace) -> bool:
        return any(table.name == name for table in work.paths.extra)

    def make(work: PathWorkspace) -> Table:
        table = next(table for table in work.paths.extra if table.name == name)
        return with_short_names(table, work.categorizer) if "kernel" in table.frame.columns else table

    return TableEntry(name, make, exists, needs)


FORMAT_TABLES: Final = {name: _entry(name, needs) for name, needs in NEEDS.items()}

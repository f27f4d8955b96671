"""Two traces compared: `Pair` → Table. `DIFF_TABLES` are the tables in the order of a report.

`sides` chooses what of each trace is compared, `match` pairs the op calls of both, `columns` and `noise` compute
the columns that all tables share; `summary`, `times`, `ops`, `gpu_work` and `tree` make the tables. `report_tables`
compares two tables of the same name.
"""

from __future__ import annotations

from typing import Final

from warplens.analyses.diff.gpu_work import diff_categories, diff_host, diff_kernels, diff_layers, diff_modules
from warplens.analyses.diff.match import shares_matched
from warplens.analyses.diff.ops import diff_ops
from warplens.analyses.diff.sides import Pair, Side, gpu_steps, pair, pair_of_steps, steps_text
from warplens.analyses.diff.summary import diff_summary
from warplens.analyses.diff.times import diff_idle, diff_steps, diff_timeline
from warplens.model.table_entry import TableEntry, entries

DIFF_TABLES: Final[dict[str, TableEntry[Pair]]] = entries(
    diff_summary,
    diff_timeline,
    diff_idle,
    diff_steps,
    diff_categories,
    diff_ops,
    diff_kernels,
    diff_layers,
    diff_modules,
    diff_host,
)

__all__ = ["DIFF_TABLES", "Pair", "Side", "gpu_steps", "pair", "pair_of_steps", "shares_matched", "steps_text"]

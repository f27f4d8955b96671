"""Two traces compared: `Pair` → Table. `DIFF_TABLES` is the list of all tables in the order of a report."""

from __future__ import annotations

from typing import Final

from warplens.analyses.diff.match import shares_matched
from warplens.analyses.diff.ops import diff_ops
from warplens.analyses.diff.parts import diff_summary
from warplens.analyses.diff.sides import Pair, Side, pair
from warplens.analyses.diff.times import diff_idle, diff_steps, diff_timeline
from warplens.analyses.diff.work import diff_categories, diff_host, diff_kernels, diff_layers, diff_modules
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

__all__ = ["DIFF_TABLES", "Pair", "Side", "pair", "shares_matched"]

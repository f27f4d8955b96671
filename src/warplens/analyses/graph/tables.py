"""The tables made from a step's graph."""

from __future__ import annotations

from typing import Final

from warplens.analyses.graph.bounds import bounds
from warplens.analyses.graph.critical_path import critical_path
from warplens.analyses.graph.path_sums import critical_path_sums
from warplens.model.table_entry import entries

GRAPH_TABLES: Final = entries(bounds, critical_path, critical_path_sums, in_report=False)

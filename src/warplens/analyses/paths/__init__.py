"""CallPaths → Table: what a profile without a timeline has, in the order of a report.

`PATH_TABLES` are the tables of every such profile, `FORMAT_TABLES` those that only files of one format have.
`tree_display`, `node_selection` and `merged_trees` prepare trees for display and comparison; `gpu_lookup` identifies
the GPU.
"""

from __future__ import annotations

from typing import Final

from warplens.analyses.paths.all_paths import call_paths
from warplens.analyses.paths.format_tables import FORMAT_TABLES
from warplens.analyses.paths.kernels import kernel_categories, kernels, launch_categories
from warplens.analyses.paths.python_lines import python_lines
from warplens.analyses.paths.quality import quality
from warplens.analyses.paths.regions import regions
from warplens.analyses.paths.scopes import scopes
from warplens.analyses.paths.stalls import stalls
from warplens.analyses.paths.tree_display import shown_tree
from warplens.analyses.paths.workspace import PathWorkspace
from warplens.model.table_entry import TableEntry, entries

PATH_TABLES: Final[dict[str, TableEntry[PathWorkspace]]] = entries(
    quality,
    kernel_categories,
    kernels,
    launch_categories,
    scopes,
    python_lines,
    stalls,
    regions,
    call_paths,
)

__all__ = ["FORMAT_TABLES", "PATH_TABLES", "PathWorkspace", "shown_tree"]

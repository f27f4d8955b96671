"""CallPaths → Table. `PATH_TABLES` is the list of all tables of a profile without a timeline, in a report's order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from warplens.analyses.paths.callers import python_lines
from warplens.analyses.paths.kernels import kernel_categories, kernels, launch_categories
from warplens.analyses.paths.quality import quality
from warplens.analyses.paths.scopes import scopes
from warplens.analyses.paths.shown import shown_tree
from warplens.analyses.paths.stalls import stalls
from warplens.analyses.paths.whole import call_paths
from warplens.analyses.paths.workspace import PathWorkspace
from warplens.model.table import Table

PATH_TABLES: Final[dict[str, Callable[[PathWorkspace], Table]]] = {
    analysis.__name__: analysis
    for analysis in (
        quality,
        kernel_categories,
        kernels,
        launch_categories,
        scopes,
        python_lines,
        stalls,
        call_paths,
    )
}

__all__ = ["PATH_TABLES", "PathWorkspace", "shown_tree"]

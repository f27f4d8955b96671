"""Trace → Table. `TABLES` is the list of all tables in the order of a report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from warplens.analyses.activity import activity
from warplens.analyses.arguments import arguments
from warplens.analyses.chains import chains
from warplens.analyses.comm import comm
from warplens.analyses.counters import measured_kernels
from warplens.analyses.durations import kernel_durations, short_kernels
from warplens.analyses.gaps import gaps, idle
from warplens.analyses.kernels import kernel_categories, kernels, launch_categories
from warplens.analyses.launches import launches
from warplens.analyses.memory import memory, memory_ops
from warplens.analyses.modules import modules, python_lines
from warplens.analyses.ops import op_shapes, ops
from warplens.analyses.phases import phases
from warplens.analyses.quality import quality
from warplens.analyses.regions import regions
from warplens.analyses.roofline import PARAMS, ceilings, cost_coverage, family_table, roofline
from warplens.analyses.steps import steps
from warplens.analyses.timeline import timeline
from warplens.analyses.warp_regions import warp_regions
from warplens.analyses.workspace import Options, Workspace
from warplens.model.table import Table

TABLES: Final[dict[str, Callable[[Workspace], Table]]] = {
    analysis.__name__: analysis
    for analysis in (
        quality,
        timeline,
        kernel_categories,
        kernels,
        launch_categories,
        ops,
        op_shapes,
        arguments,
        roofline,
        *(family_table(family) for family in PARAMS),
        cost_coverage,
        ceilings,
        measured_kernels,
        chains,
        launches,
        phases,
        modules,
        python_lines,
        steps,
        idle,
        gaps,
        short_kernels,
        kernel_durations,
        activity,
        regions,
        warp_regions,
        comm,
        memory,
        memory_ops,
    )
}

__all__ = ["TABLES", "Options", "Workspace"]

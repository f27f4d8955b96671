"""A trace as the page draws it: its events, and how they belong to the tables."""

from __future__ import annotations

from collections.abc import Mapping

from warplens.analyses.page.members import members
from warplens.analyses.roofline.costing import costing
from warplens.analyses.time.gaps import named_gaps
from warplens.analyses.workspace import Workspace
from warplens.model.scene import Scene
from warplens.model.table import Table


def scene(work: Workspace, label: str, device: str, tables: Mapping[str, Table]) -> Scene:
    """`tables` are those that `members` divides the events over."""
    return Scene(
        label=label,
        device=device,
        trace=work.trace,
        kernels=work.kernel_facts.select("name", "kernel_short", "kernel_category"),
        owner=work.gpu["owner"].to_numpy(),
        call=costing(work).event_call,
        members=members(work, tables) if tables else {},
        gaps=named_gaps(work).select("device", "start_ns", "gap_ns", "cause"),
    )

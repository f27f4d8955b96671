"""`CallPaths`: a profile that holds sums by call path and no timeline (Proton's trees, kernel counters, op trees)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from warplens.model.quality import Quality
from warplens.model.trace import Meta

if TYPE_CHECKING:
    from warplens.model.table import Table
    from warplens.model.tree import Tree


@dataclass(frozen=True)
class CallPaths:
    """The tree of a file, with what the file says of the run.

    Kinds of nodes are those of events (`KINDS`), "root", and "line" for a source line inside a kernel. Times and
    counts of `tree` are those of GPU work, in ns; where a file has no times they are 0 and its metrics are what it has.
    `device` gives each node the number of the GPU that it ran on, -1 where that is not said. `extra` are tables that
    only this format has, `source_lines` the texts of lines of kernels, by file and number, where they were recorded.
    """

    meta: Meta
    tree: Tree
    quality: Quality = field(default_factory=Quality)
    device: tuple[int, ...] = ()
    extra: tuple[Table, ...] = ()
    source_lines: Mapping[tuple[str, int], str] = field(default_factory=dict)

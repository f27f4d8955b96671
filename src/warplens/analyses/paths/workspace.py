"""What the analyses of call paths share: the tree, the categories of its kernels and the callers of each."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.workspace import Options
from warplens.categories import Categorizer, load_categorizer, op_category, short_name
from warplens.hardware import Gpu
from warplens.model.call_paths import CallPaths
from warplens.model.kinds import GPU_WORK, NONE
from warplens.model.trace import Bools, Ints
from warplens.model.tree import Tree
from warplens.model.user_code import is_own_frame

NO_SCOPE: Final = "(outside any scope)"
GRAPH: Final = "<captured_at>"
"""How Proton marks, below the launch of a graph, where its kernels were captured."""
CALLERS: Final = ("annotation", "python", "module", "op", "overhead")
LAUNCHING: Final = re.compile(
    r"(?:.*/)?triton/(?:profiler|runtime|backends|compiler)/|(?:.*/)?triton/(?:knobs|testing)\.py\("
)
"""Frames between a call of a Triton kernel and its launch: the same for every kernel."""
CPLUSPLUS: Final = re.compile(r"_Z|.*(?:::|\()", re.DOTALL)


@dataclass(frozen=True)
class PathWorkspace:
    """A profile of call paths with everything that several analyses need, computed once and on demand."""

    paths: CallPaths
    categorizer: Categorizer = field(default_factory=load_categorizer)
    options: Options = field(default_factory=Options)
    hardware: Gpu | None = None
    """The GPU that worked, as the table of hardware knows it; None where it does not."""

    @property
    def tree(self) -> Tree:
        return self.paths.tree

    @cached_property
    def gpu_nodes(self) -> Ints:
        """The nodes that represent GPU work: kernels, and any other node with time of its own."""
        is_kernel = np.array([kind in GPU_WORK for kind in self.tree.kind], bool)
        return np.flatnonzero(is_kernel | (self.tree.self_ns > 0))

    @cached_property
    def kernel_nodes(self) -> Ints:
        """The nodes that GPU time is booked on; none in a profile without times."""
        return self.gpu_nodes if self.gpu_total_ns else self.gpu_nodes[:0]

    @cached_property
    def gpu(self) -> pl.DataFrame:
        """One row per such node: the kernel's names and category, its caller, GPU, time and count."""
        tree, rows = self.tree, self.kernel_nodes.tolist()
        names = [tree.name[row] for row in rows]
        device = np.array(self.paths.device or (NONE,) * len(tree), np.int64)[self.kernel_nodes]
        owner = self.callers[self.kernel_nodes].tolist()
        frame = pl.DataFrame(
            {
                "node": self.kernel_nodes,
                "kernel": names,
                "kernel_short": [self.short_names[name] for name in names],
                "kernel_category": [kernel_class.category for kernel_class in self.categorizer.classify_all(names)],
                "op": [tree.name[node] if node >= 0 else NO_SCOPE for node in owner],
                "device": device,
                "dur_ns": tree.self_ns[self.kernel_nodes],
                "count": tree.self_count[self.kernel_nodes],
                "in_graph": self.in_graph[self.kernel_nodes],
            },
            schema_overrides=dict.fromkeys(("kernel", "kernel_short", "kernel_category", "op"), pl.String),
        ).with_columns(pl.when(pl.col("device") >= 0).then("device").cast(pl.Int32, strict=False).alias("device"))
        return frame.join(_op_categories(frame), on="op", how="left", maintain_order="left")

    @cached_property
    def short_names(self) -> dict[str, str]:
        """The short form of each kernel's name.

        Names that users give their launches (`matmul_<grid:64>`, `matmul_<grid:256>`) stay as they are where they
        would else become one.
        """
        names = sorted({self.tree.name[node] for node in self.gpu_nodes.tolist()})
        short = {name: short_name(name) for name in names}
        given = Counter(short[name] for name in names if not CPLUSPLUS.match(name))
        return {name: name if given[text] > 1 and not CPLUSPLUS.match(name) else text for name, text in short.items()}

    @cached_property
    def callers(self) -> Ints:
        """For each node the innermost scope or frame around it, without the frames that launch Triton's kernels."""
        tree = self.tree
        any_caller = [kind in CALLERS for kind in tree.kind]
        is_specific = [
            kind in CALLERS and not (kind == "python" and LAUNCHING.match(name))
            for kind, name in zip(tree.kind, tree.name, strict=True)
        ]
        nearest = self.nearest(is_specific)
        return np.where(nearest >= 0, nearest, self.nearest(any_caller))

    @cached_property
    def gpu_total_ns(self) -> int:
        return int(self.tree.total_ns[0])

    @cached_property
    def in_graph(self) -> Bools:
        """Which nodes are below the launch of a graph."""
        return self.nearest([name == GRAPH for name in self.tree.name]) >= 0

    @cached_property
    def user_line(self) -> Ints:
        """For each node the nearest Python frame around it outside the framework, -1 for none."""
        tree = self.tree
        return self.nearest(
            [kind == "python" and is_own_frame(name) for kind, name in zip(tree.kind, tree.name, strict=True)]
        )

    def nearest(self, wanted: list[bool]) -> Ints:
        """For each node the nearest wanted one strictly around it, -1 for none."""
        nearest_wanted = np.full(len(self.tree), NONE, np.int64)
        for node in range(1, len(self.tree)):
            above = int(self.tree.parent[node])
            nearest_wanted[node] = above if wanted[above] else nearest_wanted[above]
        return nearest_wanted


def _op_categories(frame: pl.DataFrame) -> pl.DataFrame:
    times = frame.group_by("op", "kernel_category", maintain_order=True).agg(pl.col("dur_ns").sum())
    shares: dict[str, dict[str, float]] = {}
    for op, category, duration in times.iter_rows():
        shares.setdefault(op, {})[category] = duration
    rows = {"op": list(shares), "op_category": [op_category(op, share) for op, share in shares.items()]}
    return pl.DataFrame(rows, schema={"op": pl.String, "op_category": pl.String})

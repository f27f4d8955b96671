"""A call tree as terminal text or rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from warplens.errors import UsageError
from warplens.model.tree import Tree
from warplens.outputs.terminal import TableText
from warplens.outputs.text import clean, elide

Metric = Callable[[Tree, int], float]

METRICS: dict[str, tuple[Metric, str]] = {
    # metric: (value of a node, format)
    "gpu_us": (lambda tree, node: tree.total_ns[node] / 1e3, "{:,.1f}"),
    "self_us": (lambda tree, node: tree.self_ns[node] / 1e3, "{:,.1f}"),
    "percent": (lambda tree, node: 100 * tree.total_ns[node] / max(1, tree.total_ns[0]), "{:.1f}%"),
    "count": (lambda tree, node: tree.total_count[node], "{:,.0f}"),
    "avg_us": (lambda tree, node: tree.total_ns[node] / 1e3 / max(1, tree.total_count[node]), "{:,.1f}"),
}


@dataclass(frozen=True)
class TreeView:
    """What of a tree to show, and in which order."""

    metrics: tuple[str, ...] = ("gpu_us", "percent", "count")
    sort: str = "gpu_us"
    threshold_percent: float = 1.0
    max_depth: int | None = None
    full_names: bool = False

    def __post_init__(self) -> None:
        for name in (*self.metrics, *([] if self.sort == "name" else [self.sort])):
            if name not in METRICS:
                raise UsageError(f"no metric {name!r}", hint=f"one of: {', '.join(METRICS)}")


def visible(tree: Tree, view: TreeView) -> list[tuple[int, int]]:
    """(node, depth) of what the view shows, depth first, siblings in the view's order."""
    least = view.threshold_percent / 100 * max(1, int(tree.total_ns[0]))
    children: list[list[int]] = [[] for _ in range(len(tree))]
    for node in range(1, len(tree)):
        children[int(tree.parent[node])].append(node)
    shown: list[tuple[int, int]] = []
    stack = [(0, 0)]
    while stack:
        node, depth = stack.pop()
        shown.append((node, depth))
        if view.max_depth is not None and depth >= view.max_depth:
            continue
        kept = [child for child in children[node] if tree.total_ns[child] >= least]
        kept.sort(key=lambda child: _order(tree, view, child), reverse=True)
        stack.extend((child, depth + 1) for child in kept)
    return shown


def _order(tree: Tree, view: TreeView, node: int) -> tuple[float, str]:
    """Ascending: smaller is shown first, so metrics are negated and ties go by name."""
    return (0.0 if view.sort == "name" else -METRICS[view.sort][0](tree, node), tree.name[node])


def render_tree(tree: Tree, view: TreeView, *, width: int) -> TableText:
    rows = visible(tree, view)
    cells = [[METRICS[name][1].format(METRICS[name][0](tree, node)) for name in view.metrics] for node, _ in rows]
    widths = [max(len(name), *(len(row[at]) for row in cells)) for at, name in enumerate(view.metrics)]
    header = "  ".join(name.rjust(size) for name, size in zip(view.metrics, widths, strict=True))
    room = max(20, width - len(header) - 2)
    lines = [(f"{header}  {tree.weight} by call path", "bold")]
    for (node, depth), row in zip(rows, cells, strict=True):
        numbers = "  ".join(cell.rjust(size) for cell, size in zip(row, widths, strict=True))
        indent = "  " * min(depth, room // 4)
        lines.append((f"{numbers}  {indent}{elide(clean(tree.name[node]), room - len(indent), middle=True)}", "none"))
    hidden = len(tree) - len(rows)
    if hidden:
        lines.append((f"… {hidden:,} nodes not shown (below {view.threshold_percent:g} % or too deep)", "dim"))
    return TableText(tuple(lines))


def tree_rows(tree: Tree, view: TreeView) -> bytes:
    """The shown nodes as one JSON array of objects, parents before children."""
    number = {node: row for row, (node, _) in enumerate(visible(tree, view))}
    rows = []
    for node, depth in visible(tree, view):
        parent = number.get(int(tree.parent[node])) if node else None
        metrics: dict[str, float] = {name: float(METRICS[name][0](tree, node)) for name in METRICS}
        metrics["count"] = int(tree.total_count[node])
        rows.append({"node": number[node], "parent": parent, "depth": depth, "name": tree.name[node],
                     "kind": tree.kind[node], **metrics})  # fmt: skip
    return msgspec.json.encode(rows)

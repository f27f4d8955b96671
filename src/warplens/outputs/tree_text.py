"""A call tree as terminal text or as a table: what is shown of it is computed elsewhere and handed in as columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from warplens.model.table import Column, Table
from warplens.model.trace import Bools
from warplens.model.tree import Floats, Tree
from warplens.outputs.cells import number_style
from warplens.outputs.terminal import TableText
from warplens_run.base.printable import clean
from warplens_run.base.text import elide
from warplens_run.base.units import MISSING

NODE_COLUMNS = (
    Column("node", "number of the node; parents come before their children", "", pl.Int64),
    Column("parent", "node above it, empty for the root", "", pl.Int64),
    Column("depth", "nodes above it", "", pl.Int64),
    Column("name", "scope, module, op, frame, kernel or source line", "", pl.String),
    Column("kind", "kind of the node", "", pl.String),
)
LEAST_ROOM = 20


@dataclass(frozen=True)
class TreeColumn:
    """One number of every node; NaN where it has none."""

    name: str
    values: Floats
    unit: str = ""
    meaning: str = ""
    signed: bool = False
    head: str = ""
    """What a terminal shows above it, where that is not its name."""

    @property
    def declared(self) -> Column:
        """The column of a table; counts are integers there."""
        dtype = pl.Int64 if self.unit == "count" else pl.Float64
        return Column(self.name, self.meaning or self.name, self.unit, dtype)

    def texts(self, nodes: Sequence[int]) -> list[str]:
        style = number_style(self.declared).text
        return [self._text(float(self.values[node]), style) for node in nodes]

    def _text(self, value: float, style: Callable[[float], str]) -> str:
        if not math.isfinite(value):
            return MISSING
        return f"+{style(value)}" if self.signed and value > 0 else style(value)


@dataclass(frozen=True)
class TreeView:
    """What of a tree to show, and in which order.

    Siblings come by the first of `order` in which they differ, largest first, then by name. Of a node that is not
    `shown` nothing below is either; `why_hidden` says in words what those have in common.
    """

    columns: tuple[TreeColumn, ...]
    order: tuple[Floats, ...] = ()
    shown: Bools | None = None
    max_depth: int | None = None
    why_hidden: str = "too deep"
    heading: str = ""


def visible(tree: Tree, view: TreeView) -> list[tuple[int, int]]:
    """(node, depth) of what the view shows, depth first, siblings in the view's order."""
    children: list[list[int]] = [[] for _ in range(len(tree))]
    for node in range(1, len(tree)):
        if view.shown is None or view.shown[node]:
            children[int(tree.parent[node])].append(node)
    visited: list[tuple[int, int]] = []
    stack = [(0, 0)]
    while stack:
        node, depth = stack.pop()
        visited.append((node, depth))
        if view.max_depth is None or depth < view.max_depth:
            ordered = sorted(children[node], key=lambda child: _order(tree, view, child), reverse=True)
            stack.extend((child, depth + 1) for child in ordered)
    return visited


def _order(tree: Tree, view: TreeView, node: int) -> tuple[tuple[float, ...], str]:
    return tuple(-float(np.nan_to_num(values[node], nan=-np.inf)) for values in view.order), tree.name[node]


def render_tree(tree: Tree, view: TreeView, *, width: int) -> TableText:
    rows = visible(tree, view)
    header, numbers = _numbers(view, [node for node, _ in rows])
    room = max(LEAST_ROOM, width - len(header) - 2)
    lines = [(f"{header}  {view.heading or f'{tree.weight} by call path'}", "bold")]
    for (node, depth), text in zip(rows, numbers, strict=True):
        indent = "  " * min(depth, room // 4)
        lines.append((f"{text}  {indent}{elide(clean(tree.name[node]), room - len(indent), middle=True)}", "none"))
    return TableText((*lines, *_hidden(tree, view, len(rows))))


def render_list(tree: Tree, view: TreeView, *, width: int) -> TableText:
    """The same nodes without the root as one list, the largest first, each with the path that leads to it."""
    nodes = sorted((node for node, _ in visible(tree, view) if node), key=lambda node: _order(tree, view, node))
    header, numbers = _numbers(view, nodes)
    room = max(LEAST_ROOM, width - len(header) - 2)
    lines = [(f"{header}  name ← its callers", "bold")]
    for node, text in zip(nodes, numbers, strict=True):
        lines.append((f"{text}  {elide(' ← '.join(map(clean, reversed(tree.path(node)))), room)}", "none"))
    return TableText((*lines, *_hidden(tree, view, len(nodes) + 1)))


def _numbers(view: TreeView, nodes: list[int]) -> tuple[str, list[str]]:
    """The header of the columns, and a line of them for each node."""
    cells = [column.texts(nodes) for column in view.columns]
    names = [column.head or column.name for column in view.columns]
    widths = [max(map(len, (name, *texts))) for name, texts in zip(names, cells, strict=True)]
    rows = [names, *(list(row) for row in zip(*cells, strict=True))] if cells else [[], *([] for _ in nodes)]
    header, *lines = ("  ".join(text.rjust(size) for text, size in zip(row, widths, strict=True)) for row in rows)
    return header, lines


def _hidden(tree: Tree, view: TreeView, shown: int) -> list[tuple[str, str]]:
    hidden = len(tree) - shown
    return [(f"… {hidden:,} nodes not shown ({view.why_hidden})", "dim")] if hidden else []


def tree_table(tree: Tree, view: TreeView) -> Table:
    """The shown nodes as rows, parents before children."""
    rows = visible(tree, view)
    nodes = [node for node, _ in rows]
    number = {node: row for row, node in enumerate(nodes)}
    frame = pl.DataFrame(
        {
            "node": range(len(nodes)),
            "parent": [number[int(tree.parent[node])] if node else None for node in nodes],
            "depth": [depth for _, depth in rows],
            "name": [tree.name[node] for node in nodes],
            "kind": [tree.kind[node] for node in nodes],
        },
        schema={column.name: column.dtype for column in NODE_COLUMNS},
    )
    taken = {column.name for column in NODE_COLUMNS}
    columns = [column for column in view.columns if column.name not in taken]
    frame = frame.with_columns([_series(column, nodes) for column in columns])
    described = (column.declared for column in columns)
    return Table.from_frame("tree", f"one row per node: {tree.weight} by call path", (*NODE_COLUMNS, *described), frame)


def _series(column: TreeColumn, nodes: list[int]) -> pl.Series:
    values = pl.Series(column.name, column.values[nodes], dtype=pl.Float64).fill_nan(None)
    return values if column.declared.dtype == pl.Float64 else values.round().cast(column.declared.dtype)

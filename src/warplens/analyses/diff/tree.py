"""`diff_tree`: two call trees merged by path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import polars as pl

from warplens.analyses.diff.columns import COUNTS, TIMES
from warplens.analyses.diff.sides import Pair
from warplens.analyses.trees.call_tree import call_tree
from warplens.model.diff_rows import BOTH, ONLY_A, ONLY_B
from warplens.model.table import Column, Table
from warplens.model.tree import Tree

COLUMNS = (
    Column("node", "number of the node; parents come before their children", "", pl.Int64),
    Column("parent", "node above it, empty for the root", "", pl.Int64),
    Column("depth", "nodes above it", "", pl.Int64),
    Column(
        "name", "module, op, frame or kernel; A → B for kernels of one category that replace each other", "", pl.String
    ),
    Column("kind", "kind of the node", "", pl.String),
    *TIMES[:4],
    Column("status", "both, only in A, or only in B", "", pl.String),
    *COUNTS,
)
NUMBERS = ("a_ns", "b_ns", "a_count", "b_count")


@dataclass
class _Merged:
    """Nodes of both trees while they are being put together; equal paths are one node."""

    parent: list[int] = field(default_factory=list)
    name: list[str] = field(default_factory=list)
    kind: list[str] = field(default_factory=list)
    numbers: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in NUMBERS})
    index: dict[tuple[int, str], int] = field(default_factory=dict)

    def node(self, parent: int, name: str, kind: str) -> int:
        number = self.index.get((parent, name))
        if number is None:
            number = self.index[parent, name] = len(self.name)
            self.parent.append(parent)
            self.name.append(name)
            self.kind.append(kind)
            for column in self.numbers.values():
                column.append(0.0)
        return number

    def add(self, tree: Tree, side: str, runs: int) -> None:
        merged: list[int] = []
        for node in range(len(tree)):
            above = merged[int(tree.parent[node])] if node else -1
            merged.append(self.node(above, tree.name[node], tree.kind[node]))
            self.numbers[f"{side}_ns"][merged[-1]] += float(tree.total_ns[node]) / runs
            self.numbers[f"{side}_count"][merged[-1]] += float(tree.total_count[node]) / runs


def default_context(pair: Pair) -> str:
    """By module where both traces have modules, else by op."""
    return "module" if all(side.work.trace.is_kind("module").any() for side in pair.sides) else "op"


def diff_tree(pair: Pair, context: str | None = None) -> Table:
    """GPU time by call path in both traces; siblings with the largest difference first."""
    shown = context or default_context(pair)
    a, b = ((call_tree(side.work, shown, chosen=side.chosen), side.runs) for side in pair.sides)
    return diff_of_trees(a, b, _categories(pair), shown, pair.notes)


def diff_of_trees(
    a: tuple[Tree, int], b: tuple[Tree, int], categories: Mapping[str, str], shown: str, notes: Iterable[str] = ()
) -> Table:
    """Two trees, each with the number of runs that it is the sum of; `categories` are those of the kernels' names."""
    merged = _Merged()
    for side, (tree, runs) in (("a", a), ("b", b)):
        merged.add(tree, side, runs)
    gone = _join_replaced(merged, categories)
    meaning = f"one row per call path ({shown}), A against B"
    return Table.from_rows("diff_tree", meaning, COLUMNS, _rows(merged, gone), *notes)


def _categories(pair: Pair) -> dict[str, str]:
    facts = [side.work.kernel_facts.select("kernel_short", "kernel_category").rows() for side in pair.sides]
    return {name: category for rows in facts for name, category in rows}


def _join_replaced(merged: _Merged, categories: Mapping[str, str]) -> set[int]:
    """Two kernels of one category under one caller, each in one trace only, become one node; returns the spare ones."""
    a_count, b_count = merged.numbers["a_count"], merged.numbers["b_count"]
    single: dict[tuple[int, str], tuple[list[int], list[int]]] = {}
    for node, kind in enumerate(merged.kind):
        if kind == "kernel" and not (a_count[node] and b_count[node]):
            key = (merged.parent[node], categories.get(merged.name[node], ""))
            single.setdefault(key, ([], []))[0 if a_count[node] else 1].append(node)
    gone: set[int] = set()
    for only_a, only_b in single.values():
        if len(only_a) == len(only_b) == 1:
            first, second = only_a[0], only_b[0]
            merged.name[first] = f"{merged.name[first]} → {merged.name[second]}"
            for name in ("b_ns", "b_count"):
                merged.numbers[name][first] = merged.numbers[name][second]
            gone.add(second)
    return gone


def _rows(merged: _Merged, gone: set[int]) -> list[tuple[object, ...]]:
    """Depth first, the largest difference first among siblings."""
    a_ns, b_ns = merged.numbers["a_ns"], merged.numbers["b_ns"]
    children: list[list[int]] = [[] for _ in merged.name]
    for node in range(1, len(merged.name)):
        if node not in gone:
            children[merged.parent[node]].append(node)
    rows: list[tuple[object, ...]] = []
    stack: list[tuple[int, int | None, int]] = [(0, None, 0)]
    while stack:
        node, parent, depth = stack.pop()
        number = len(rows)
        a, b = a_ns[node] / 1e3, b_ns[node] / 1e3
        counts = (merged.numbers["a_count"][node], merged.numbers["b_count"][node])
        status = BOTH if all(counts) or not any(counts) else ONLY_A if counts[0] else ONLY_B
        ratio = b / a if a else None
        rows.append((number, parent, depth, merged.name[node], merged.kind[node], a, b, b - a, ratio, status, *counts))
        below = sorted(children[node], key=lambda child: (abs(b_ns[child] - a_ns[child]), merged.name[child]))
        stack.extend((child, number, depth + 1) for child in below)
    return rows

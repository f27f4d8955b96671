"""`Tree`: call paths with metrics, aggregated: equal paths are one node."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from warplens.model.notebook import MOST_ROWS, shown
from warplens.model.trace import Ints
from warplens_run.base import bounded
from warplens_run.base.units import format_ns, plural

Floats = npt.NDArray[np.float64]
EXCLUSIVE: Final = " (exc)"
"""Suffix of metrics that belong to their node alone and are not part of any sum."""


@dataclass(frozen=True)
class Tree:
    """Nodes with parents before their children; node 0 is the root, which stands for everything.

    `self_ns` and `self_count` are what a node has besides its children; `total_ns` and `total_count` include
    them. `metrics` are further sums (flops, bytes, samples …) that a node has besides its children, one array each.
    """

    name: list[str]
    kind: list[str]
    parent: Ints
    depth: Ints
    self_ns: Ints
    self_count: Ints
    total_ns: Ints
    total_count: Ints
    weight: str = "GPU time"
    metrics: Mapping[str, Floats] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.name)

    def __repr__(self) -> str:
        """One line: the root's time and how many call paths there are."""
        total = format_ns(int(self.total_ns[0])) if len(self) else "none"
        return f"<Tree of {plural(len(self), 'node')}: {total} {self.weight}>"

    def _repr_html_(self) -> str:
        """The heaviest nodes, callers above callees."""
        heaviest = set(np.argsort(-self.total_ns, kind="stable")[:MOST_ROWS].tolist())
        nodes = [node for node, _ in self.walk() if node in heaviest]
        frame = pl.DataFrame(
            {
                "depth": self.depth[nodes],
                "name": bounded.texts([self.name[node] for node in nodes])[0],
                "total_ms": self.total_ns[nodes] / 1e6,
                "count": self.total_count[nodes],
            }
        )
        return shown(repr(self), frame)

    @cached_property
    def metric_names(self) -> Mapping[str, str]:
        """The metrics by what they may be called: their name, with its unit after `_`, and without that."""
        keys = {key.removesuffix(EXCLUSIVE).casefold(): key for key in reversed(list(self.metrics))}
        spelled = {spelled_unit(name): key for name, key in keys.items()}
        without_unit = {re.sub(r"_(?:s|ms|us|ns)$", "", name): key for name, key in spelled.items()}
        return without_unit | spelled | keys

    def children(self) -> list[list[int]]:
        """The children of every node, heaviest first."""
        lists: list[list[int]] = [[] for _ in self.name]
        for node in np.argsort(-self.total_ns, kind="stable").tolist():
            if self.parent[node] >= 0:
                lists[int(self.parent[node])].append(node)
        return lists

    def walk(self) -> Iterator[tuple[int, int]]:
        """(node, depth) depth first, heaviest child first."""
        children = self.children()
        stack = [(0, 0)] if len(self) else []
        while stack:
            node, depth = stack.pop()
            yield node, depth
            stack.extend((child, depth + 1) for child in reversed(children[node]))

    def path(self, node: int) -> list[str]:
        """Names from below the root down to the node."""
        names = []
        while node > 0:
            names.append(self.name[node])
            node = int(self.parent[node])
        return names[::-1]

    def total(self, metric: str) -> Floats:
        """A metric of every node with all that is below it."""
        totals: Floats = self.metrics[metric].astype(np.float64)
        for node in range(len(self) - 1, 0, -1):
            totals[self.parent[node]] += totals[node]
        return totals

    def with_metrics(self, metrics: Mapping[str, Floats]) -> Tree:
        """This tree with these metrics, given per node without its children."""
        return replace(self, metrics=dict(metrics))

    def self_check(self) -> None:
        """Each node's total is its own plus its children's, and the leaves add up to the root."""
        totals = self.self_ns.copy()
        for node in range(len(self) - 1, 0, -1):
            totals[self.parent[node]] += totals[node]
        if len(self) and not np.array_equal(totals, self.total_ns):
            raise AssertionError("a node's total is not its own time plus its children's")


def build_tree(parent: Ints, name: list[str], kind: list[str], self_ns: Ints, self_count: Ints, weight: str) -> Tree:
    """A tree from nodes whose parents come before them; totals are added up here."""
    total_ns, total_count = self_ns.copy(), self_count.copy()
    depth = np.zeros(len(parent), np.int64)
    for node in range(len(parent) - 1, 0, -1):
        total_ns[parent[node]] += total_ns[node]
        total_count[parent[node]] += total_count[node]
    for node in range(1, len(parent)):
        depth[node] = depth[parent[node]] + 1
    return Tree(name, kind, parent, depth, self_ns, self_count, total_ns, total_count, weight)


def spelled_unit(name: str) -> str:
    """A metric's name as it is typed.

    >>> spelled_unit("cpu_time (ns)"), spelled_unit("tokens")
    ('cpu_time_ns', 'tokens')
    """
    return re.sub(r"(?<! ) *\((\w+)\)$", r"_\1", name)


def _sums(nodes: list[int], values: Floats, size: int) -> Floats:
    sums: Floats = np.bincount(nodes, values, size).astype(np.float64)
    return sums


def without(tree: Tree, pattern: re.Pattern[str]) -> Tree:
    """The tree less the nodes whose names match; what they called moves up to their callers."""
    return _rebuilt(tree, [node > 0 and pattern.search(name) is not None for node, name in enumerate(tree.name)])


def keep_paths(tree: Tree, pattern: re.Pattern[str]) -> Tree:
    """Only the paths that hold a matching name: time outside them is left out of every total."""
    below = np.zeros(len(tree), bool)
    for node in range(1, len(tree)):
        below[node] = below[tree.parent[node]] or pattern.search(tree.name[node]) is not None
    kept = below.copy()
    for node in range(len(tree) - 1, 0, -1):
        if kept[node]:
            kept[tree.parent[node]] = True
    kept[0] = True
    own = np.where(below, tree.self_ns, 0), np.where(below, tree.self_count, 0)
    rows = np.flatnonzero(kept)
    number = np.cumsum(kept) - 1
    parent = np.where(tree.parent[rows] >= 0, number[tree.parent[rows]], -1)
    names, kinds = [tree.name[row] for row in rows], [tree.kind[row] for row in rows]
    metrics = {metric: np.where(below, values, 0)[rows] for metric, values in tree.metrics.items()}
    return build_tree(parent, names, kinds, own[0][rows], own[1][rows], tree.weight).with_metrics(metrics)


def _rebuilt(tree: Tree, dropped: list[bool]) -> Tree:
    """The tree with dropped nodes folded into their parents; equal siblings become one."""
    index: dict[tuple[int, str], int] = {}
    new_node = [0]
    parent, name, kind = [-1], [tree.name[0]], [tree.kind[0]]
    self_ns, count = [int(tree.self_ns[0])], [int(tree.self_count[0])]
    for node in range(1, len(tree)):
        above = new_node[int(tree.parent[node])]
        if dropped[node]:
            target = above
        else:
            target = index.setdefault((above, tree.name[node]), len(name))
            if target == len(name):
                parent.append(above)
                name.append(tree.name[node])
                kind.append(tree.kind[node])
                self_ns.append(0)
                count.append(0)
        self_ns[target] += int(tree.self_ns[node])
        count[target] += int(tree.self_count[node])
        new_node.append(target)
    metrics = {metric: _sums(new_node, values, len(name)) for metric, values in tree.metrics.items()}
    rebuilt = build_tree(np.array(parent), name, kind, np.array(self_ns), np.array(count), tree.weight)
    return rebuilt.with_metrics(metrics)

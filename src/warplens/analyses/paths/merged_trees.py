"""Two call trees as one: equal paths are one node."""

from __future__ import annotations

import numpy as np

from warplens.model.trace import Ints
from warplens.model.tree import Floats, Tree, build_tree


class MergedTrees:
    """The nodes of both trees; `spread` puts what one of them has at its own nodes."""

    def __init__(self, first: Tree, second: Tree) -> None:
        self._index: dict[tuple[int, str], int] = {}
        self._parent: list[int] = []
        self._name: list[str] = []
        self._kind: list[str] = []
        self._places = (self._add(first), self._add(second))
        nothing = np.zeros(len(self._name), np.int64)
        parent = np.array(self._parent, np.int64)
        self.tree = build_tree(parent, self._name, self._kind, nothing, nothing, first.weight)

    def _add(self, tree: Tree) -> Ints:
        merged_nodes: list[int] = []
        for node in range(len(tree)):
            above = merged_nodes[int(tree.parent[node])] if node else -1
            # Both roots represent everything, whatever their names.
            merged = self._index.setdefault((above, tree.name[node] if node else ""), len(self._name))
            if merged == len(self._name):
                self._parent.append(above)
                self._name.append(tree.name[node])
                self._kind.append(tree.kind[node])
            merged_nodes.append(merged)
        return np.array(merged_nodes, np.int64)

    def spread(self, side: int, values: Floats, missing: float) -> Floats:
        """Values of the nodes of one tree, at the nodes of both; `missing` for those it does not have."""
        spread_values = np.full(len(self._name), missing)
        spread_values[self._places[side]] = values
        return spread_values

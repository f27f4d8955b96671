"""A call tree upside down: what took the time comes first, and below it who called it."""

from __future__ import annotations

import numpy as np

from warplens.model.paths import groups
from warplens.model.tree import Tree, build_tree


def inverted(tree: Tree) -> Tree:
    """The tree whose paths are those of `tree` backwards; a path's time ends up at its outermost caller."""
    codes: dict[str, int] = {}
    label = np.array([codes.setdefault(name, len(codes)) for name in tree.name], np.int64)
    at = np.flatnonzero((tree.self_ns > 0) | (tree.self_count > 0))
    node, paths = np.zeros(len(at), np.int64), np.arange(len(at))
    parents, sources, size = [np.array([-1])], [np.array([0])], 1
    callee = at.copy()
    while len(paths := paths[callee[paths] > 0]):
        first, group = groups(node[paths] * len(codes) + label[callee[paths]])
        parents.append(node[paths[first]])
        sources.append(callee[paths[first]])
        node[paths] = size + group
        size += len(first)
        callee[paths] = tree.parent[callee[paths]]
    self_ns, self_count = np.zeros(size, np.int64), np.zeros(size, np.int64)
    np.add.at(self_ns, node, tree.self_ns[at])
    np.add.at(self_count, node, tree.self_count[at])
    source = np.concatenate(sources).tolist()
    names, kinds = [tree.name[node] for node in source], [tree.kind[node] for node in source]
    return build_tree(np.concatenate(parents), names, kinds, self_ns, self_count, tree.weight)

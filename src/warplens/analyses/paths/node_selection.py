"""Which nodes of a tree are worth showing."""

from __future__ import annotations

import numpy as np

from warplens.model.trace import Bools
from warplens.model.tree import Floats, Tree

SAMPLES = "num_samples"


def large_nodes(tree: Tree, percent: float, otherwise: Floats) -> Bools:
    """Nodes with at least this share of the GPU time or, inside kernels, of the samples; else of another amount."""
    weights: list[Floats] = [tree.total_ns.astype(np.float64)] if tree.total_ns[0] else []
    weights += [tree.total(SAMPLES)] if SAMPLES in tree.metrics else []
    reached = np.zeros(len(tree), bool)
    for weight in weights or [np.nan_to_num(otherwise)]:
        reached |= weight >= percent / 100 * abs(weight[0])
    return reached


def with_callers(tree: Tree, chosen: Bools) -> Bools:
    """These nodes and all above them."""
    kept = chosen.astype(bool)
    for node in range(len(tree) - 1, 0, -1):
        if kept[node]:
            kept[tree.parent[node]] = True
    return kept

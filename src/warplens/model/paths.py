"""Call paths made into tree nodes, a level at a time: equal paths become one node."""

from __future__ import annotations

import msgspec
import numpy as np

from warplens.model.trace import Ints


class PathNodes(msgspec.Struct, frozen=True):
    """`node` has one entry per call, the rest one per node; node 0 is the root, parents come before children."""

    node: Ints
    parent: Ints
    label: Ints
    first: Ints
    """The first call of each node; -1 for the root."""


def merge_paths(outer: Ints, label: Ints) -> PathNodes:
    """The nodes of calls, each given by the call around it (-1: none) and the number of its label."""
    node = np.zeros(len(outer), np.int64)
    parents, labels, firsts = [np.array([-1])], [np.array([-1])], [np.array([-1])]
    size = 1
    labels_in_all = int(label.max(initial=0)) + 1
    for calls in _levels(outer):
        above = np.where(outer[calls] >= 0, node[outer[calls]], 0)
        first, group = groups(above * labels_in_all + label[calls])
        node[calls] = size + group
        parents.append(above[first])
        labels.append(label[calls[first]])
        firsts.append(calls[first])
        size += len(first)
    return PathNodes(node, np.concatenate(parents), np.concatenate(labels), np.concatenate(firsts))


def depths(outer: Ints) -> Ints:
    """How many calls are around each."""
    # Jumps that double in length: ten rounds for a thousand levels, where one step a round would take them all.
    depth, jump = (outer >= 0).astype(np.int64), outer.astype(np.int64)
    active = np.flatnonzero(jump >= 0)
    while len(active):
        at = jump[active]
        depth[active] += depth[at]
        jump[active] = jump[at]
        active = active[jump[active] >= 0]
    return depth


def _levels(outer: Ints) -> list[Ints]:
    """The calls by depth."""
    depth = depths(outer)
    order = np.argsort(depth, kind="stable")
    edges = np.flatnonzero(np.diff(depth[order])) + 1
    return np.split(order, edges) if len(order) else []


def groups(key: Ints) -> tuple[Ints, Ints]:
    """Equal keys get one number, counted in the order of their first places; those places, and each key's number."""
    order = np.argsort(key, kind="stable")
    starts = np.ones(len(key), bool)
    starts[1:] = key[order][1:] != key[order][:-1]
    first = order[starts]
    by_place = np.argsort(first)
    rank = np.empty_like(by_place)
    rank[by_place] = np.arange(len(first))
    group = np.empty(len(key), np.int64)
    group[order] = rank[np.cumsum(starts) - 1]
    return first[by_place], group

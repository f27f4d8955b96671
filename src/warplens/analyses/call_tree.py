"""The call tree of GPU time: who, up to the user's own code, caused each kernel.

Every kernel hangs under its launch's op, the ops around that, and the frames, modules or annotations that the
chosen context asks for. Backward kernels hang under the forward op that created them, below a node
"(backward)", so that a module's time is all of it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.workspace import NO_LAUNCH, Workspace
from warplens.errors import UsageError
from warplens.model.kinds import CODE, KINDS, MODULE_PREFIX, NONE
from warplens.model.trace import Bools, Ints
from warplens.model.tree import Tree, build_tree

CONTEXTS: Final = {
    # context: the kinds of host events that become nodes
    "python": ("python", "module", "annotation", "op"),
    "module": ("module", "op"),
    "op": ("op",),
    "annotation": ("annotation", "op"),
}
BACKWARD = "(backward)"


class _Nodes:
    """Interned (parent, name) pairs; a node's parent always has the smaller number."""

    def __init__(self) -> None:
        self.index: dict[tuple[int, str], int] = {}
        self.parent = [NONE]
        self.name = ["all"]
        self.kind = ["root"]

    def child(self, parent: int, name: str, kind: str) -> int:
        key = (parent, name)
        node = self.index.get(key)
        if node is None:
            node = self.index[key] = len(self.name)
            self.parent.append(parent)
            self.name.append(name)
            self.kind.append(kind)
        return node


def call_tree(
    work: Workspace, context: str = "python", *, short_names: bool = True, chosen: Bools | None = None
) -> Tree:
    """GPU time by call path; `context` chooses which callers are shown, `chosen` which GPU events count."""
    if context not in CONTEXTS:
        raise UsageError(f"no context {context!r}", hint=f"one of: {', '.join(CONTEXTS)}")
    gpu = work.gpu if chosen is None else work.gpu.filter(pl.Series(chosen))
    nodes = _Nodes()
    owner_node = _owner_nodes(work, gpu, nodes, context)
    label = gpu["kernel_short" if short_names else "kernel"].to_list()
    leaf = np.empty(len(label), np.int64)
    fallback = nodes.child(0, NO_LAUNCH, "other") if (gpu["owner"] < 0).any() else 0
    for row, (owner, name) in enumerate(zip(gpu["owner"].to_list(), label, strict=True)):
        leaf[row] = nodes.child(owner_node[owner] if owner >= 0 else fallback, name, "kernel")
    size = len(nodes.name)
    self_ns = np.bincount(leaf, weights=gpu["dur_ns"].to_numpy(), minlength=size).astype(np.int64)
    count = np.bincount(leaf, minlength=size).astype(np.int64)
    return build_tree(np.array(nodes.parent), nodes.name, nodes.kind, self_ns, count, "GPU time")


def _owner_nodes(work: Workspace, gpu: pl.DataFrame, nodes: _Nodes, context: str) -> dict[int, int]:
    """The tree node of each host event that kernels are booked on."""
    trace = work.trace
    shown = trace.is_kind(*CONTEXTS[context])
    parent, forward, names = trace.ints("parent"), trace.ints("forward"), trace.ints("name")
    owners = np.unique(gpu["owner"].filter(gpu["owner"] >= 0).to_numpy())
    known: dict[int, int] = {}
    for owner in owners.tolist():
        _node_of(owner, nodes, known, parent, forward, shown, names, work)
    return known


def _node_of(
    row: int,
    nodes: _Nodes,
    known: dict[int, int],
    parent: Ints,
    forward: Ints,
    shown: Bools,
    names: Ints,
    work: Workspace,
) -> None:
    """Walk up to a known event or the top, then name the nodes on the way back down."""
    chain: list[int] = []
    at = row
    while at >= 0 and at not in known:
        chain.append(at)
        at = int(forward[at] if forward[at] >= 0 else parent[at])
    node = known[at] if at >= 0 else 0
    texts, kinds = work.trace.names, work.trace.ints("kind")
    for event in reversed(chain):
        if forward[event] >= 0:
            node = nodes.child(node, BACKWARD, "op")
        # The event kernels are booked on is always shown, so that a launch without an op is seen.
        if shown[event] or event == row:
            kind = "op" if kinds[event] == CODE["runtime"] else KINDS[kinds[event]]
            node = nodes.child(node, _label(texts[names[event]]), kind)
        known[event] = node


def _label(name: str) -> str:
    """Modules without their prefix, and all steps under one name: a tree is about code, not about time."""
    if name.startswith("ProfilerStep#"):
        return "ProfilerStep"
    return name.removeprefix(MODULE_PREFIX)

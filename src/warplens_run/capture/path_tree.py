"""A tree of call paths that grows while a run is folded, and its file: Proton's `.hatchet`, kept small.

Runs where the program runs, so it needs nothing but Python.
"""

from __future__ import annotations

from typing import Any, Final

ROOT: Final = "ROOT"
GPU_TIME: Final = "time (ns)"
COUNT: Final = "count"
CPU_TIME: Final = "cpu_time_ns"
"""What a host call took besides the calls inside it; Proton's own "cpu_time (ns)" includes them."""
DEVICE_ID: Final = "device_id"
DEVICE_TYPE: Final = "device_type"
OWN: Final = frozenset({GPU_TIME, COUNT, CPU_TIME, "cpu_time (ns)", DEVICE_ID, DEVICE_TYPE})
MOST_NODES: Final = 10_000
"""Keeps a tree well under a megabyte, however many paths a run has."""
MOST_LEVELS: Final = 400
"""Each level is two of JSON's, and Python reads and writes no more than some 990 of those."""
SMALL: Final = "(lighter paths)"
DEEP: Final = "(deeper calls)"


class Node:
    """One call path: its own metrics, and what is called from it."""

    __slots__ = ("children", "level", "metrics", "name")

    def __init__(self, name: str, level: int = 0) -> None:
        self.name, self.level = name, level
        self.children: dict[str, Node] = {}
        self.metrics: dict[str, Any] = {}

    def child(self, name: str) -> Node:
        if self.level >= MOST_LEVELS:
            if self.name == DEEP:
                return self
            name = DEEP
        node = self.children.get(name)
        if node is None:
            node = self.children[name] = Node(name, self.level + 1)
        return node

    def add(self, metric: str, value: float) -> None:
        self.metrics[metric] = self.metrics.get(metric, 0) + value


def to_hatchet(root: Node, devices: dict[str, Any]) -> list[Any]:
    """The two-item list of a `.hatchet` file; its root names every metric, for all of them add up along a path."""
    top: dict[str, Any] = {}
    names: dict[str, int] = {}
    stack = [(root, top)]
    while stack:  # and no recursion: paths can be deep
        node, item = stack.pop()
        names |= {name: 0 for name, value in node.metrics.items() if isinstance(value, (int, float))}
        item["frame"] = {"name": node.name, "type": "function"}
        item["metrics"] = node.metrics
        item["children"] = [{} for _ in node.children]
        stack.extend(zip(node.children.values(), item["children"], strict=True))
    top["metrics"] = names | root.metrics
    return [top, devices]


def from_hatchet(document: list[Any]) -> Node:
    """The tree that `to_hatchet` wrote, to add more to it."""
    root = Node(ROOT)
    stack = [(root, document[0])]
    while stack:
        node, item = stack.pop()
        node.metrics.update(item["metrics"])
        stack.extend((node.child(child["frame"]["name"]), child) for child in item["children"])
    return root


def pruned(root: Node, most: int = MOST_NODES) -> None:
    """Keep the heaviest paths; what is lighter becomes one node of its caller, with the same sums.

    A caller is never lighter than what it calls, so what is kept is a tree.
    """
    nodes, weights = _weighed(root)
    if len(nodes) <= most:
        return
    order = sorted(range(len(nodes)), key=lambda index: (-weights[index], index))
    heaviest = {id(nodes[index]) for index in order[:most]}
    stack = [root]
    while stack:
        node = stack.pop()
        light = [child for child in node.children.values() if id(child) not in heaviest and child.name != SMALL]
        for child in light:
            del node.children[child.name]
            for name, value in _sums(child).items():
                node.child(SMALL).add(name, value)
        stack.extend(node.children.values())


def _weighed(root: Node) -> tuple[list[Node], list[float]]:
    """All nodes, callers first, each with the time of all that is below it; GPU time counts most."""
    nodes, above = [root], [0]
    for index, node in enumerate(nodes):  # the list grows while it is walked
        nodes.extend(node.children.values())
        above.extend([index] * len(node.children))
    weights = [1000 * node.metrics.get(GPU_TIME, 0) + node.metrics.get(CPU_TIME, 0) + 1 for node in nodes]
    for index in range(len(nodes) - 1, 0, -1):
        weights[above[index]] += weights[index]
    return nodes, weights


def _sums(top: Node) -> dict[str, float]:
    """The sums of a path and all below it; values that are not numbers are omitted."""
    sums: dict[str, float] = {}
    stack = [top]
    while stack:
        node = stack.pop()
        for name, value in node.metrics.items():
            if isinstance(value, (int, float)):
                sums[name] = sums.get(name, 0) + value
        stack.extend(node.children.values())
    return sums

"""A trace of PyTorch's profiler folded into a tree of call paths, in the file format of Proton's trees.

Runs where the program runs, so it needs nothing but Python: `python -m warplens.capture.fold trace.json tree.hatchet`
adds what the trace holds to the tree, which is gzipped. A path joins scopes and annotations, modules and Python frames
where recorded, ops, then the kernel; backward work stands under the forward op that created it. Kernels carry "time
(ns)" and "count", host calls "cpu_time (ns)", what they took besides the calls inside them.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from warplens.capture.scope_log import HEADER

HOST: Final = ("cpu_op", "user_annotation", "python_function")
RUNTIME: Final = ("cuda_runtime", "cuda_driver")
GPU: Final = ("kernel", "gpu_memcpy", "gpu_memset")
BACKWARD: Final = "(backward)"
STEP: Final = "ProfilerStep#"
MODULE: Final = "nn.Module: "
ROOT: Final = "ROOT"
NS_PER_US: Final = 1000
MOST_NODES: Final = 10_000
"""Keeps a tree well under a megabyte, however many paths a run has."""
SMALL: Final = "(lighter paths)"


class Node:
    """One call path: its own metrics, and what is called from it."""

    __slots__ = ("children", "metrics", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.children: dict[str, Node] = {}
        self.metrics: dict[str, Any] = {}

    def child(self, name: str) -> Node:
        node = self.children.get(name)
        if node is None:
            node = self.children[name] = Node(name)
        return node

    def add(self, metric: str, value: float) -> None:
        self.metrics[metric] = self.metrics.get(metric, 0) + value


class _Call:
    """A host event with its caller."""

    __slots__ = ("children_ns", "correlation", "end", "event", "node", "ns", "outer")

    def __init__(self, event: dict[str, Any], outer: _Call | None) -> None:
        self.event, self.outer = event, outer
        self.end = event["ts"] + event.get("dur", 0)
        self.ns = round(event.get("dur", 0) * NS_PER_US)
        self.children_ns = 0
        self.node: Node | None = None


def fold(document: dict[str, Any], root: Node) -> None:
    """Add the events of a trace to a tree."""
    events = [event for event in document.get("traceEvents", []) if event.get("ph") == "X" and "ts" in event]
    calls, launches = _nested(event for event in events if event.get("cat") in (*HOST, *RUNTIME))
    forward = _forward_ops(calls)
    for call in calls:
        node = _node(call, root, forward)
        if call.event["cat"] not in RUNTIME:
            node.add("cpu_time (ns)", max(0, call.ns - call.children_ns))
    _add_metrics(document.get(HEADER, []), calls)
    for event in events:
        if event.get("cat") in GPU:
            launch = launches.get(event.get("args", {}).get("correlation"))
            above = root if launch is None or launch.node is None else launch.node
            _add_kernel(above, event)


def _add_kernel(above: Node, event: dict[str, Any]) -> None:
    leaf = above.child(event["name"])
    leaf.add("time (ns)", round(event.get("dur", 0) * NS_PER_US))
    leaf.add("count", 1)
    leaf.metrics["device_id"] = str(event.get("args", {}).get("device", 0))
    leaf.metrics["device_type"] = "CUDA"


def _nested(events: Iterable[dict[str, Any]]) -> tuple[list[_Call], dict[Any, _Call]]:
    """Every host event with its caller, callers first; and the runtime calls by correlation id."""
    threads: dict[Any, list[dict[str, Any]]] = {}
    for event in events:
        threads.setdefault((event.get("pid"), event.get("tid")), []).append(event)
    calls: list[_Call] = []
    launches: dict[Any, _Call] = {}
    for own in threads.values():
        own.sort(key=lambda event: (event["ts"], -event.get("dur", 0)))
        stack: list[_Call] = []
        for event in own:
            while stack and stack[-1].end <= event["ts"]:
                stack.pop()
            call = _Call(event, stack[-1] if stack else None)
            if call.outer is not None and event["cat"] not in RUNTIME:
                call.outer.children_ns += call.ns
            calls.append(call)
            stack.append(call)
            if event["cat"] in RUNTIME:
                launches[event.get("args", {}).get("correlation")] = call
    return calls, launches


def _forward_ops(calls: list[_Call]) -> dict[Any, _Call]:
    """The op of each sequence number: the innermost one of the forward pass, which autograd's node stands for."""
    found: dict[Any, _Call] = {}
    for call in calls:
        args = call.event.get("args", {})
        number = args.get("Sequence number", -1)
        if number >= 0 and not args.get("Fwd thread id"):
            found[number] = call
    return found


def _node(call: _Call, root: Node, forward: dict[Any, _Call]) -> Node:
    """The tree's node of a call; its callers have theirs already, unless it is a backward op that came first."""
    if call.node is not None:
        return call.node
    chain = [call]
    while chain[-1].outer is not None and chain[-1].outer.node is None:
        chain.append(chain[-1].outer)
    for each in reversed(chain):
        above = each.outer.node if each.outer is not None and each.outer.node is not None else root
        args = each.event.get("args", {})
        created = forward.get(args.get("Sequence number", -1)) if args.get("Fwd thread id") else None
        if created is not None and created is not each:
            above = _node(created, root, {}).child(BACKWARD)
        each.node = above if _is_plumbing(each.event) else above.child(_label(each.event["name"]))
    return chain[0].node or root


def _is_plumbing(event: dict[str, Any]) -> bool:
    return event["cat"] in RUNTIME


def _label(name: str) -> str:
    """All steps under one name: a tree is about code, not about time."""
    if name.startswith(STEP):
        return STEP.rstrip("#")
    if name.startswith(MODULE):
        return name[len(MODULE) :]
    frame, separator, function = name.rpartition("): ")
    if separator and "(" in frame:
        file, _, line = frame.rpartition("(")
        if line.isdigit():
            return f"{file}:{line}@{function}"
    return name


def _add_metrics(log: list[list[Any]], calls: list[_Call]) -> None:
    seen: dict[tuple[Any, str], list[_Call]] = {}
    if log:
        for call in calls:
            if call.event["cat"] == "user_annotation":
                seen.setdefault((call.event.get("tid"), call.event["name"]), []).append(call)
    for thread, name, occurrence, metrics in log:
        own = seen.get((thread, name), [])
        if occurrence < len(own):
            node = own[occurrence].node
            for metric, value in metrics.items():
                if node is not None:
                    node.add(metric, value)


def to_hatchet(root: Node, devices: dict[str, Any]) -> list[Any]:
    """The two-item list of a `.hatchet` file; built without recursion, as stacks can be deep."""
    top: dict[str, Any] = {}
    stack = [(root, top)]
    while stack:
        node, item = stack.pop()
        item["frame"] = {"name": node.name, "type": "function"}
        item["metrics"] = node.metrics
        item["children"] = [{} for _ in node.children]
        stack.extend(zip(node.children.values(), item["children"], strict=True))
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


def devices_of(document: dict[str, Any]) -> dict[str, Any]:
    """The device table as Proton writes it, from what the profiler's header knows."""
    listed: dict[str, dict[str, Any]] = {}
    for device in document.get("deviceProperties", []):
        arch = f"{device.get('computeMajor', 0)}{device.get('computeMinor', 0)}"
        listed[str(device.get("id", len(listed)))] = {
            "arch": arch, "num_sms": device.get("numSms", 0), "name": device.get("name", ""),
            "memory_bytes": device.get("totalGlobalMem", 0),
        }  # fmt: skip
    return {"CUDA": listed} if listed else {}


def pruned(root: Node, most: int = MOST_NODES) -> None:
    """Keep the heaviest paths; what is lighter becomes one node of its caller, with the same sums.

    A caller is never lighter than what it calls, so what is kept is a tree.
    """
    nodes, weights = _weighed(root)
    if len(nodes) <= most:
        return
    order = sorted(range(len(nodes)), key=lambda place: (-weights[place], place))
    kept = {id(nodes[place]) for place in order[:most]}
    stack = [root]
    while stack:
        node = stack.pop()
        light = [child for child in node.children.values() if id(child) not in kept and child.name != SMALL]
        for child in light:
            del node.children[child.name]
            for name, value in _sums(child).items():
                node.child(SMALL).add(name, value)
        stack.extend(node.children.values())


def _weighed(root: Node) -> tuple[list[Node], list[float]]:
    """All nodes, callers first, each with the time of all that is below it; GPU time counts most."""
    nodes, above = [root], [0]
    for place, node in enumerate(nodes):  # the list grows while it is walked
        nodes.extend(node.children.values())
        above.extend([place] * len(node.children))
    weights = [1000 * node.metrics.get("time (ns)", 0) + node.metrics.get("cpu_time (ns)", 0) + 1 for node in nodes]
    for place in range(len(nodes) - 1, 0, -1):
        weights[above[place]] += weights[place]
    return nodes, weights


def _sums(top: Node) -> dict[str, float]:
    """What a path and all below it add up to; what is no number is left out."""
    found: dict[str, float] = {}
    stack = [top]
    while stack:
        node = stack.pop()
        for name, value in node.metrics.items():
            if isinstance(value, (int, float)):
                found[name] = found.get(name, 0) + value
        stack.extend(node.children.values())
    return found


def fold_file(trace: Path, tree: Path) -> None:
    """Add a trace file to a tree file; the tree is replaced whole."""
    with trace.open(encoding="utf-8", errors="replace") as stream:
        document = json.load(stream)
    root, devices = Node(ROOT), devices_of(document)
    if tree.exists():
        known = json.loads(gzip.decompress(tree.read_bytes()))
        root, devices = from_hatchet(known), devices or known[1]
    fold(document, root)
    pruned(root)
    written = tree.with_name(tree.name + ".new")
    written.write_bytes(gzip.compress(json.dumps(to_hatchet(root, devices)).encode(), mtime=0))
    written.replace(tree)


if __name__ == "__main__":
    fold_file(Path(sys.argv[1]), Path(sys.argv[2]))

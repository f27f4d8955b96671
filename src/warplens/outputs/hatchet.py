"""Call paths as Proton writes its trees (`.hatchet`), which its viewer and Hatchet's `GraphFrame.from_literal` open.

A list of the root and of a table of GPUs. A node has what it has besides its children: a kernel "time (ns)" and
"count", anything else its metrics; the root names with 0 all that adds up. What Proton itself writes with inner scopes
included (cycles, the host's time) is written so, and Python frames as `file:line@function`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np

from warplens.model.call_paths import CallPaths
from warplens.model.kinds import NONE
from warplens.model.trace import Device
from warplens.model.tree import EXCLUSIVE, Floats, Tree
from warplens.model.user_code import FRAME

TIME: Final = "time (ns)"
COUNT: Final = "count"
SAMPLES: Final = "num_samples"
CYCLES: Final = "cycles"
NESTED: Final = {"cpu_time_ns": "cpu_time (ns)", CYCLES: CYCLES, "normalized_cycles": "normalized_cycles"}
"""Metrics that a file has with inner scopes included, by their names here and there."""
FRAMES: Final = ("python", "line")


def hatchet_bytes(paths: CallPaths) -> bytes:
    tree = paths.tree
    own = [dict(_own(paths, node)) for node in range(len(tree))]
    # The root names what adds up, also what is 0 everywhere.
    summed: dict[str, object] = dict.fromkeys((TIME, COUNT), 0)
    for name, values in _written_metrics(tree):
        summed |= {} if name.endswith(EXCLUSIVE) else {name: 0}
        for node in np.flatnonzero(values).tolist():
            own[node][name] = _number(float(values[node]))
    own[0] = summed | own[0]
    return b"".join((b"[", *_nodes(tree, own), b",", msgspec.json.encode(_devices(paths.meta.devices)), b"]\n"))


def _own(paths: CallPaths, node: int) -> Iterator[tuple[str, object]]:
    """Time, count and GPU of a node; a kernel has a time, unless it was sampled or instrumented instead."""
    tree = paths.tree
    ns, count, is_kernel = int(tree.self_ns[node]), int(tree.self_count[node]), tree.kind[node] == "kernel"
    measured_else = any(name in tree.metrics for name in (SAMPLES, CYCLES)) and not tree.total_ns[0]
    if ns or (is_kernel and not measured_else):
        yield TIME, ns
    if count or (is_kernel and not measured_else):
        yield COUNT, count
    alone = paths.meta.devices[0].id if is_kernel and len(paths.meta.devices) == 1 else NONE
    number = paths.device[node] if paths.device else alone
    if number != NONE:
        yield "device_id", str(number)
        device = next((device for device in paths.meta.devices if device.id == number), None)
        if device is not None and (kind := _device_type(device)):
            yield "device_type", kind


def _written_metrics(tree: Tree) -> Iterator[tuple[str, Floats]]:
    for name, values in tree.metrics.items():
        on_frames = any(tree.kind[node] in FRAMES for node in np.flatnonzero(values).tolist())
        if name in NESTED and not on_frames:
            yield NESTED[name], np.where(values != 0, tree.total(name), 0.0)
        else:
            yield name, values


def _number(value: float) -> float | int:
    return int(value) if value.is_integer() and abs(value) < 1 << 53 else value


def _nodes(tree: Tree, own: list[dict[str, object]]) -> Iterator[bytes]:
    """The nodes as text, depth first; no recursion, since frames may be nested deeper than Python allows."""
    children: list[list[int]] = [[] for _ in tree.name]
    for node in range(1, len(tree)):
        children[int(tree.parent[node])].append(node)
    stack = [(0, False)]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            yield b"]}"
            continue
        if node and node != children[int(tree.parent[node])][0]:
            yield b","
        frame = {"name": _name(tree, node), "type": "function"}
        yield b'{"frame":%s,"metrics":%s,"children":[' % (msgspec.json.encode(frame), msgspec.json.encode(own[node]))
        stack.append((node, True))
        stack.extend((child, False) for child in reversed(children[node]))


def _name(tree: Tree, node: int) -> str:
    if node == 0:
        return "ROOT"
    frame = FRAME.fullmatch(tree.name[node]) if tree.kind[node] in FRAMES else None
    return f"{frame['file']}:{frame['line']}@{frame['function']}" if frame else tree.name[node]


def _devices(devices: tuple[Device, ...]) -> dict[str, dict[str, dict[str, object]]]:
    """What is known of each GPU, under Proton's names."""
    table: dict[str, dict[str, dict[str, object]]] = {}
    for device in devices:
        facts = {
            "arch": device.compute.replace(".", ""),
            "name": device.name,
            "num_sms": device.multiprocessors,
            "memory_bytes": device.memory_bytes,
            "warp_size": device.warp_size,
            "clock_rate": device.clock_khz,
            "memory_clock_rate": device.memory_clock_khz,
            "bus_width": device.memory_bus_bits,
        }
        if kind := _device_type(device):
            table.setdefault(kind, {})[str(device.id)] = {name: value for name, value in facts.items() if value}
    return table


def _device_type(device: Device) -> str:
    """Proton's word for the maker, as far as the architecture says it."""
    if device.compute.startswith("gfx"):
        return "HIP"
    return "CUDA" if device.compute.replace(".", "").isdecimal() else ""

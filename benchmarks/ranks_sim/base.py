"""Blocks of a real rank: host ops with their launches and kernels, cut from one recorded step.

Kept are the ops that launch something, with all ops and launches inside them, and the time from one such op to the
next. Ops that synchronise are left out, since their time is a wait, and so are the recorded rank's own collectives.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ranks_sim.spec import MICROSECOND

Event = dict[str, Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

HOST_CATEGORIES = ("cpu_op", "cuda_runtime", "cuda_driver")
GPU_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")
# Python between two ops; longer gaps are waits or the profiler's own work.
LONGEST_GAP_US = 40.0


@dataclass(frozen=True)
class Unit:
    """An op that no other op contains, with what is inside it. Times are ns from its start."""

    events: tuple[Event, ...]
    kernels: tuple[Event, ...]
    starts: tuple[float, ...]
    durations: tuple[float, ...]
    pitch: float
    phase: str


@dataclass(frozen=True)
class Block:
    """Units that a rank runs one after the other."""

    units: tuple[Unit, ...]

    @cached_property
    def pitch(self) -> Floats:
        return np.array([unit.pitch for unit in self.units])

    @cached_property
    def launch_unit(self) -> Ints:
        return np.repeat(np.arange(len(self.units)), [len(unit.kernels) for unit in self.units])

    @cached_property
    def launch_end(self) -> Floats:
        """When each launch has returned, from the start of its unit."""
        return np.array([end for unit in self.units for end in _launch_ends(unit)])

    @cached_property
    def gpu_ns(self) -> Floats:
        return np.array([kernel["dur"] * MICROSECOND for unit in self.units for kernel in unit.kernels])

    @cached_property
    def host_unit(self) -> Ints:
        return np.repeat(np.arange(len(self.units)), [len(unit.events) for unit in self.units])

    @cached_property
    def host_start(self) -> Floats:
        return np.array([start for unit in self.units for start in unit.starts])

    @cached_property
    def host_ns(self) -> Floats:
        return np.array([duration for unit in self.units for duration in unit.durations])

    def __hash__(self) -> int:
        return id(self)


class Base:
    """The launching ops of one real step by phase, from which blocks of any size are cut."""

    def __init__(self, path: Path) -> None:
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rb") as file:
            document = json.load(file)
        self.device: Event = (document.get("deviceProperties") or [{"id": 0, "name": "NVIDIA H200"}])[0]
        units = list(_units(document["traceEvents"]))
        if not units:
            raise ValueError(f"{path} has no op that launches a kernel")
        self.phases = {
            phase: [unit for unit in units if unit.phase == phase] or units
            for phase in ("forward", "backward", "optimizer")
        }
        self._blocks: dict[tuple[str, int, int], Block] = {}

    def block(self, phase: str, number: int, events: int) -> Block:
        """The `number`-th block of about `events` GPU events, taken from the phase's ops in order, round and round."""
        key = (phase, number, events)
        if key not in self._blocks:
            units = self.phases[phase]
            # Past a model's ends: its embedding and its loss are not like the layers between them.
            first = 0 if phase == "optimizer" else len(units) // 8
            position = first + number * max(1, round(events * len(units) / sum(len(unit.kernels) for unit in units)))
            chosen: list[Unit] = []
            count = 0
            while count < events:
                unit = units[position % len(units)]
                # A unit of many kernels, a foreach optimizer's say, would outgrow a small block.
                if count + len(unit.kernels) <= max(events, 4) or not chosen:
                    chosen.append(unit)
                count += len(unit.kernels)
                position += 1
            self._blocks[key] = Block(tuple(chosen))
        return self._blocks[key]


def _launch_ends(unit: Unit) -> list[float]:
    ends = {
        event["args"]["correlation"]: start + duration
        for event, start, duration in zip(unit.events, unit.starts, unit.durations, strict=True)
        if "correlation" in event["args"]
    }
    return [ends[kernel["args"]["correlation"]] for kernel in unit.kernels]


def _units(events: list[Event]) -> Iterator[Unit]:
    spans = [event for event in events if event.get("ph") == "X" and "dur" in event]
    marks = [
        event for event in spans if event["name"].startswith("ProfilerStep#") and event["cat"] == "user_annotation"
    ]
    begin, end = (marks[0]["ts"], marks[0]["ts"] + marks[0]["dur"]) if marks else (float("-inf"), float("inf"))
    kernels = {event["args"]["correlation"]: event for event in spans if event["cat"] in GPU_CATEGORIES}
    optimizer = [
        (event["ts"], event["ts"] + event["dur"])
        for event in spans
        if event["name"].startswith("Optimizer.step#") and event["cat"] == "user_annotation"
    ]
    host = [event for event in spans if event["cat"] in HOST_CATEGORIES and begin <= event["ts"] < end]
    trees = [tree for tree in _trees(host) if _is_usable(tree, kernels)]
    next_start = {}
    by_thread: dict[Any, Event] = {}
    for tree in reversed(trees):
        later = by_thread.get(tree[0]["tid"])
        next_start[id(tree)] = later["ts"] if later else float("inf")
        by_thread[tree[0]["tid"]] = tree[0]
    for tree in trees:
        yield _unit(tree, kernels, next_start[id(tree)], optimizer)


def _trees(host: list[Event]) -> list[list[Event]]:
    """Host events by the outermost one that contains them, in order of time."""
    trees: list[list[Event]] = []
    open_trees: dict[Any, tuple[float, list[Event]]] = {}
    for event in sorted(host, key=lambda each: (each["ts"], -each["dur"])):
        until, tree = open_trees.get(event["tid"], (float("-inf"), []))
        if event["ts"] < until:
            tree.append(event)
            continue
        trees.append([event])
        open_trees[event["tid"]] = (event["ts"] + event["dur"], trees[-1])
    return trees


def _is_usable(tree: list[Event], kernels: dict[int, Event]) -> bool:
    if any("Synchronize" in event["name"] or event["name"] == "record_param_comms" for event in tree):
        return False
    launched = [kernels[event["args"]["correlation"]] for event in tree if event["args"].get("correlation") in kernels]
    return bool(launched) and not any("nccl" in kernel["name"].lower() for kernel in launched)


def _unit(
    tree: list[Event], kernels: dict[int, Event], next_start: float, optimizer: list[tuple[float, float]]
) -> Unit:
    root = tree[0]
    kept = [event for event in tree if event["cat"] == "cpu_op" or event["args"].get("correlation") in kernels]
    # Calls of the driver inside a call of the runtime share its correlation; the outer one launches.
    seen: set[int] = set()
    kept = [event for event in kept if event["cat"] == "cpu_op" or not _again(event["args"]["correlation"], seen)]
    is_step = any(start <= root["ts"] < end for start, end in optimizer)
    is_backward = any(event["name"].startswith("autograd::engine") for event in tree[:1])
    phase = "optimizer" if is_step else "backward" if is_backward else "forward"
    return Unit(
        tuple(kept),
        tuple(kernels[number] for number in sorted(seen)),
        tuple((event["ts"] - root["ts"]) * MICROSECOND for event in kept),
        tuple(event["dur"] * MICROSECOND for event in kept),
        min(next_start - root["ts"], root["dur"] + LONGEST_GAP_US) * MICROSECOND,
        phase,
    )


def _again(number: int, seen: set[int]) -> bool:
    known = number in seen
    seen.add(number)
    return known

"""Kernels and scopes of a Proton trace, with the call stacks that Proton records.

A kernel's callers hang below the scope that launched it where the file says which that was, and stand for themselves
where it does not. The last entry of a kernel's call stack is the kernel.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Final, NamedTuple

from warplens.model.builder import TraceBuilder
from warplens.model.event_records import LaunchGeometry, ThreadId
from warplens.model.kinds import NONE
from warplens.model.quality import Note
from warplens.readers.proton.events import ProtonEvent, call_stack
from warplens.readers.proton.frames import ROOT, frame_of
from warplens.readers.shared.microseconds import ns_of
from warplens_run.base import bounded

KINDS: Final = {
    # category: kind
    "kernel": "kernel",
    "scope": "annotation",
    "metric": "annotation",
    "cpu_op": "op",
}
OUTSIDE: Final = "(outside any scope)"
GPU_LANE: Final = re.compile(r"GPU\b(?:\D*(?P<device>\d+)\D+?)??\s*Stream (?P<stream>\d{1,18})")
GRAPH_LANE: Final = re.compile(r"Graph\b.*")
LAUNCH_SHAPE: Final = re.compile(r"<grid:(?P<grid>[^<>]*)>(?:.*?<warps:(?P<warps>\d{1,4})>)?", re.DOTALL)
THREADS_PER_WARP: Final = 32
Thread = tuple[ThreadId, ThreadId]


class _Lane(NamedTuple):
    number: int
    device: int
    stream: int
    is_graph: bool


class _Scope(NamedTuple):
    """A scope that may launch kernels, and its path."""

    event: int
    path: tuple[str, ...]


class KernelEvents:
    """Adds kernels and scopes to a builder."""

    format: Final = "proton"

    def __init__(self, events: list[ProtonEvent]) -> None:
        self.builder = TraceBuilder()
        self.facts: dict[str, str] = {}
        self._labels = {(e.pid, e.tid): e.args.label for e in events if e.ph == "M" and e.name == "thread_name"}
        self._lanes: dict[Thread, _Lane] = {}
        self._stacks: dict[bytes, tuple[str, ...]] = {}
        self._callers: dict[tuple[bytes, str, int], int] = {}
        self._shape_of: dict[str, int] = {}
        self._odd_metrics: Counter[str] = Counter()
        self._scopes: dict[tuple[Thread, float], _Scope] = {}
        kernels = []
        for event in events:
            if event.ph == "X":
                kind = KINDS.get(event.cat.lower(), "other")
                if kind == "kernel":
                    kernels.append(event)
                else:
                    self._add_scope(event, kind)
        self._add_kernels(sorted(kernels, key=_start), _arrows(events))
        odd = self._odd_metrics
        self.notes = [Note("odd_metrics", odd.total(), ", ".join(sorted(odd)))] if odd else []

    def _add_scope(self, event: ProtonEvent, kind: str) -> None:
        lane, stack = self._lane(event), self._stack(bytes(event.args.call_stack))
        # The name of an event with metrics spells them out; and a scope goes by its line where Proton records those.
        name = stack[-1] if event.cat == "metric" and stack else event.name
        if lane.is_graph:
            kind = "gpu_annotation"
        elif kind == "annotation" and name:
            kind, name = frame_of(name)
        added = self.builder.add(kind, name, ns_of(event.ts), ns_of(event.dur), lane=lane.number)
        if kind == "annotation" and stack:
            self._scopes[(event.pid, event.tid), event.ts] = _Scope(added, stack)
        if event.args.metrics:
            # Lines are callers by their call stacks alone, so what is said of them belongs there.
            self._add_metrics(self._frames(NONE, stack, ns_of(event.ts)) if kind == "python" else added, event)

    def _add_kernels(
        self, kernels: list[ProtonEvent], arrows: dict[tuple[Thread, float], tuple[Thread, float]]
    ) -> None:
        """Kernels in the order of their starts: of a graph only the first has an arrow, and those behind it follow."""
        last: dict[Thread, _Scope | None] = {}
        for event in kernels:
            thread, lane = (event.pid, event.tid), self._lane(event)
            source = arrows.get((thread, event.ts)) if arrows else None
            if source is not None:
                last[thread] = self._scopes.get(source)
            added = self.builder.add(
                "kernel",
                event.name,
                ns_of(event.ts),
                ns_of(event.dur),
                lane=lane.number,
                device=lane.device,
                stream=lane.stream,
                geometry=self._geometry(event.name),
            )
            caller = self._caller(event, last.get(thread))
            self.builder.add_context(added, caller)
            if event.args.metrics:
                self._add_metrics(caller, event)

    def _caller(self, event: ProtonEvent, scope: _Scope | None) -> int:
        """The innermost caller of a kernel, an event that is added where there is none yet."""
        key = bytes(event.args.call_stack), event.name, scope.event if scope else NONE
        if key not in self._callers:
            stack = self._stack(key[0])
            callers = stack[:-1] if stack and stack[-1] == event.name else stack
            if scope is not None and _holds(scope.path, callers):
                self._callers[key] = self._frames(scope.event, callers[len(scope.path) :], ns_of(event.ts))
            else:
                self._callers[key] = self._frames(NONE, callers or (OUTSIDE,), ns_of(event.ts))
        return self._callers[key]

    def _frames(self, parent: int, callers: tuple[str, ...], start_ns: int | None) -> int:
        for caller in callers:
            parent = self.builder.frame(parent, *frame_of(caller), start_ns)
        return parent

    def _stack(self, raw: bytes) -> tuple[str, ...]:
        """The entries of a call stack below the root."""
        if raw not in self._stacks:
            stack = call_stack(raw)
            self._stacks[raw] = stack[1:] if stack[:1] == (ROOT,) else stack
        return self._stacks[raw]

    def _lane(self, event: ProtonEvent) -> _Lane:
        ids = event.pid, event.tid
        if ids not in self._lanes:
            label = self._labels.get(ids, "")
            process, thread = ("" if number is None else number for number in ids)
            number, gpu = self.builder.add_lane(process, thread, "", label), GPU_LANE.match(label)
            self._lanes[ids] = _Lane(
                number,
                bounded.whole(gpu["device"], least=0) if gpu else 0,
                bounded.whole(gpu["stream"]) if gpu else _number(event.tid),
                GRAPH_LANE.fullmatch(label) is not None,
            )
        return self._lanes[ids]

    def _geometry(self, name: str) -> int:
        if name not in self._shape_of:
            match = LAUNCH_SHAPE.search(name)
            self._shape_of[name] = NONE if match is None else self.builder.geometries[_shape(match)]
        return self._shape_of[name]

    def _add_metrics(self, event_number: int, event: ProtonEvent) -> None:
        for metric, value in event.args.metrics.items():
            amount = bounded.number(value)  # newer releases write some as text
            if amount is not None:
                self.builder.add_metric(event_number, metric, amount)
            else:
                self._odd_metrics[metric] += 1


def _arrows(events: list[ProtonEvent]) -> dict[tuple[Thread, float], tuple[Thread, float]]:
    """The thread and time of a kernel that an arrow leads to → those of the scope that it comes from."""
    sources = {event.id: ((event.pid, event.tid), event.ts) for event in events if event.ph == "s"}
    ends = (event for event in events if event.ph == "f" and event.id in sources)
    return {((event.pid, event.tid), event.ts): sources[event.id] for event in ends}


def _holds(scope: tuple[str, ...], callers: tuple[str, ...]) -> bool:
    """Whether these callers are inside a scope, and the path to it has only scopes, which are events themselves."""
    return callers[: len(scope)] == scope and all(frame_of(name)[0] == "annotation" for name in scope)


def _shape(match: re.Match[str]) -> LaunchGeometry:
    """A launch's geometry from what Triton's users append to the names of kernels."""
    sizes = [bounded.whole(size[:9]) for size in re.findall(r"\d+", match["grid"])[:3]]
    grid = str([*sizes, 1, 1, 1][:3]) if sizes else ""
    block = str([THREADS_PER_WARP * bounded.whole(match["warps"]), 1, 1]) if match["warps"] else ""
    return LaunchGeometry(grid, block)


def _start(event: ProtonEvent) -> float:
    return event.ts if math.isfinite(event.ts) else math.inf


def _number(value: int | str | None) -> int:
    if isinstance(value, str):
        digits = re.search(r"[0-9]{1,18}", value)
        return bounded.whole(digits[0]) if digits else 0
    return bounded.whole(value, least=0)

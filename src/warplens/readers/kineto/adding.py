"""Decoded events → the builder: the per-event Python of reading, kept to a few list comprehensions per piece."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from typing import Final

import msgspec
import numpy as np

from warplens.model.builder import TraceBuilder
from warplens.model.event_records import Allocation, CallSpec, Collective, Lanes, LaunchGeometry, ThreadId
from warplens.model.kinds import CODE, NONE, OWN_CATEGORIES
from warplens.readers.kineto.launch_flows import LAUNCH_FLOW
from warplens.readers.kineto.records import KinetoArgs, KinetoEvent, KinetoHeader
from warplens.readers.shared.microseconds import to_ns

KIND_OF_CATEGORY: Final = {
    "cpu_op": "op",
    "operator": "op",
    "user_annotation": "annotation",
    "python_function": "python",
    "cuda_runtime": "runtime",
    "cuda_driver": "runtime",
    "runtime": "runtime",
    "driver": "runtime",
    "xpu_runtime": "runtime",
    "xpu_driver": "runtime",
    "mtia_runtime": "runtime",
    "privateuse1_runtime": "runtime",
    "privateuse1_driver": "runtime",
    "hip_runtime": "runtime",
    "kernel": "kernel",
    "concurrent_kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
    "gpu_user_annotation": "gpu_annotation",
    "cuda_sync": "sync",
    "cuda_profiler_range": "counter",
    "overhead": "overhead",
    "trace": "other",
}
HOST_ARGS: Final = ("external_id", "sequence", "forward_thread")
GPU_ARGS: Final = ("external_id", "correlation", "device", "stream")
ARGS_OF_KIND: Final[dict[str, tuple[str, ...]]] = {
    # kind: the integer fields of `args` that its events have
    "op": HOST_ARGS,
    "annotation": HOST_ARGS,
    "runtime": ("external_id", "correlation"),
    "kernel": GPU_ARGS,
    "memcpy": GPU_ARGS,
    "memset": GPU_ARGS,
    "sync": ("correlation", "device", "stream"),
}
FIELDS: Final = {name: attrgetter(name) for name in dict.fromkeys((*HOST_ARGS, *GPU_ARGS))}
FLOW_PHASES: Final = ("s", "f")
MEMORY_DEVICE_TYPES: Final = {0: "CPU", 1: "GPU", 6: "GPU", 12: "GPU"}  # c10::DeviceType: CPU, CUDA, HIP, XPU
NO_ARGS: Final = KinetoArgs()
ABSENT: Final = array("q", [NONE])
BATCH_EVENTS: Final = 1 << 16


class KinetoEvents(msgspec.Struct):
    """What the events of a file say."""

    builder: TraceBuilder = msgspec.field(default_factory=TraceBuilder)
    categories: set[str] = msgspec.field(default_factory=set)
    phases: Counter[str] = msgspec.field(default_factory=Counter)
    begin_end: list[KinetoEvent] = msgspec.field(default_factory=list)
    """Begins and ends, which are paired when all are known."""
    launch_flows: list[KinetoEvent] = msgspec.field(default_factory=list)
    """Ends of arrows from launches to GPU work; not needed, and not kept, once an event has a correlation."""


@dataclass(frozen=True)
class KinetoFile:
    """What a whole file says."""

    events: KinetoEvents
    header: KinetoHeader
    damage: Counter[str]
    sync_text: bytes = field(repr=False)
    """Text with all events that `sync_waits` looks for."""


class EventAdder:
    """Adds pieces of a file to `KinetoEvents`; `finish` hands over the last. Equal arguments are decoded once."""

    def __init__(self, target: KinetoEvents) -> None:
        self._target = target
        self._builder = target.builder
        self._batch = _Batch()
        self._threads: dict[ThreadId, _Threads] = {}
        self._specs = _SpecCodes(target.builder)
        self._geometries = _GeometryCodes(target.builder)
        self._has_correlations = False

    def add(self, events: list[KinetoEvent]) -> None:
        timed: dict[str, list[KinetoEvent]] = {}
        take: dict[str, Callable[[KinetoEvent], None]] = {}
        others: list[KinetoEvent] = []
        for event in events:
            if event.ph == "X":
                try:
                    take[event.cat](event)
                except KeyError:
                    timed[event.cat] = [event]
                    take[event.cat] = timed[event.cat].append
            else:
                others.append(event)
        self._target.phases["X"] += len(events) - len(others)
        for category, members in timed.items():
            self._add_category(category, members)
        self._target.phases.update([event.ph for event in others])
        self.add_untimed(others)
        if len(self._batch) >= BATCH_EVENTS:
            self.finish()

    def finish(self) -> None:
        if len(self._batch):
            self._batch.hand_over(self._builder)
            self._batch = _Batch()

    def _add_category(self, category: str, events: list[KinetoEvent]) -> None:
        if category.startswith(OWN_CATEGORIES):  # what an earlier run of Warplens found, not what was recorded
            return
        self._target.categories.add(category)
        kind = KIND_OF_CATEGORY.get(category.lower(), "other")
        if kind in ARGS_OF_KIND:
            self._add_args(kind, [event.args or NO_ARGS for event in events])
        names, batch = self._builder.names, self._batch
        # Comprehensions over the events themselves: the interpreter reads a struct's field faster than attrgetter.
        batch.start_us.fromlist([event.ts for event in events])
        batch.dur_us.fromlist([event.dur for event in events])
        batch.name.fromlist([names[event.name] for event in events])
        batch.lane.fromlist(self._lanes_of(events))
        batch.kind += bytes((CODE[kind],)) * len(events)

    def _lanes_of(self, events: list[KinetoEvent]) -> list[int]:
        processes = {event.pid for event in events}
        if len(processes) > 1:
            lanes = self._builder.lanes
            return [lanes[event.pid, event.tid] for event in events]
        # The usual case: with one process the thread alone is the key, and no pair needs to be made.
        (process,) = processes
        lane_of = self._threads.get(process)
        if lane_of is None:
            lane_of = self._threads[process] = _Threads(process, self._builder.lanes)
        return [lane_of[event.tid] for event in events]

    def _add_args(self, kind: str, args: list[KinetoArgs]) -> None:
        """What the arguments of the next events say."""
        batch, fields = self._batch, ARGS_OF_KIND[kind]
        first = len(self._builder) + len(batch)
        for name in fields:
            batch.add_ints(name, list(map(FIELDS[name], args)))
        if not self._has_correlations and "correlation" in fields and any(a.correlation > 0 for a in args):
            self._has_correlations = True
            self._target.launch_flows.clear()
        if fields is HOST_ARGS:
            specs = self._specs
            joined = [b"\0".join((a.input_dims, a.input_types, a.input_strides, a.concrete_inputs)) for a in args]
            batch.add_ints("spec", [specs[spec] for spec in joined])
        if fields is GPU_ARGS:
            geometries = self._geometries
            batch.add_ints("geometry", [geometries[_geometry(a)] for a in args])
            self._builder.add_copies([(number, a.bytes) for number, a in enumerate(args, first) if a.bytes >= 0])
        if kind != "runtime":
            for number, a in [(number, a) for number, a in enumerate(args, first) if a.collective]:
                self._builder.add_collective(number, collective_of(a))

    def add_untimed(self, events: list[KinetoEvent]) -> None:
        """Labels, allocations, flows, and begins and ends; their phases are not counted here."""
        target = self._target
        flows: list[KinetoEvent] = []
        allocations: list[KinetoEvent] = []
        for event in events:
            if event.ph in FLOW_PHASES:
                if event.cat == "fwdbwd":
                    flows.append(event)
                elif event.cat == LAUNCH_FLOW and not self._has_correlations:
                    target.launch_flows.append(event)
            elif event.ph == "M":
                self._add_label(event)
            elif event.name == "[memory]":
                allocations.append(event)
            elif event.ph in ("B", "E"):
                target.begin_end.append(event)
        self._builder.add_allocations(_allocations(allocations))
        if flows:
            lanes, times = self._builder.lanes, to_ns(np.array([event.ts for event in flows], np.float64))
            self._builder.add_flow_ends(
                [event.ph == "s" for event in flows],
                [event.id for event in flows],
                times.ns,
                [lanes[event.pid, event.tid] for event in flows],
                has_start=times.is_known,
            )

    def _add_label(self, event: KinetoEvent) -> None:
        text = "" if event.args is None or event.args.label is None else str(event.args.label)
        if event.name == "process_name":
            self._builder.process_names[event.pid] = text
        elif event.name == "thread_name":
            self._builder.thread_names[event.pid, event.tid] = text


class _Batch:
    """Events on their way to the builder: a call of numpy costs microseconds, so it is made for many pieces at once."""

    def __init__(self) -> None:
        self.kind = bytearray()
        self.start_us, self.dur_us = array("d"), array("d")
        self.name, self.lane = array("i"), array("i")
        self._ints: dict[str, array[int]] = {}

    def __len__(self) -> int:
        return len(self.kind)

    def add_ints(self, name: str, values: list[int]) -> None:
        """A column of the next events; -1 for those before them that do not have it."""
        column = self._ints.get(name)
        if column is None:
            column = self._ints[name] = array("q")
        column.extend(ABSENT * (len(self) - len(column)))
        try:
            column.fromlist(values)
        except OverflowError:  # ids beyond 64 bits cannot be matched anyway
            column.fromlist([value if -(2**63) <= value < 2**63 else NONE for value in values])

    def hand_over(self, builder: TraceBuilder) -> None:
        starts, durations = to_ns(np.frombuffer(self.start_us)), to_ns(np.frombuffer(self.dur_us))
        for column in self._ints.values():
            column.extend(ABSENT * (len(self) - len(column)))
        builder.add_columns(
            np.frombuffer(self.kind, np.uint8),
            np.frombuffer(self.name, np.int32),
            starts.ns,
            durations.ns,
            lane=np.frombuffer(self.lane, np.int32),
            has_start=starts.is_known,
            has_duration=durations.is_known,
            **{name: np.frombuffer(column, np.int64) for name, column in self._ints.items()},
        )


class _Threads(dict[ThreadId, int]):
    """The lanes of one process by thread."""

    def __init__(self, process: ThreadId, lanes: Lanes) -> None:
        super().__init__()
        self._process = process
        self._lanes = lanes

    def __missing__(self, thread: ThreadId) -> int:
        lane = self[thread] = self._lanes[self._process, thread]
        return lane


class _SpecCodes(dict[bytes, int]):
    """Codes of call specs by their parts as the file has them, joined by zero bytes."""

    def __init__(self, builder: TraceBuilder) -> None:
        super().__init__()
        self._specs = builder.specs

    def __missing__(self, joined: bytes) -> int:
        code = self[joined] = self._specs[CallSpec(*(part.decode(errors="replace") for part in joined.split(b"\0")))]
        return code


RawGeometry = tuple[bytes, int, int, float]


class _GeometryCodes(dict[RawGeometry, int]):
    """Codes of launch geometries, likewise."""

    def __init__(self, builder: TraceBuilder) -> None:
        super().__init__()
        self._geometries = builder.geometries

    def __missing__(self, raw: RawGeometry) -> int:
        grid, block = (part.decode(errors="replace") for part in raw[0].split(b"\0"))
        code = self[raw] = self._geometries[LaunchGeometry(grid, block, *raw[1:])]
        return code


def _geometry(args: KinetoArgs) -> RawGeometry:
    return b"\0".join((args.grid, args.block)), args.registers, args.shared_memory, args.occupancy


def collective_of(args: KinetoArgs) -> Collective:
    group = None if args.group is None else str(args.group)
    sizes = args.in_elements, args.out_elements, args.group_size
    peer = max(args.source_rank, args.target_rank)  # a send names the one, a receive the other
    splits = (_text_of_list(splits) or "" for splits in (args.in_splits, args.out_splits))
    ranks = _text_of_list(args.ranks)
    call = Collective(args.collective, args.dtype, *sizes, group, ranks, args.seq, peer, *splits)
    return call._replace(description=args.group_description or "")


def _text_of_list(value: str | list[object] | None) -> str | None:
    return value if isinstance(value, str) or value is None else str(value)


def _allocations(events: Sequence[KinetoEvent]) -> Iterator[Allocation]:
    """By field, not by event: a trace with memory may have as many of them as of ops."""
    args = [event.args or NO_ARGS for event in events]
    times = to_ns(np.array([event.ts for event in events], np.float64))
    start_ns: list[int | None] = times.ns.tolist()
    if times.is_known is not None:
        start_ns = [ns if known else None for ns, known in zip(start_ns, times.is_known.tolist(), strict=True)]
    return map(
        Allocation,
        start_ns,
        [event.pid for event in events],
        [event.tid for event in events],
        [memory_device(each.memory_device_type, each.memory_device) for each in args],
        [each.memory_bytes for each in args],
        [each.memory_allocated for each in args],
        [each.memory_reserved for each in args],
        [each.memory_address for each in args],
    )


@lru_cache
def memory_device(type_number: int, number: int) -> str:
    """The name of a memory, by the numbers that PyTorch has for its devices."""
    memory = MEMORY_DEVICE_TYPES.get(type_number, f"device type {type_number}")
    return memory if memory == "CPU" else f"{memory} {number}"

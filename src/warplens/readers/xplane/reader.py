"""JAX / XLA profiles (`.xplane.pb`), as `jax.profiler.trace` writes them (tsl/profiler/protobuf/xplane.proto).

Reads: the streams of "/device:GPU:N" planes as GPU work; the threads of "/host:" planes as Python frames, calls of
the GPU's runtime, steps, annotations, and ops (jitted functions, XLA modules and the HLO ops that some GPU event
names); the programs in "/host:metadata" as the callers of the GPU work (see scopes.py); the allocator's marks as
memory; the planes' facts on devices and versions. Device lines that XLA derives from the streams ("XLA Ops", "Steps",
…) and planes of other devices are `gpu_annotation`: never GPU time twice. Ignores: scope ranges, counters.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from warplens.model.builder import TraceBuilder
from warplens.model.kinds import NONE
from warplens.model.quality import Note
from warplens.model.trace import Device, Meta, Trace
from warplens.readers.shared.gc_pause import gc_paused
from warplens.readers.shared.protobuf_wire import Damage
from warplens.readers.xplane.calls import HloWork, HostCalls, TimedCall
from warplens.readers.xplane.details import (
    ALLOCATIONS,
    allocation_of,
    copy_name,
    geometry_of,
    id_of,
    size_of,
    work_kind,
)
from warplens.readers.xplane.host import HostKinds, inside_xla
from warplens.readers.xplane.paths import ProgramCallers
from warplens.readers.xplane.planes import PlaneReader, Stats, XEvent, XLine, XPlane
from warplens_run.base.errors import FormatError
from warplens_run.base.units import plural

EXPORT: Final = "record one with JAX: with jax.profiler.trace('folder'): …"
TENSORFLOW: Final = "tensorflow::"
"""In the names of its kernels; JAX has none of them."""
ACCELERATOR: Final = re.compile(r"/device:(TPU):\d{1,9}")
STREAM_LINE: Final = re.compile(r"Stream\b\D*(\d{1,9})?")
DERIVED_LINES: Final = frozenset(
    (
        "Steps",
        "Framework Name Scope",
        "Framework Ops",
        "TensorFlow Name Scope",
        "TensorFlow Ops",
        "XLA Modules",
        "XLA Ops",
        "XLA TraceMe",
        "Async XLA Ops",
        "Source",
        "Source code",
        "Launch Stats",
        "_counters_",
    )
)
VERSIONS: Final = (
    "jax_version",
    "jaxlib_version",
    "cuda_version",
    "cuda_runtime_version",
    "cuda_driver_version",
    "gpu_version",
)


def read(text: bytes, meta: Meta, notes: list[Note]) -> Trace:
    """The trace of an XSpace message; `notes` are what unwrapping it had to say."""
    reader = PlaneReader()
    with gc_paused():
        planes = reader.planes(text)
        builder = added_planes(planes, reader.damage)
    if not len(builder):
        damaged = reader.damage.truncated or reader.damage.places
        why = "damaged before its first complete event" if damaged else "without timed events"
        raise FormatError(f"an XLA profile (xplane), {why}", where=meta.source, hint=EXPORT)
    notes = [*notes]
    if reader.damage.truncated and not any(note.code == "truncated" for note in notes):
        notes.append(Note("truncated", detail="the last plane is incomplete"))
    if reader.damage.places:
        notes.append(Note("damaged", reader.damage.places, "each up to the end of its message"))
    builder.damage["out_of_range"] += reader.untimed
    # TensorFlow records such files too. Under its own name it gets no advice that is written for JAX.
    recorder = "tensorflow" if any(TENSORFLOW in name for name in builder.names) else "xplane"
    meta = msgspec.structs.replace(meta, format=recorder, events_in_file=reader.events)
    return built(builder, planes, meta, notes)


def built(builder: TraceBuilder, planes: list[XPlane], meta: Meta, notes: list[Note]) -> Trace:
    trace = builder.build(_with_facts(meta, planes), [*notes, *_accelerator_notes(planes)])
    if len(trace) == 0:
        raise FormatError("no event has a usable time", where=meta.source, hint=EXPORT)
    return trace


def added_planes(planes: list[XPlane], damage: Damage) -> TraceBuilder:
    """A builder with the events of all planes."""
    builder = TraceBuilder()
    _PlaneAdder(builder, planes, damage).add_all()
    return builder


class _PlaneAdder:
    """Adds the events of all planes: GPUs first, since they show which host events are launches."""

    def __init__(self, builder: TraceBuilder, planes: list[XPlane], damage: Damage) -> None:
        self._builder = builder
        self._planes = planes
        self._launched: set[int] = set()
        self._hlo_work: list[HloWork] = []
        self._calls = HostCalls(builder)
        self._copy_calls = {
            id_of(event.stats.get("correlation_id")): event
            for plane in planes
            if plane.device is None
            for line in plane.lines
            for event in line.events
            if "memcpy_details" in event.stats
        }
        programs = [program for plane in planes for program in plane.programs]
        self._callers = ProgramCallers(builder, self._calls, programs, damage)

    def add_all(self) -> None:
        for plane in self._planes:
            if plane.device is not None:
                self._add_gpu(plane, plane.device)
        kinds = HostKinds(self._planes, self._launched, {work.hlo_op for work in self._hlo_work})
        for plane in self._planes:
            if plane.name.startswith("/host:") or not plane.name:
                self._add_host(plane, kinds)
            elif plane.device is None:
                for line in plane.lines:
                    self._add_derived(plane, line)
        self._calls.tie_to_hlo_ops(self._hlo_work)
        self._callers.add_to_builder()

    def _add_gpu(self, plane: XPlane, device: int) -> None:
        has_streams = any(STREAM_LINE.match(line.name) for line in plane.lines)
        for line in plane.lines:
            is_stream = bool(STREAM_LINE.match(line.name)) if has_streams else line.name not in DERIVED_LINES
            if is_stream:
                self._add_stream(plane, device, line)
            else:
                self._add_derived(plane, line)

    def _add_stream(self, plane: XPlane, device: int, line: XLine) -> None:
        match = STREAM_LINE.match(line.name)
        stream = int(match[1]) if match and match[1] else line.id if line.id < 2**31 else 0
        lane = self._builder.add_lane(plane.name, line.id, plane.name, line.name)
        for event in line.events:
            self._add_work(event, line, lane, device, stream)

    def _add_work(self, event: XEvent, line: XLine, lane: int, device: int, stream: int) -> None:
        """A kernel, copy or fill."""
        kind, start_ns = work_kind(event), line.start_ns(event)
        correlation = id_of(event.stats.get("correlation_id"))
        call = self._copy_calls.get(correlation)
        number = self._builder.add(
            kind,
            copy_name(event, call.name if call else "") if kind == "memcpy" else event.name,
            start_ns,
            event.dur_ns,
            lane=lane,
            device=device,
            stream=stream,
            correlation=correlation,
            geometry=self._builder.geometries[geometry_of(event.stats)] if kind == "kernel" else NONE,
        )
        self._launched.add(correlation)
        if kind != "kernel":
            self._builder.add_copies(
                [(number, size_of(event.stats if call is None else {**call.stats, **event.stats}))]
            )
        if "hlo_op" in event.stats:
            work = HloWork(number, start_ns, correlation, str(event.stats["hlo_op"]))
            self._hlo_work.append(work)
            self._callers.add(work, device, event)

    def _add_derived(self, plane: XPlane, line: XLine) -> None:
        lane = self._builder.add_lane(plane.name, line.id, plane.name, line.name)
        for event in line.events:
            self._builder.add("gpu_annotation", event.name, line.start_ns(event), event.dur_ns, lane=lane)

    def _add_host(self, plane: XPlane, kinds: HostKinds) -> None:
        number = id_of(plane.stats.get("process_id"))
        process = plane.name if number < 0 else number
        for line in plane.lines:
            lane = self._builder.add_lane(process, line.id, plane.name, line.name)
            for event, is_inside in zip(line.events, inside_xla(line), strict=True):
                start_ns = line.start_ns(event)
                if event.name in ALLOCATIONS and "allocation_bytes" in event.stats:
                    self._builder.add_allocations([allocation_of(event, start_ns, process, line.id)])
                    continue
                kind, name = kinds.of(event, is_inside)
                correlation = id_of(event.stats.get("correlation_id")) if event.stats else NONE
                added = self._builder.add(kind, name, start_ns, event.dur_ns, lane=lane, correlation=correlation)
                self._calls.add(kind, name, TimedCall(added, lane, start_ns, event.dur_ns), correlation)


def _accelerator_notes(planes: list[XPlane]) -> list[Note]:
    names = [match[1] for plane in planes if plane.lines and (match := ACCELERATOR.fullmatch(plane.name))]
    return [Note("other_accelerator", detail=f"{plural(len(names), names[0])}")] if names else []


def _with_facts(meta: Meta, planes: list[XPlane]) -> Meta:
    facts = {name: str(plane.stats[name]) for plane in planes for name in VERSIONS if name in plane.stats}
    devices = tuple(_device(plane.device, plane.stats) for plane in planes if plane.device is not None)
    return msgspec.structs.replace(meta, devices=devices, facts=facts)


def _device(number: int, stats: Stats) -> Device:
    major, minor = (id_of(stats.get(f"compute_cap_{part}")) for part in ("major", "minor"))
    return Device(
        id=number,
        name=str(stats.get("gpu_device_name") or stats.get("device_vendor") or ""),
        memory_bytes=max(0, id_of(stats.get("memory_size"))),
        multiprocessors=max(0, id_of(stats.get("core_count"))),
        compute=f"{major}.{max(0, minor)}" if major >= 0 else "",
    )

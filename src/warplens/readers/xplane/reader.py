"""JAX / XLA profiles (`.xplane.pb`), as `jax.profiler.trace` writes them (tsl/profiler/protobuf/xplane.proto).

Reads: the streams of "/device:GPU:N" planes as GPU work; the threads of "/host:" planes as Python frames, calls of
the GPU's runtime, steps, annotations, and ops (jitted functions, XLA modules and the HLO ops that some GPU event
names); the programs in "/host:metadata" as the callers of the GPU work (see xplane_scopes.py); the allocator's marks as
memory; the planes' facts on devices and versions. Device lines that XLA derives from the streams ("XLA Ops", "Steps",
…) and planes of other devices are `gpu_annotation`: never GPU time twice. Ignores: scope ranges, counters.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

import msgspec

from warplens.errors import FormatError
from warplens.model.builder import build
from warplens.model.quality import Note
from warplens.model.trace import Device, Meta, Trace
from warplens.readers.shared.collector import gc_paused
from warplens.readers.shared.protobuf_wire import Damage
from warplens.readers.xplane.calls import HostCalls
from warplens.readers.xplane.details import ALLOCATIONS, allocation_of, copy_name, geometry_of, id_of, size_of
from warplens.readers.xplane.host import HostKinds, inside_xla
from warplens.readers.xplane.paths import CallPaths
from warplens.readers.xplane.planes import PlaneReader, Stats, XEvent, XLine, XPlane
from warplens.readers.xplane.rows import Rows

EXPORT: Final = "such a file comes from JAX: with jax.profiler.trace('folder'): …"
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
        rows = PlaneRows(planes, reader.damage).rows
    if not len(rows):
        damaged = reader.damage.truncated or reader.damage.places
        why = "damaged before its first whole event" if damaged else "without timed events"
        raise FormatError(f"an XLA profile (xplane), {why}", where=meta.source, hint=EXPORT)
    notes = [*notes]
    if reader.damage.truncated and not any(note.code == "truncated" for note in notes):
        notes.append(Note("truncated", detail="the last plane is cut"))
    if reader.damage.places:
        notes.append(Note("damaged", reader.damage.places, "each up to the end of its message"))
    counts = Counter({"unnamed": rows.unnamed, "out_of_range": reader.untimed})
    meta = msgspec.structs.replace(meta, format="xplane", events_in_file=reader.events)
    return built(rows, planes, meta, counts, notes)


def built(rows: Rows, planes: list[XPlane], meta: Meta, counts: Counter[str], notes: list[Note]) -> Trace:
    trace = build(rows.columns(), _with_facts(meta, planes), counts, notes)
    if len(trace) == 0:
        raise FormatError("no event has a usable time", where=meta.source, hint=EXPORT)
    return trace


class PlaneRows:
    """Adds the events of all planes to the rows: GPUs first, since they tell which host events are launches."""

    def __init__(self, planes: list[XPlane], damage: Damage) -> None:
        self.rows = Rows()
        self.base_ns = _base(planes)
        self.launched: set[int] = set()
        self.hlo_of: dict[int, str] = {}
        self.calls = HostCalls(self.rows)
        self.paths = CallPaths(
            self.rows, self.calls, [program for plane in planes for program in plane.programs], damage
        )
        for plane in planes:
            if plane.device is not None:
                self._add_gpu(plane, plane.device)
        self.kinds = HostKinds(planes, self.launched, set(self.hlo_of.values()))
        for plane in planes:
            if plane.name.startswith("/host:") or not plane.name:
                self._add_host(plane)
            elif plane.device is None:
                for line in plane.lines:
                    self._add_derived(plane, line)
        self.calls.tie_to_hlo_ops(self.hlo_of)
        self.paths.add_to_rows()

    def _start_ps(self, line: XLine) -> int:
        """Since the base: times since 1970 would lose their nanoseconds in a float."""
        return (line.timestamp_ns - self.base_ns) * 1000

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
        lane, start = self.rows.add_lane(plane.name, line.id, plane.name, line.name), self._start_ps(line)
        for event in line.events:
            row = self._add_work(event, lane, (start + event.offset_ps) / 1e6)
            self.rows.ints["device"][row] = device
            self.rows.ints["stream"][row] = stream
            if "hlo_op" in event.stats:
                self.hlo_of[row] = str(event.stats["hlo_op"])
                self.paths.add(row, device, event)

    def _add_work(self, event: XEvent, lane: int, ts_us: float) -> int:
        """A kernel, copy or fill."""
        rows, lower = self.rows, event.name[:6].lower()
        kind = lower if lower in ("memcpy", "memset") else "kernel"
        name = copy_name(event) if kind == "memcpy" else event.name
        row = rows.add(kind, name, lane, ts_us, event.duration_ps / 1e6)
        rows.ints["correlation"][row] = correlation = id_of(event.stats.get("correlation_id"))
        self.launched.add(correlation)
        if kind == "kernel":
            rows.ints["geometry"][row] = rows.geometries[geometry_of(event.stats)]
        elif (size := size_of(event.stats)) >= 0:
            rows.copies.append((row, size))
        return row

    def _add_derived(self, plane: XPlane, line: XLine) -> None:
        lane, start = self.rows.add_lane(plane.name, line.id, plane.name, line.name), self._start_ps(line)
        for event in line.events:
            self.rows.add("gpu_annotation", event.name, lane, (start + event.offset_ps) / 1e6, event.duration_ps / 1e6)

    def _add_host(self, plane: XPlane) -> None:
        process = id_of(plane.stats.get("process_id"))
        for line in plane.lines:
            lane = self.rows.add_lane(plane.name if process < 0 else process, line.id, plane.name, line.name)
            start = self._start_ps(line)
            for event, is_inside in zip(line.events, inside_xla(line), strict=True):
                ts_us = (start + event.offset_ps) / 1e6
                if event.name in ALLOCATIONS and "allocation_bytes" in event.stats:
                    self.rows.memory.append((ts_us, *self.rows.lanes[lane], *allocation_of(event)))
                    continue
                kind, name = self.kinds.of(event, is_inside)
                row = self.rows.add(kind, name, lane, ts_us, event.duration_ps / 1e6)
                correlation = id_of(event.stats.get("correlation_id")) if event.stats else -1
                if correlation >= 0:
                    self.rows.ints["correlation"][row] = correlation
                self.calls.add(kind, name, row, correlation)


def _base(planes: list[XPlane]) -> int:
    """A line's timestamp from the middle of all: one damaged line cannot push the others away."""
    stamps = sorted(line.timestamp_ns for plane in planes for line in plane.lines if line.events)
    return stamps[len(stamps) // 2] if stamps else 0


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

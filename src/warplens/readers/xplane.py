"""JAX / XLA profiles (`.xplane.pb`), as `jax.profiler.trace` writes them (tsl/profiler/protobuf/xplane.proto).

Reads: the streams of "/device:GPU:N" planes as GPU work; the threads of "/host:" planes as Python frames, calls of
the GPU's runtime, steps, annotations, and ops (jitted functions, XLA modules and the HLO ops that some GPU event
names); the allocator's marks as memory; the planes' facts on devices and versions. Device lines that XLA derives
from the streams ("XLA Ops", "Steps", …) and planes of other devices are `gpu_annotation`: never GPU time twice.
Ignores: the HLO protos in "/host:metadata", scope ranges, counters.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Final

import msgspec
import numpy as np
import polars as pl

from warplens.errors import FormatError
from warplens.model.builder import RawColumns, build
from warplens.model.kinds import CODE, NONE
from warplens.model.quality import Note
from warplens.model.trace import SIDE_FRAMES, Device, Meta, Trace
from warplens.readers.columns import Codes
from warplens.readers.xplane_details import ALLOCATIONS, allocation_of, copy_name, geometry_of, id_of, size_of
from warplens.readers.xplane_planes import PlaneReader, Stats, XEvent, XLine, XPlane

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
PYTHON_FRAME: Final = re.compile(r"\$(?P<file>.+?):(?P<line>\d+) (?P<function>.*)", re.DOTALL)
RUNTIME_CALL: Final = re.compile(r"(?P<call>(?:cuda|cu|hip)[A-Z]\w*)(?: \(CudaGraph:\d+\))?")
XLA_CALL: Final = re.compile(r"PjitFunction\(.*|.*:XLA GPU module", re.DOTALL)
XLA_INTERNAL: Final = re.compile(
    r".*::|PJRT_|Wait for .* holds|ParseArguments|ThenExecuteCallback|RecordUsage|DevicePut|ComputeSemaphore"
    r"|cpp_pjit|shard_args|BUFFER_FLUSH|<UNKNOWN>"
)
"""What XLA and JAX mark by themselves outside the call of a jitted function; all that is inside one is theirs."""
XLA_THREADS: Final = re.compile(r"py_xla|tf_|pjrt|xla|Host Threads", re.IGNORECASE)
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
    planes = reader.planes(text)
    rows = _Rows(planes)
    if not rows.kind:
        damaged = reader.damage.truncated or reader.damage.places
        why = "damaged before its first whole event" if damaged else "without timed events"
        raise FormatError(f"an XLA profile (xplane), {why}", where=meta.source, hint=EXPORT)
    notes = [*notes]
    if reader.damage.truncated and not any(note.code == "truncated" for note in notes):
        notes.append(Note("truncated", detail="the last plane is cut"))
    if reader.damage.places:
        notes.append(Note("damaged", reader.damage.places, "each up to the end of its message"))
    counts = Counter({"unnamed": rows.unnamed, "out_of_range": reader.untimed})
    trace = build(rows.columns(), _with_facts(meta, planes, reader.events), counts, notes)
    if len(trace) == 0:
        raise FormatError("no event has a usable time", where=meta.source, hint=EXPORT)
    return trace


class _Rows:
    """Events of all planes as the columns that `build` takes."""

    def __init__(self, planes: list[XPlane]) -> None:
        self.kind: list[int] = []
        self.ts_us: list[float] = []
        self.dur_us: list[float] = []
        self.lane: list[int] = []
        self.name: list[int] = []
        self.ints: dict[str, list[int]] = {
            key: [] for key in ("device", "stream", "correlation", "external_id", "geometry")
        }
        self.names, self.geometries = Codes(), Codes()
        self.lanes: list[tuple[Any, Any]] = []
        self.process_names: dict[Any, str] = {}
        self.thread_names: dict[tuple[Any, Any], str] = {}
        self.copies: list[tuple[int, int]] = []
        self.memory: list[tuple[float, Any, Any, str, int, int, int]] = []
        self.unnamed = 0
        self.hlo_of: dict[int, str] = {}
        self.base_ns = _base(planes)
        self.launched: set[int] = set()
        self.hlo_ops: set[str] = set()
        on_gpu = [plane for plane in planes if plane.device is not None]
        for plane in on_gpu:
            self._add_gpu(plane)
        self.step_name = _step_name(planes)
        for plane in planes:
            if plane.name.startswith("/host:") or not plane.name:
                self._add_host(plane)
            elif plane.device is None:
                for line in plane.lines:
                    self._add_derived(plane, line)
        self._tie_to_hlo_ops()

    def columns(self) -> RawColumns:
        copies = pl.DataFrame(self.copies, schema=SIDE_FRAMES["copies"], orient="row")
        geometries = pl.DataFrame(list(self.geometries), schema=SIDE_FRAMES["geometries"], orient="row")
        return RawColumns(
            kind=np.array(self.kind, np.int64),
            ts_us=np.array(self.ts_us, np.float64),
            dur_us=np.array(self.dur_us, np.float64),
            lane=np.array(self.lane, np.int32),
            name=np.array(self.name, np.int32),
            names=list(self.names),
            lanes=self.lanes,
            ints={key: np.array(values, np.int64) for key, values in self.ints.items()},
            sides={"copies": copies, "geometries": geometries},
            process_names=self.process_names,
            thread_names=self.thread_names,
            memory=self.memory,
        )

    def _microseconds(self, line: XLine, event: XEvent) -> float:
        """Since the base: times since 1970 would lose their nanoseconds in a float."""
        return ((line.timestamp_ns - self.base_ns) * 1000 + event.offset_ps) / 1e6

    def _add(self, kind: str, name: str, line: XLine, event: XEvent, **ints: int) -> None:
        self.unnamed += not name
        self.kind.append(CODE[kind])
        self.name.append(self.names[name or "(unnamed)"])
        self.ts_us.append(self._microseconds(line, event))
        self.dur_us.append(event.duration_ps / 1e6)
        self.lane.append(len(self.lanes) - 1)
        for key, values in self.ints.items():
            values.append(ints.get(key, NONE))

    def _add_lane(self, process: Any, thread: Any, process_name: str, thread_name: str) -> None:
        self.lanes.append((process, thread))
        self.process_names[process] = process_name
        self.thread_names[process, thread] = thread_name

    def _add_gpu(self, plane: XPlane) -> None:
        has_streams = any(STREAM_LINE.match(line.name) for line in plane.lines)
        for line in plane.lines:
            is_stream = bool(STREAM_LINE.match(line.name)) if has_streams else line.name not in DERIVED_LINES
            if is_stream:
                self._add_stream(plane, line)
            else:
                self._add_derived(plane, line)

    def _add_stream(self, plane: XPlane, line: XLine) -> None:
        match = STREAM_LINE.match(line.name)
        stream = int(match[1]) if match and match[1] else line.id if line.id < 2**31 else 0
        self._add_lane(plane.name, line.id, plane.name, line.name)
        for event in line.events:
            row, lower = len(self.kind), event.name.lower()
            kind = next((kind for kind in ("memcpy", "memset") if lower.startswith(kind)), "kernel")
            correlation = id_of(event.stats.get("correlation_id"))
            self.launched.add(correlation)
            self._add(
                kind,
                copy_name(event) if kind == "memcpy" else event.name,
                line,
                event,
                device=plane.device or 0,
                stream=stream,
                correlation=correlation,
                geometry=self.geometries[geometry_of(event.stats)] if kind == "kernel" else NONE,
            )
            size = size_of(event.stats) if kind != "kernel" else NONE
            if size >= 0:
                self.copies.append((row, size))
            if "hlo_op" in event.stats:
                self.hlo_of[row] = str(event.stats["hlo_op"])
                self.hlo_ops.add(self.hlo_of[row])

    def _add_derived(self, plane: XPlane, line: XLine) -> None:
        self._add_lane(plane.name, line.id, plane.name, line.name)
        for event in line.events:
            self._add("gpu_annotation", event.name, line, event)

    def _add_host(self, plane: XPlane) -> None:
        process = id_of(plane.stats.get("process_id"))
        for line in plane.lines:
            self._add_lane(plane.name if process < 0 else process, line.id, plane.name, line.name)
            inside = _inside_xla(line)
            for event, is_inside in zip(line.events, inside, strict=True):
                if event.name in ALLOCATIONS and "allocation_bytes" in event.stats:
                    self.memory.append((self._microseconds(line, event), *self.lanes[-1], *allocation_of(event)))
                else:
                    kind, name = self._host_kind(event, is_inside or bool(XLA_THREADS.match(line.name)))
                    self._add(kind, name, line, event, correlation=id_of(event.stats.get("correlation_id")))

    def _host_kind(self, event: XEvent, is_internal: bool) -> tuple[str, str]:
        name = event.name
        if name.startswith("$"):
            frame = PYTHON_FRAME.fullmatch(name)
            return "python", f"{frame['file']}({frame['line']}): {frame['function']}" if frame else name[1:]
        call = RUNTIME_CALL.fullmatch(name)
        if call:
            return "runtime", call["call"]
        correlation = id_of(event.stats.get("correlation_id"))
        if correlation > 0:
            # XLA gives a launch the name of its kernel. Without work on a GPU it only built a graph.
            return "runtime" if correlation in self.launched else "other", name
        if "step_num" in event.stats:
            number = id_of(event.stats["step_num"])
            return "annotation", f"ProfilerStep#{number}" if name == self.step_name else f"{name} {number}"
        if name in self.hlo_ops or XLA_CALL.fullmatch(name):
            return "op", name
        if is_internal or not name or "_src" in event.stats or XLA_INTERNAL.match(name):
            return "other", name
        return "annotation", name

    def _tie_to_hlo_ops(self) -> None:
        """GPU work ↔ the host's event for its HLO op, where launches lie on a thread line of their own (ROCm).

        The op is the one of that name during which the launch began. Where several threads run it at that moment,
        it is that of the thread to which all clear cases of the launching line lead; else none is chosen.
        """
        calls: dict[int, int] = {}
        ops: dict[str, list[int]] = {}
        names = list(self.names)
        for row, kind in enumerate(self.kind):
            if kind == CODE["runtime"] and self.ints["correlation"][row] > 0:
                calls[self.ints["correlation"][row]] = row
            elif kind == CODE["op"]:
                ops.setdefault(names[self.name[row]], []).append(row)
        found = {name: _Spans([(self.ts_us[row], self.dur_us[row], row) for row in rows]) for name, rows in ops.items()}
        candidates: list[tuple[int, int, list[int]]] = []
        partners: dict[int, set[int]] = {}
        for row, name in self.hlo_of.items():
            call = calls.get(self.ints["correlation"][row])
            if call is not None and name in found:
                around = found[name].around(self.ts_us[call])
                candidates.append((row, self.lane[call], around))
                if len(around) == 1:
                    partners.setdefault(self.lane[call], set()).add(self.lane[around[0]])
        for row, lane, around in candidates:
            if len(around) > 1 and len(partners.get(lane, ())) == 1:
                around = [op for op in around if self.lane[op] in partners[lane]]
            if len(around) == 1:
                self.ints["external_id"][row] = self.ints["external_id"][around[0]] = around[0] + 1


class _Spans:
    """Intervals that can be asked which of them hold a moment."""

    def __init__(self, spans: list[tuple[float, float, int]]) -> None:
        spans = sorted(spans)
        self.start = np.array([span[0] for span in spans])
        self.end = np.array([span[0] + span[1] for span in spans])
        self.row = [span[2] for span in spans]
        self.longest = max(span[1] for span in spans)

    def around(self, moment: float) -> list[int]:
        """The rows of the intervals that hold `moment`."""
        first = int(np.searchsorted(self.start, moment - self.longest, "left"))
        last = int(np.searchsorted(self.start, moment, "right"))
        return [self.row[first + place] for place in np.flatnonzero(self.end[first:last] > moment).tolist()]


def _base(planes: list[XPlane]) -> int:
    """A line's timestamp from the middle of all: one damaged line cannot push the others away."""
    stamps = sorted(line.timestamp_ns for plane in planes for line in plane.lines if line.events)
    return stamps[len(stamps) // 2] if stamps else 0


def _step_name(planes: list[XPlane]) -> str:
    """The StepTraceAnnotation that takes most time: a run may number "train" and "eval" steps alike."""
    total: Counter[str] = Counter()
    for plane in planes:
        for line in plane.lines if plane.device is None else ():
            for event in line.events:
                if "step_num" in event.stats:
                    total[event.name] += max(0, event.duration_ps)
    return total.most_common(1)[0][0] if total else ""


def _inside_xla(line: XLine) -> list[bool]:
    """Which events of a thread lie inside the call of a jitted function."""
    order = sorted(range(len(line.events)), key=lambda row: (line.events[row].offset_ps, -line.events[row].duration_ps))
    inside = [False] * len(order)
    until = None
    for row in order:
        event = line.events[row]
        inside[row] = until is not None and event.offset_ps < until
        if XLA_CALL.fullmatch(event.name):
            until = max(until or event.offset_ps, event.offset_ps + event.duration_ps)
    return inside


def _with_facts(meta: Meta, planes: list[XPlane], events: int) -> Meta:
    facts = {name: str(plane.stats[name]) for plane in planes for name in VERSIONS if name in plane.stats}
    return msgspec.structs.replace(
        meta,
        format="xplane",
        devices=tuple(_device(plane.device, plane.stats) for plane in planes if plane.device is not None),
        facts=facts,
        events_in_file=events,
    )


def _device(number: int, stats: Stats) -> Device:
    major, minor = (id_of(stats.get(f"compute_cap_{part}")) for part in ("major", "minor"))
    return Device(
        id=number,
        name=str(stats.get("gpu_device_name") or stats.get("device_vendor") or ""),
        memory_bytes=max(0, id_of(stats.get("memory_size"))),
        multiprocessors=max(0, id_of(stats.get("core_count"))),
        compute=f"{major}.{max(0, minor)}" if major >= 0 else "",
    )

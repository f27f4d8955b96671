"""PyTorch (Kineto) traces and, as well as can be, any other trace-event JSON.

Reads: every complete ("X") event; begin/end pairs; memory instants; forward–backward flows; process and thread
names; the header's device and job facts; `ac2g` flows where no event has a correlation id, which says the same and is
there even where the flows are not. Ignores: instants other than memory, sort hints. PyTorch writes the file in
torch/csrc/profiler and third_party/kineto (output_json.cpp); old releases spelt the categories "Kernel",
"Runtime", "Operator".
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec
import numpy as np

from warplens.model.assemble import MAX_DEVICE, EventColumns
from warplens.model.builder import TraceBuilder
from warplens.model.copies import COPY
from warplens.model.event_records import Lane
from warplens.model.kinds import CODE, MODULE_PREFIX
from warplens.model.quality import Note
from warplens.model.trace import MOST_RANKS, Device, Distributed, Meta, ProcessGroup, Trace
from warplens.readers.kineto import native
from warplens.readers.kineto.adding import KIND_OF_CATEGORY, EventAdder, KinetoEvents, KinetoFile
from warplens.readers.kineto.events import EventReader
from warplens.readers.kineto.launch_flows import link_by_flows
from warplens.readers.kineto.moved_events import put_back_moved
from warplens.readers.kineto.profiler_ranges import CATEGORY as RANGES
from warplens.readers.kineto.profiler_ranges import with_range_counters
from warplens.readers.kineto.records import KinetoEvent, KinetoHeader
from warplens.readers.kineto.scope_metrics import with_scope_metrics
from warplens.readers.kineto.sync_waits import CATEGORY as SYNCS
from warplens.readers.kineto.sync_waits import with_sync_waits
from warplens.readers.shared.event_damage import damage_notes
from warplens.readers.shared.gc_pause import gc_paused
from warplens.readers.shared.stored_file import slices
from warplens_run.base import bounded
from warplens_run.base.errors import FormatError
from warplens_run.base.quoted_names import escape_names

EXPORT = "record a trace with torch.profiler: prof.export_chrome_trace('trace.json.gz')"
HEAD_BYTES = 4096
NOT_A_TRACE = "JSON, but not a trace"
STEPS_LANE = "steps"
ANNOTATION_CATEGORY = "user_annotation"
ACCELERATORS = {"mtia_ccp_events": "an MTIA accelerator", "mtia_insight": "an MTIA accelerator"}
"""Categories of what Kineto records on devices that are not GPUs."""
MARK_PREFIXES = ("ProfilerStep#", "Optimizer.", "enumerate(DataLoader)#", "DistributedDataParallel.")
KIND_OF_NAME = {
    "memcpy": re.compile(rf"memcpy|(?:{COPY.pattern})\Z", re.IGNORECASE),
    "memset": re.compile("memset", re.IGNORECASE),
}
"""How names of GPU work begin, in files without categories, that are not kernels."""
FACTS = ("with_stack", "record_shapes", "profile_memory")
VERSIONS = ("cuda_runtime_version", "cuda_driver_version", "hip_runtime_version", "hip_driver_version")


def read(text: bytes, meta: Meta, notes: list[Note], *, step_marks_ns: Sequence[int] = ()) -> Trace:
    """The trace of a trace-event JSON text; `notes` are what unwrapping it had to say.

    `step_marks_ns` are the begin of the first step and the ends of all, in nanoseconds since 1970, where the file
    itself does not mark them.
    """
    text, escaped = escape_names(text)
    if escaped:
        notes = [*notes, Note("escaped_names", escaped)]
        # The native reader left the text to this one because of them; without a library it does so again.
        if (file := native.read_file(slices(text))) is not None:
            return _trace(file, meta, notes, step_marks_ns)
    reader = EventReader(text)
    if not reader.is_trace:
        raise _not_a_trace(text, meta)
    events = _read_events(reader)
    if (later := reader.later_array()) is not None:
        skipped = sum(events.phases.values()) + later.passed
        notes = [*notes, Note("repeated_array", skipped)] if skipped else notes
        reader, text = EventReader(text, later.start), text[later.start :]
        events = _read_events(reader)
    return _trace(KinetoFile(events, reader.header, reader.damage, text), meta, notes, step_marks_ns)


def _read_events(reader: EventReader) -> KinetoEvents:
    """All events of a text; `reader` then knows the header and the damage."""
    events = KinetoEvents()
    adder = EventAdder(events)
    with gc_paused():
        for piece in reader.pieces():
            adder.add(piece)
        adder.finish()
    reader.finish()
    return events


def _not_a_trace(text: bytes, meta: Meta) -> FormatError:
    from warplens.readers.other_files import TEXT, describe

    what, hint = describe(b"", text[:HEAD_BYTES])
    what = f"{NOT_A_TRACE}: no traceEvents" if what == TEXT else f"{what}, not a trace"
    return FormatError(what, where=meta.source, hint=hint or EXPORT)


def read_chunks(
    chunks: Iterable[bytes], meta: Meta, notes: list[Note], *, step_marks_ns: Sequence[int] = ()
) -> Trace | None:
    """The same trace by the native reader, which takes the text in chunks; None where it leaves the file to `read`."""
    file = native.read_file(chunks)
    return None if file is None else _trace(file, meta, notes, step_marks_ns)


def _trace(file: KinetoFile, meta: Meta, notes: list[Note], step_marks_ns: Sequence[int]) -> Trace:
    events, header, damage = file.events, file.header, file.damage
    builder = events.builder
    _close_begin_end(events)
    if len(builder) == 0:
        raise FormatError(_why_empty(events, damage), where=meta.source, hint=EXPORT)
    _add_steps(builder, step_marks_ns, header)
    is_kineto = any(category.lower() in KIND_OF_CATEGORY for category in events.categories)
    columns = builder.gathered()
    if is_kineto:
        _mark_modules(builder, columns)
        link_by_flows(events.launch_flows, builder, columns)
    else:
        _guess_kinds(builder, columns)
        notes = [*notes, Note("chrome", detail=_chrome_detail(columns))]
    if ANNOTATION_CATEGORY not in events.categories:
        _mark_annotations(builder, columns)
    notes = [*notes, *_accelerator_notes(events.categories)]
    _fill_devices(builder, columns)
    put_back_moved(builder, columns, header.warplens_converted)
    builder.damage["not_events"] += damage["not_events"] + events.phases[""]
    meta = _with_header(meta, header, events, is_kineto)
    trace = builder.build(meta, [*notes, *damage_notes(damage, notes)])
    if len(trace) == 0:
        raise FormatError("no event has a usable time", where=meta.source, hint=EXPORT)
    if SYNCS in events.categories:
        trace = with_sync_waits(trace, file.sync_text)
    trace = with_scope_metrics(trace, header.warplens_scopes)
    return with_range_counters(trace, file.sync_text) if RANGES in events.categories else trace


def _add_steps(builder: TraceBuilder, marks_ns: Sequence[int], header: KinetoHeader) -> None:
    """The file's times are those since its base, or since 1970 where it has none."""
    if not marks_ns:
        return
    base_ns = _number(header.baseTimeNanoseconds)
    lane = builder.add_lane(STEPS_LANE, STEPS_LANE, STEPS_LANE, STEPS_LANE)
    for step, (start_ns, end_ns) in enumerate(pairwise(marks_ns)):
        builder.add("annotation", f"ProfilerStep#{step}", start_ns - base_ns, end_ns - start_ns, lane=lane)


def _why_empty(events: KinetoEvents, damage: Counter[str]) -> str:
    if damage["truncated"] or damage["damaged"]:
        return "damaged before the first complete event"
    entries = events.phases[""] + damage["not_events"]
    if sum(events.phases.values()) > events.phases[""]:
        return "no timed events in the file"
    return f"{NOT_A_TRACE}: no trace events in the file" if entries else "no trace events in the file"


def _close_begin_end(events: KinetoEvents) -> None:
    """Begin/end pairs become complete events."""
    open_events: dict[Lane, _OpenEvents] = {}
    complete = []
    # A begin without a usable time would upset the order of all the others.
    timed = [event for event in events.begin_end if math.isfinite(event.ts)]
    for event in sorted(timed, key=lambda event: event.ts):
        lane = open_events.setdefault((event.pid, event.tid), _OpenEvents())
        if event.ph == "B":
            lane.open(event)
        elif (begin := lane.close(event.name)) is not None:
            begin.ph, begin.dur = "X", event.ts - begin.ts
            complete.append(begin)
    events.builder.damage["unclosed"] += len(events.begin_end) - 2 * len(complete)
    adder = EventAdder(events)
    adder.add(complete)
    adder.finish()
    events.phases["X"] -= len(complete)


class _OpenEvents:
    """The begins of a lane that have no end yet."""

    def __init__(self) -> None:
        self._stack: list[KinetoEvent] = []
        self._places: dict[str, list[int]] = {}
        """By name, where in the stack: a search through it for every end would take the square of its height."""

    def open(self, event: KinetoEvent) -> None:
        self._places.setdefault(event.name, []).append(len(self._stack))
        self._stack.append(event)

    def close(self, name: str) -> KinetoEvent | None:
        """The begin that an end belongs to: the latest of its name, and the latest of all where none has it."""
        if not self._stack:
            return None
        own = self._places.get(name)
        place = own[-1] if own else len(self._stack) - 1
        closed = self._stack[place:]
        del self._stack[place:]
        for event in closed:
            self._places[event.name].pop()
        return closed[0]


def _mark_modules(builder: TraceBuilder, columns: EventColumns) -> None:
    """Calls of modules are Python frames whose names say so."""
    is_frame = columns.kind == CODE["python"]
    if not is_frame.any():
        return
    is_module = np.fromiter((name.startswith(MODULE_PREFIX) for name in builder.names), bool, len(builder.names))
    columns.kind[is_frame & is_module[columns.name]] = CODE["module"]


def _accelerator_notes(categories: set[str]) -> list[Note]:
    names = sorted({name for category, name in ACCELERATORS.items() if category in categories})
    return [Note("other_accelerator", detail=" and ".join(names))] if names else []


def _mark_annotations(builder: TraceBuilder, columns: EventColumns) -> None:
    """Files before PyTorch 1.12 call all that a program records an "Operator"; the names that PyTorch itself gives to
    steps, optimizers and data loaders still say that they are marks."""
    is_mark = np.fromiter((name.startswith(MARK_PREFIXES) for name in builder.names), bool, len(builder.names))
    if is_mark.any():
        columns.kind[(columns.kind == CODE["op"]) & is_mark[columns.name]] = CODE["annotation"]


def _guess_kinds(builder: TraceBuilder, columns: EventColumns) -> None:
    """Chrome traces name their processes: those of a GPU hold kernels, the others host events."""
    # PyTorch up to 1.7 has no names of processes: its processes are "CPU functions" and "CUDA functions".
    names = [builder.process_names.get(process) or str(process) for process, _ in builder.lanes.in_order]
    on_gpu = [_is_gpu_process(name) for name in names]
    kernel = np.array(on_gpu, bool)[columns.lane]
    # A host event of such a trace may be a Python frame, an op or a mark; "op" lets kernels hang below it.
    columns.kind[:] = np.where(kernel, CODE["kernel"], CODE["op"])
    for kind, pattern in KIND_OF_NAME.items():
        is_kind = np.fromiter((pattern.match(name) is not None for name in builder.names), bool, len(builder.names))
        columns.kind[kernel & is_kind[columns.name]] = CODE[kind]


def _is_gpu_process(name: str) -> bool:
    return "gpu" in name.lower().split("(")[0] or "cuda" in name.lower()


def _chrome_detail(columns: EventColumns) -> str:
    on_gpu = int(columns.is_gpu_work.sum())
    return f"{on_gpu:,} events are on processes named after a GPU" if on_gpu else "no process is named after a GPU"


def _fill_devices(builder: TraceBuilder, columns: EventColumns) -> None:
    """GPU work without `device` or `stream` in its args has the numbers of its process and thread."""
    gpu = columns.is_gpu_work
    for index, column in enumerate(("device", "stream")):
        values = columns.whole_column(column)
        unknown = gpu & (values < 0)
        if unknown.any():
            numbers = np.array([_lane_number(builder, lane, index) for lane in builder.lanes.in_order], np.int64)
            values[unknown] = numbers[columns.lane[unknown]]
    device = columns.whole_column("device")
    device[device >= MAX_DEVICE] = 0


def _lane_number(builder: TraceBuilder, lane: Lane, index: int) -> int:
    """A device's number from its process's name ("/device:GPU:0") where there is one, else the id itself."""
    named = re.fullmatch(r"/device:\w+:(\d{1,9})", builder.process_names.get(lane[0], "")) if index == 0 else None
    return bounded.whole(named[1]) if named else _number(lane[index])


def _number(value: object) -> int:
    """A count or an id as a whole number: as it is, or the digits of a text ("stream 7"); 0 where there is none."""
    if isinstance(value, str):
        value = "".join(re.findall(r"[0-9]", value[: bounded.MOST_NUMBER_CHARACTERS]))
    return bounded.whole(value, least=0)


def _with_header(meta: Meta, header: KinetoHeader, events: KinetoEvents, is_kineto: bool) -> Meta:
    facts = {name: "yes" for name in FACTS if getattr(header, name)}
    facts |= {name: version for name in VERSIONS if (version := bounded.text(getattr(header, name)))}
    return msgspec.structs.replace(
        meta,
        format="kineto" if is_kineto else "chrome",
        devices=_devices(header.deviceProperties),
        distributed=_distributed(header.distributedInfo),
        facts=facts,
        events_in_file=sum(events.phases.values()),
        phases=dict(events.phases),
        origin_ns=_number(header.baseTimeNanoseconds),
    )


def _devices(properties: object) -> tuple[Device, ...]:
    if not isinstance(properties, list):
        return ()
    return tuple(_device(entry) for entry in properties if isinstance(entry, dict))


def _device(entry: dict[str, object]) -> Device:
    major, minor = entry.get("computeMajor"), entry.get("computeMinor")
    return Device(
        id=_number(entry.get("id")),
        name=bounded.text(entry.get("name")),
        memory_bytes=_number(entry.get("totalGlobalMem")),
        multiprocessors=_number(entry.get("numSms")),
        compute="" if major is None else f"{bounded.text(major)}.{bounded.text(minor)}",
        threads_per_multiprocessor=_number(entry.get("maxThreadsPerMultiprocessor")),
        registers_per_multiprocessor=_number(entry.get("regsPerMultiprocessor")),
        shared_bytes_per_multiprocessor=_number(entry.get("sharedMemPerMultiprocessor")),
        warp_size=_number(entry.get("warpSize")),
    )


def _distributed(info: object) -> Distributed | None:
    if not isinstance(info, dict) or "rank" not in info:
        return None
    rank, world_size = _number(info.get("rank")), _number(info.get("world_size"))
    if rank >= MOST_RANKS:
        return None
    return Distributed(
        backend=bounded.text(info.get("backend")),
        rank=rank,
        world_size=world_size if rank < world_size <= MOST_RANKS else 0,
        groups=_groups(info.get("pg_config")),
    )


def _groups(config: object) -> tuple[ProcessGroup, ...]:
    """Of a list of groups; older files have a single one without its ranks, which says nothing."""
    entries = config if isinstance(config, list) else []
    return tuple(
        ProcessGroup(
            bounded.text(entry.get("pg_name")),
            bounded.text(entry.get("pg_desc")),
            tuple(_number(rank) for rank in entry["ranks"]),
        )
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("ranks"), list)
    )

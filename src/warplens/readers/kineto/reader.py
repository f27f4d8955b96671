"""PyTorch (Kineto) traces and, as well as can be, any other trace-event JSON.

Reads: every complete ("X") event; begin/end pairs; memory instants; forward–backward flows; process and thread
names; the header's device and job facts. Ignores: `ac2g` flows (the correlation ids say the same and are there
even where the flows are not), instants other than memory, sort hints. PyTorch writes the file in
torch/csrc/profiler and third_party/kineto (output_json.cpp); old releases spelt the categories "Kernel",
"Runtime", "Operator".
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any

import msgspec
import numpy as np
import polars as pl

from warplens.errors import FormatError
from warplens.model.builder import Flows, RawColumns, build
from warplens.model.kinds import CODE, MODULE_PREFIX, NONE
from warplens.model.quality import Note
from warplens.model.trace import SIDE_FRAMES, Device, Distributed, Meta, Trace
from warplens.readers.kineto.columns import ALL_INTS, Columns
from warplens.readers.kineto.events import EventReader
from warplens.readers.kineto.halves import read_columns
from warplens.readers.kineto.records import Args, Event, Header
from warplens.readers.kineto.scope_metrics import with_scope_metrics

KIND_OF_CATEGORY = {
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
    "overhead": "overhead",
    "trace": "other",
}
ARGS_GROUP = {
    # kind: which fields of `args` its events carry (see columns.INT_COLUMNS)
    "op": "host",
    "annotation": "host",
    "runtime": "runtime",
    "kernel": "gpu",
    "memcpy": "gpu",
    "memset": "gpu",
}
MEMORY_DEVICE_TYPES = {0: "CPU", 1: "GPU", 6: "GPU"}  # c10::DeviceType: CPU, CUDA, HIP
EXPORT = "a trace comes from torch.profiler: prof.export_chrome_trace('trace.json.gz')"
FACTS = ("with_stack", "record_shapes", "profile_memory")
VERSIONS = ("cuda_runtime_version", "cuda_driver_version", "hip_runtime_version", "hip_driver_version")


def read(text: bytes, meta: Meta, notes: list[Note]) -> Trace:
    """The trace of a trace-event JSON text; `notes` are what unwrapping it had to say."""
    reader = EventReader(text)
    if not reader.is_trace:
        raise FormatError("JSON, but not a trace: no traceEvents", where=meta.source, hint=EXPORT)
    columns = read_columns(reader, _args_group)
    _close_begin_end(columns, reader.damage)
    if columns.rows == 0:
        raise FormatError(_why_empty(columns, reader.damage), where=meta.source, hint=EXPORT)
    is_kineto = any(category.lower() in KIND_OF_CATEGORY for category in columns.categories)
    raw = _raw_columns(columns, reader.damage, is_kineto)
    if not is_kineto:
        notes = [*notes, Note("chrome", detail=_chrome_detail(raw))]
    meta = _with_header(meta, reader.header, columns, is_kineto)
    trace = build(raw, meta, _damage_counts(reader.damage, columns), _damage_notes(notes, reader.damage))
    if len(trace) == 0:
        raise FormatError("no event has a usable time", where=meta.source, hint=EXPORT)
    return with_scope_metrics(trace, reader.header.warplens_scopes)


def _args_group(category: str) -> str:
    return ARGS_GROUP.get(KIND_OF_CATEGORY.get(category.lower(), ""), "plain")


def _why_empty(columns: Columns, damage: Counter[str]) -> str:
    if damage["truncated"] or damage["damaged"]:
        return "damaged before the first whole event"
    return "holds no timed events" if sum(columns.phases.values()) else "holds no trace events"


def _damage_notes(notes: list[Note], damage: Counter[str]) -> list[Note]:
    """Notes that carry words; plain counts go through `_damage_counts`."""
    more = list(notes)
    if damage["truncated"] and not any(note.code == "truncated" for note in notes):
        more.append(Note("truncated", detail="the last entry is cut"))
    if damage["damaged"]:
        more.append(Note("damaged", damage["damaged"], "each up to the next whole event"))
    if damage["bad_args"]:
        more.append(Note("bad_args", damage["bad_args"], "of an unexpected type"))
    if damage["bad_text"]:
        more.append(Note("bad_text"))
    if damage["header"]:
        more.append(Note("header"))
    return more


def _damage_counts(damage: Counter[str], columns: Columns) -> Counter[str]:
    counts = Counter({code: damage[code] for code in ("not_events", "unclosed", "unnamed")})
    counts["not_events"] += columns.phases[""]
    return counts


def _close_begin_end(columns: Columns, damage: Counter[str]) -> None:
    """Begin/end pairs become complete events."""
    open_events: dict[tuple[Any, Any], list[Event]] = {}
    complete = []
    # A begin without a usable time would upset the order of all the others.
    timed = [event for event in columns.begin_end if math.isfinite(event.ts)]
    for event in sorted(timed, key=lambda event: event.ts):
        stack = open_events.setdefault((event.pid, event.tid), [])
        if event.ph == "B":
            stack.append(event)
        elif stack:
            begin = _close_latest(stack, event.name)
            begin.ph, begin.dur = "X", event.ts - begin.ts
            complete.append(begin)
    damage["unclosed"] += len(columns.begin_end) - 2 * len(complete)
    columns.add(complete)
    columns.phases["X"] -= len(complete)


def _close_latest(stack: list[Event], name: str) -> Event:
    """The begin that an end belongs to: the latest of its name, and the latest of all where none has it."""
    place = next((place for place in reversed(range(len(stack))) if stack[place].name == name), len(stack) - 1)
    begin = stack[place]
    del stack[place:]
    return begin


def _raw_columns(columns: Columns, damage: Counter[str], is_kineto: bool) -> RawColumns:
    names = list(columns.names)
    name = columns.column("name", np.int32)
    ints = {key: columns.column(key, np.int64) for key in (*ALL_INTS, "spec", "geometry")}
    raw = RawColumns(
        kind=_kinds(columns, names, name),
        ts_us=columns.column("ts", np.float64),
        dur_us=columns.column("dur", np.float64),
        lane=columns.column("lane", np.int32),
        name=name,
        names=names,
        lanes=list(columns.lanes),
        ints=ints,
        memory=[_memory_row(event) for event in columns.memory],
        flows=_flows(columns),
    )
    raw.sides = _side_frames(columns)
    _label(raw, columns.labels)
    if not is_kineto:
        _guess_kinds(raw)
    _place_on_devices(raw)
    _name_the_unnamed(raw, damage)
    return raw


def _kinds(columns: Columns, names: list[str], name: Any) -> Any:
    by_category = np.array(
        [CODE[KIND_OF_CATEGORY.get(category.lower(), "other")] for category in columns.categories], np.int64
    )
    kind = by_category[columns.column("category", np.int32)]
    is_module = np.fromiter((text.startswith(MODULE_PREFIX) for text in names), bool, len(names))
    kind[(kind == CODE["python"]) & is_module[name]] = CODE["module"]
    return kind


def _side_frames(columns: Columns) -> dict[str, pl.DataFrame]:
    specs = [[part.decode(errors="replace") for part in key.split(b"\0")] for key in columns.specs]
    geometries = [
        (*(part.decode(errors="replace") for part in key[0].split(b"\0")), *key[1:]) for key in columns.geometries
    ]
    collectives = [(row, *_collective(args)) for row, args in columns.collectives]
    rows: dict[str, list[Any]] = {
        "specs": specs,
        "geometries": geometries,
        "copies": columns.copies,
        "collectives": collectives,
    }
    return {name: _side_frame(name, values) for name, values in rows.items()}


def _side_frame(name: str, rows: list[Any]) -> pl.DataFrame:
    try:
        return pl.DataFrame(rows, schema=SIDE_FRAMES[name], orient="row", strict=False)
    except (pl.exceptions.PolarsError, OverflowError):
        fitting = [[_fitting(value) for value in row] for row in rows]
        return pl.DataFrame(fitting, schema=SIDE_FRAMES[name], orient="row", strict=False)


def _fitting(value: Any) -> Any:
    """The value, or -1 (absent) for a number beyond 64 bits: no file holds so many bytes or elements."""
    return value if not isinstance(value, int) or -(2**63) <= value < 2**63 else NONE


def _collective(args: Args) -> tuple[Any, ...]:
    ranks = args.ranks if isinstance(args.ranks, str) or args.ranks is None else str(args.ranks)
    group = None if args.group is None else str(args.group)
    return args.collective, args.dtype, args.in_elements, args.out_elements, args.group_size, group, ranks


def _flows(columns: Columns) -> Flows:
    """The ends of forward–backward arrows as columns."""
    return Flows(
        opens=np.array(columns.flow_opens, bool),
        key=np.array(columns.flow_key, np.int32),
        ts_us=np.array(columns.flow_ts, np.float64),
        lane=np.array(columns.flow_lane, np.int32),
    )


def _memory_row(event: Event) -> tuple[float, Any, Any, str, int, int, int]:
    args = event.args or Args()
    where = MEMORY_DEVICE_TYPES.get(args.memory_device_type, f"device type {args.memory_device_type}")
    device = where if where == "CPU" else f"{where} {args.memory_device}"
    sizes = map(_fitting, (args.memory_bytes, args.memory_allocated, args.memory_reserved))
    return event.ts, event.pid, event.tid, device, *sizes


def _label(raw: RawColumns, labels: list[Event]) -> None:
    for event in labels:
        text = "" if event.args is None or event.args.label is None else str(event.args.label)
        if event.name == "process_name":
            raw.process_names[event.pid] = text
        elif event.name == "thread_name":
            raw.thread_names[event.pid, event.tid] = text


def _guess_kinds(raw: RawColumns) -> None:
    """Chrome traces name their processes: those of a GPU hold kernels, the others host events."""
    on_gpu = [_is_gpu_process(raw.process_names.get(process, "")) for process, _ in raw.lanes]
    kernel = np.array(on_gpu, bool)[raw.lane]
    copies = np.fromiter((text.lower().startswith("memcpy") for text in raw.names), bool, len(raw.names))
    sets = np.fromiter((text.lower().startswith("memset") for text in raw.names), bool, len(raw.names))
    # A host event of such a trace may be a Python frame, an op or a mark; "op" lets kernels hang below it.
    raw.kind[:] = np.where(kernel, CODE["kernel"], CODE["op"])
    raw.kind[kernel & copies[raw.name]] = CODE["memcpy"]
    raw.kind[kernel & sets[raw.name]] = CODE["memset"]


def _is_gpu_process(name: str) -> bool:
    return "gpu" in name.lower().split("(")[0] or "cuda" in name.lower()


def _chrome_detail(raw: RawColumns) -> str:
    on_gpu = int(np.isin(raw.kind, [CODE["kernel"], CODE["memcpy"], CODE["memset"]]).sum())
    return f"{on_gpu:,} events lie on processes named after a GPU" if on_gpu else "no process is named after a GPU"


def _place_on_devices(raw: RawColumns) -> None:
    """Work without `device` or `stream` in its args lies where its process and thread ids say."""
    gpu = np.isin(raw.kind, [CODE["kernel"], CODE["memcpy"], CODE["memset"]])
    for place, column in enumerate(("device", "stream")):
        lost = gpu & (raw.ints[column] < 0)
        if lost.any():
            numbers = np.array([_place_number(raw, lane, place) for lane in raw.lanes], np.int64)
            raw.ints[column][lost] = numbers[raw.lane[lost]]
    too_large = raw.ints["device"] > np.iinfo(np.int32).max
    raw.ints["device"][too_large] = 0


def _place_number(raw: RawColumns, lane: tuple[Any, Any], place: int) -> int:
    """A device's number from its process's name ("/device:GPU:0") where there is one, else the id itself."""
    named = re.fullmatch(r"/device:\w+:(\d{1,9})", raw.process_names.get(lane[0], "")) if place == 0 else None
    return int(named[1]) if named else _number(lane[place])


def _number(value: Any) -> int:
    """A count or an id as a whole number: as it is, or the digits of a text ("stream 7"); 0 where there is none."""
    if isinstance(value, (int, float)):
        return int(value) if 0 <= value < 2**63 else 0
    digits = "".join(re.findall(r"[0-9]", value)) if isinstance(value, str) else ""
    return int(digits[:18] or 0)


def _text(value: Any) -> str:
    return str(value) if isinstance(value, (str, int, float)) else ""


def _name_the_unnamed(raw: RawColumns, damage: Counter[str]) -> None:
    if "" in raw.names:
        code = raw.names.index("")
        raw.names[code] = "(unnamed)"
        damage["unnamed"] = int((raw.name == code).sum())


def _with_header(meta: Meta, header: Header, columns: Columns, is_kineto: bool) -> Meta:
    facts = {name: "yes" for name in FACTS if getattr(header, name)}
    facts |= {name: version for name in VERSIONS if (version := _text(getattr(header, name)))}
    return msgspec.structs.replace(
        meta,
        format="kineto" if is_kineto else "chrome",
        devices=_devices(header.deviceProperties),
        distributed=_distributed(header.distributedInfo),
        facts=facts,
        events_in_file=sum(columns.phases.values()),
        phases=dict(columns.phases),
    )


def _devices(properties: Any) -> tuple[Device, ...]:
    if not isinstance(properties, list):
        return ()
    return tuple(_device(entry) for entry in properties if isinstance(entry, dict))


def _device(entry: dict[str, Any]) -> Device:
    major, minor = entry.get("computeMajor"), entry.get("computeMinor")
    return Device(
        id=_number(entry.get("id")),
        name=_text(entry.get("name")),
        memory_bytes=_number(entry.get("totalGlobalMem")),
        multiprocessors=_number(entry.get("numSms")),
        compute="" if major is None else f"{_text(major)}.{_text(minor)}",
        threads_per_multiprocessor=_number(entry.get("maxThreadsPerMultiprocessor")),
        registers_per_multiprocessor=_number(entry.get("regsPerMultiprocessor")),
        shared_bytes_per_multiprocessor=_number(entry.get("sharedMemPerMultiprocessor")),
        warp_size=_number(entry.get("warpSize")),
    )


def _distributed(info: Any) -> Distributed | None:
    if not isinstance(info, dict) or "rank" not in info:
        return None
    return Distributed(
        backend=_text(info.get("backend")),
        rank=_number(info.get("rank")),
        world_size=max(1, _number(info.get("world_size"))),
    )

"""The native reader: chunks of text in, the columns of a trace's events out, or the file left to the Python reader.

The library (`native/`) takes what profilers write and hands over all else: damage, NaN, keys twice, odd types, numbers
out of range. What it takes, it adds in the order of `EventReader` and `EventAdder`, so that the trace is the same to
the last code. Events that are few (labels, begins and ends, collectives) it leaves as text, which is
decoded and added here by the same functions as ever.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count, pairwise
from typing import Any, Final, cast

import numpy as np

from warplens import native_library
from warplens.model.allocations import AllocationColumns
from warplens.model.arrays import distinct
from warplens.model.assemble import Array
from warplens.model.builder import TraceBuilder
from warplens.model.event_records import CallSpec, LaunchGeometry, ThreadId
from warplens.model.kinds import CODE, GPU_WORK, OWN_CATEGORIES
from warplens.native_library import CLOSED, HANDED_OVER
from warplens.readers.kineto.adding import (
    ARGS_OF_KIND,
    FLOW_PHASES,
    GPU_ARGS,
    HOST_ARGS,
    KIND_OF_CATEGORY,
    EventAdder,
    KinetoEvents,
    KinetoFile,
    collective_of,
    memory_device,
)
from warplens.readers.kineto.events import ARRAY_START, BYTE_ORDER_MARK, PIECE_BYTES, array_start, read_header
from warplens.readers.kineto.profiler_ranges import CATEGORY as RANGES
from warplens.readers.kineto.records import DECODERS, UNREADABLE, KinetoEvent
from warplens.readers.kineto.sync_waits import MARK
from warplens.readers.shared.gc_pause import gc_paused

MAX_HEAD_BYTES: Final = 16 << 20
"""Headers are kilobytes; where the events begin later than this, the text is searched for them by Python."""
GEOMETRY_NUMBERS: Final = struct.Struct("=qqd")
"""Registers, shared memory and occupancy, which begin a geometry's key."""
NUMBER: Final = ord("i")
NUMBER_BYTES: Final = 9
WORK_CODES: Final = tuple(CODE[kind] for kind in GPU_WORK)
INT_COLUMNS: Final = tuple(dict.fromkeys((*HOST_ARGS, *GPU_ARGS, "spec", "geometry")))


class HandedOverError(Exception):
    """The file is for the Python reader; the text says why."""


def read_file(chunks: Iterable[bytes]) -> KinetoFile | None:
    """What a text in chunks says, or None where Python has to read it."""
    library = native_library.library()
    if library is None:
        return None
    try:
        return read_natively(library, chunks)
    except HandedOverError:
        return None


def read_natively(library: ctypes.CDLL, chunks: Iterable[bytes]) -> KinetoFile:
    """Likewise; raises `HandedOverError`."""
    stream = iter(chunks)
    head, first = _head(stream)
    reader = _NativeReader(library)
    if reader.feed(first):
        for chunk in stream:
            if not reader.feed(chunk):
                break
    arrays = reader.finish()
    tail = b"".join((arrays["tail"].tobytes(), *stream))
    if ARRAY_START.search(tail):
        raise HandedOverError("traceEvents twice")
    damage: Counter[str] = Counter()
    header = read_header(head, tail, damage)
    if any(damage.values()):
        raise HandedOverError("damaged around the array")
    with gc_paused():
        events = _events(arrays)
    if RANGES in events.categories:
        raise HandedOverError("counters of CUPTI, by names of the program's choice")
    if MARK in head:  # it could reach into the first event
        raise HandedOverError("a mark of synchronisation in the header")
    return KinetoFile(events, header, damage, arrays["sync_text"].tobytes() + tail)


def _head(chunks: Iterator[bytes]) -> tuple[bytes, bytes]:
    """The text up to the first event, and what has come with it of the rest."""
    text, more, wanted = b"", bytearray(), 0
    for chunk in chain(chunks, (None,)):
        more += chunk or b""
        # Searched again when there is twice as much: with every chunk, it would take the square of the header's size.
        if chunk is not None and len(more) < wanted:
            continue
        text, more = text + more, bytearray()
        if text.startswith(BYTE_ORDER_MARK):
            raise HandedOverError("a byte order mark")
        start = array_start(text)
        if start >= 0:
            return text[:start], text[start:]
        wanted = len(text)
        if wanted > MAX_HEAD_BYTES:
            break
    raise HandedOverError("no events near the beginning")


class _NativeReader:
    """One reading by the library; freed when the last array of it is gone."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._state = 0
        categories = _categories(_parts(library))
        seed = int.from_bytes(os.urandom(8), "little")
        self._handle = library.wl_new(categories, len(categories), OWN_CATEGORIES.encode(), PIECE_BYTES, seed)
        if not self._handle:
            raise HandedOverError("not enough memory")

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._library.wl_free(self._handle)

    def feed(self, chunk: bytes) -> bool:
        """Whether the array goes on."""
        self._state = self._library.wl_feed(self._handle, chunk, len(chunk))
        self._check()
        return self._state != CLOSED

    def finish(self) -> dict[str, Array]:
        self._state = self._library.wl_finish(self._handle)
        self._check()
        return dict(self._arrays())

    def _check(self) -> None:
        if self._state == HANDED_OVER:
            at = ctypes.c_uint64()
            why = self._library.wl_why(self._handle, at).decode()
            raise HandedOverError(f"{why}, {at.value:,} bytes into the events")

    def _arrays(self) -> Iterator[tuple[str, Array]]:
        found = native_library.Array()
        number = 0
        while self._library.wl_get(self._handle, number, found):
            yield found.name.decode(), self._view(found)
            number += 1

    def _view(self, array: Any) -> Array:
        if array.bytes == 0:
            return np.empty(0, array.type.decode())
        memory = (ctypes.c_char * array.bytes).from_address(array.data)
        memory.owner = self  # numpy keeps the memory's object, and that keeps the library's reader
        return np.frombuffer(memory, array.type.decode())


def _parts(library: ctypes.CDLL) -> list[str]:
    return cast(bytes, library.wl_parts()).decode().split()


def _categories(parts: list[str]) -> ctypes.Array[native_library.Category]:
    """What the library does with each category, by the tables of `adding`; the last is for all others."""
    kinds = {**KIND_OF_CATEGORY, "": "other"}
    entries = [
        native_library.Category(category.encode(), CODE[kind], sum(1 << parts.index(part) for part in _parts_of(kind)))
        for category, kind in kinds.items()
    ]
    return (native_library.Category * len(entries))(*entries)


def _parts_of(kind: str) -> tuple[str, ...]:
    fields = ARGS_OF_KIND.get(kind, ())
    spec = ("spec",) if fields is HOST_ARGS else ()
    geometry = ("geometry",) if fields is GPU_ARGS else ()
    collective = ("collective",) if fields and kind != "runtime" else ()
    return (*fields, *spec, *geometry, *collective)


def _events(arrays: dict[str, Array]) -> KinetoEvents:
    phases = zip(_texts(arrays, "phases"), arrays["phase_count"].tolist(), strict=True)
    events = KinetoEvents(categories=set(_texts(arrays, "categories")), phases=Counter(dict(phases)))
    has_other_flows = sum(events.phases[phase] for phase in FLOW_PHASES) > len(arrays["flow_key"])
    if has_other_flows and not (arrays["correlation"] > 0).any() and np.isin(arrays["kind"], WORK_CODES).any():
        raise HandedOverError("GPU work whose launches only flows may show")
    _fill(events.builder, arrays)
    for number, entry in zip(arrays["collective_event"].tolist(), _collectives(arrays), strict=True):
        events.builder.add_collective(number, collective_of(entry.args))  # type: ignore[arg-type]
    adder = EventAdder(events)
    adder.add_untimed(_decoded(arrays["rest_text"]))
    return events


def _fill(builder: TraceBuilder, arrays: dict[str, Array]) -> None:
    builder.names.update(_numbered(_texts(arrays, "names")))
    builder.specs.update(_numbered(CallSpec(*spec.split("\0")) for spec in _texts(arrays, "specs")))
    builder.geometries.update(_numbered(map(_geometry, _strings(arrays, "geometries"))))
    identifiers = _identifiers(arrays, "identifiers")
    for process, thread in zip(arrays["lane_process"].tolist(), arrays["lane_thread"].tolist(), strict=True):
        builder.lanes[identifiers[process], identifiers[thread]]
    if len(arrays["memory_ns"]):
        builder.add_allocation_columns(_allocations(arrays, identifiers))
    if len(arrays["kind"]):
        builder.add_columns(
            arrays["kind"],
            arrays["name"],
            arrays["start_ns"],
            arrays["dur_ns"],
            lane=arrays["lane"],
            **{name: arrays[name] for name in INT_COLUMNS},
        )
    builder.add_copies(zip(arrays["copy_event"].tolist(), arrays["copy_bytes"].tolist(), strict=True))
    if len(arrays["flow_key"]):
        builder.add_flow_columns(
            arrays["flow_opens"].astype(bool),
            _identifiers(arrays, "flow_keys"),
            arrays["flow_key"],
            arrays["flow_ns"],
            arrays["flow_lane"],
        )


def _allocations(arrays: dict[str, Array], identifiers: Sequence[ThreadId]) -> AllocationColumns:
    threads, thread = distinct(arrays["memory_process"], arrays["memory_thread"])
    devices, device = distinct(arrays["memory_device_type"], arrays["memory_device"])
    return AllocationColumns(
        arrays["memory_ns"],
        None,
        thread,
        [(identifiers[process], identifiers[number]) for process, number in threads],
        device,
        [memory_device(*each) for each in devices],
        *(arrays[f"memory_{name}"] for name in ("bytes", "allocated", "reserved", "address")),
    )


def _strings(arrays: dict[str, Array], name: str) -> list[bytes]:
    text = arrays[name].tobytes()
    return [text[start:end] for start, end in pairwise(arrays[f"{name}_at"].tolist())]


def _texts(arrays: dict[str, Array], name: str) -> list[str]:
    text = arrays[name].tobytes()
    if text.isascii():  # as nearly always; places are then those of the characters
        whole = text.decode()
        return [whole[start:end] for start, end in pairwise(arrays[f"{name}_at"].tolist())]
    return [each.decode() for each in _strings(arrays, name)]


def _numbered(values: Iterable[Any]) -> Iterator[tuple[Any, int]]:
    return zip(values, count())


def _geometry(key: bytes) -> LaunchGeometry:
    grid, block = key[GEOMETRY_NUMBERS.size :].decode().split("\0")
    return LaunchGeometry(grid, block, *GEOMETRY_NUMBERS.unpack_from(key))


def _identifiers(arrays: dict[str, Array], name: str) -> list[ThreadId]:
    """Each is a letter for its type, then the number's eight bytes or the text; nearly always all are numbers."""
    text, starts = arrays[name], arrays[f"{name}_at"]
    if len(text) == NUMBER_BYTES * (len(starts) - 1) and (np.diff(starts) == NUMBER_BYTES).all():
        table = text.reshape(-1, NUMBER_BYTES)
        if (table[:, 0] == NUMBER).all():
            return cast(list[ThreadId], np.ascontiguousarray(table[:, 1:]).view(np.int64)[:, 0].tolist())
    return [_identifier(key) for key in _strings(arrays, name)]


def _identifier(key: bytes) -> ThreadId:
    if key.startswith(b"i"):
        return cast(int, struct.unpack_from("=q", key, 1)[0])
    return key[1:].decode() if key.startswith(b"s") else None


def _collectives(arrays: dict[str, Array]) -> Iterator[KinetoEvent]:
    decoded = _decoded(arrays["collective_text"])
    return (decoded[entry] for entry in arrays["collective_entry"].tolist())


def _decoded(text: Array) -> list[KinetoEvent]:
    """Events that the library left as text, each followed by a comma."""
    if len(text) == 0:
        return []
    try:
        return cast(list[KinetoEvent], DECODERS[-1].decode(b"".join((b"[", text[:-1].tobytes(), b"]"))))
    except UNREADABLE as error:
        raise HandedOverError(f"text that does not decode ({error})") from None

"""Nsight Systems, as `nsys export --type sqlite` writes it (tables: see `schema`).

Reads: kernels, copies, memsets, calls of the CUDA runtime and driver, NVTX ranges, the GPUs and what was sampled of
them (see `metrics`), and the names of processes and threads; of all processes in the file. Correlation ids are a
process's own, so each process gets its own range of them. A graph recorded as a whole has no kernels in the file: it
becomes one event, so that its time is not called idle. Ignores: marks, samples of the host, OS calls, cuBLAS and cuDNN
calls, and synchronization records (the calls that wait are read).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from warplens.model.arrays import distinct
from warplens.model.builder import EventInts, TraceBuilder
from warplens.model.codes import Codes
from warplens.model.kinds import NONE
from warplens.model.quality import Note
from warplens.model.times import durations
from warplens.model.trace import Device, Ints, Meta, Trace
from warplens.readers.nsys.metrics import counters_of
from warplens.readers.nsys.schema import (
    CALLS,
    COPIES,
    DOMAIN_TYPE,
    FACTS,
    GPU,
    GPU_TABLES,
    KERNELS,
    RANGE,
    RANGE_TYPES,
    RANGES,
    SETS,
    SPECS,
    STRINGS,
    VISIBLE_GPU,
    WHOLE_GRAPHS,
    copy_name,
    set_name,
)
from warplens.readers.shared.sqlite_tables import Database
from warplens_run.base import bounded
from warplens_run.base.errors import FormatError

if TYPE_CHECKING:
    from typing_extensions import Unpack

Columns = dict[str, Ints]
RECORD: Final = "record with: nsys profile --trace=cuda,nvtx, then: nsys export --type sqlite report.nsys-rep"
SESSION_TABLES: Final = ("META_DATA_EXPORT", "EXPORT_META_DATA", "TARGET_INFO_SESSION_START_TIME")
"""Tables of exports of any version, whatever was traced."""
UNNAMED: Final = {"kernel": "(kernel without a name)", "call": "(call without a name)", "range": "(unnamed)"}
VERSION_SUFFIX: Final = re.compile(r"_v\d{4,5}\Z")
"""The runtime's own version ("cudaMemcpy_v3020"); the driver's "_v2" belongs to the name."""
ID_BITS: Final = 24
ID_MASK: Final = (1 << ID_BITS) - 1
CORRELATION_BITS: Final = 32


def matches(tables: Sequence[str]) -> bool:
    """Whether a database with these tables is an export of Nsight Systems."""
    return STRINGS in tables and any(table in tables for table in (*SPECS, RANGES, *GPU_TABLES, *SESSION_TABLES))


def read(database: Database, meta: Meta, notes: list[Note]) -> Trace:
    export = _Export(database)
    builder = export.builder
    if not len(builder):
        raise FormatError(
            "an Nsight Systems export without CUDA work, calls or NVTX ranges", where=meta.source, hint=RECORD
        )
    meta = msgspec.structs.replace(
        meta, format="nsys", devices=tuple(_devices(database)), facts=_facts(database), events_in_file=len(builder)
    )
    graphs = [Note("graph_level", export.whole_graphs)] if export.whole_graphs else []
    untraced = [] if any(table in database.tables for table in SPECS) else [Note("no_cuda")]
    trace = builder.build(meta, [*notes, *graphs, *untraced])
    return replace(trace, counters=counters_of(database, trace))


class _Export:
    """Adds the events of all tables to a builder."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.builder = TraceBuilder()
        self.tables = {table: database.ints(table, spec) for table, spec in SPECS.items()}
        self.tables[RANGES], self.texts = self._ranges(RANGE_TYPES)
        domains, domain_names = self._ranges(DOMAIN_TYPE)
        # All ids of the file are known before the first is used: 0 stands for the first process.
        ids = np.concatenate([table["global"] for table in (*self.tables.values(), domains)])
        self.processes = np.unique(ids[ids != NONE] >> ID_BITS)
        self.pids = (self.processes & ID_MASK).tolist() or [0]
        self.gpu_of = self._visible_gpus()
        for table in (*self.tables.values(), domains):
            self._resolve(table)
        self.domains = self._domains(domains, domain_names)
        self._drop_recorded_nodes()
        self._drop_inner_calls()
        self.whole_graphs = len(self.tables[WHOLE_GRAPHS]["start"])
        self._add_gpu_work()
        self._add_calls()
        self._add_ranges()
        self._name_lanes()

    def _ranges(self, where: str) -> tuple[Columns, list[str | None]]:
        return self.database.ints_and_text(RANGES, RANGE, "text", where)

    def _visible_gpus(self) -> dict[tuple[int, int], int]:
        columns = self.database.ints("TARGET_INFO_CUDA_DEVICE", VISIBLE_GPU)
        rows = zip(*(columns[name].tolist() for name in ("pid", "number", "gpu")), strict=True)
        return {(pid, number): gpu for pid, number, gpu in rows if gpu >= 0}

    def _resolve(self, table: Columns) -> None:
        """Adds the `process` (an index of `pids`); correlation ids and GPU numbers become those of the whole file."""
        ids = table["global"]
        process = np.where(ids == NONE, 0, np.searchsorted(self.processes, ids >> ID_BITS))
        table["process"] = process
        if "correlation" in table:
            own = table["correlation"]
            table["correlation"] = np.where(own > 0, own + (process << CORRELATION_BITS), NONE)
        if "device" in table:
            rows, codes = distinct(process, table["device"])
            gpus = [self.gpu_of.get((self.pids[index], number), number) for index, number in rows]
            table["device"] = np.array(gpus, np.int64)[codes]

    def _drop_inner_calls(self) -> None:
        """Some versions record a call twice, by its name ("cudaMalloc") and inside that by its version's
        ("cudaMalloc_v3020"), with the same correlation id."""
        calls = self.tables[CALLS]
        number, start, end = calls["correlation"], calls["start"], calls["end"]
        if len(np.unique(number)) == len(number):
            return
        order = np.lexsort((-end, start, number))
        outer, inner = order[:-1], order[1:]
        is_same = (number[outer] == number[inner]) & (number[inner] != NONE)
        is_same &= (calls["global"][outer] == calls["global"][inner]) & (end[inner] <= end[outer])
        keep = np.ones(len(number), bool)
        keep[inner[is_same]] = False
        self.tables[CALLS] = {name: values[keep] for name, values in calls.items()}

    def _drop_recorded_nodes(self) -> None:
        """A graph whose kernels are in the file must not count as a whole too."""
        graphs = self.tables[WHOLE_GRAPHS]
        nodes = np.concatenate([self.tables[table]["correlation"] for table in (KERNELS, COPIES, SETS)])
        keep = ~np.isin(graphs["correlation"], nodes[nodes != NONE])
        self.tables[WHOLE_GRAPHS] = {name: values[keep] for name, values in graphs.items()}

    def _add_gpu_work(self) -> None:
        kernels, copies, sets, graphs = (self.tables[table] for table in (KERNELS, COPIES, SETS, WHOLE_GRAPHS))
        name_codes = self.builder.name_codes
        self._add_on_gpu(
            "kernel", kernels, self._strings("kernel", kernels["name"]), geometry=self._geometries(kernels)
        )
        first = self._add_on_gpu("memcpy", copies, name_codes(copy_name, *_columns(copies, "way", "source", "target")))
        self.builder.add_copies(zip(count(first), copies["bytes"].tolist(), strict=False))
        first = self._add_on_gpu("memset", sets, name_codes(set_name, sets["memory"]))
        self.builder.add_copies(zip(count(first), sets["bytes"].tolist(), strict=False))
        graph_names = name_codes(lambda graph: f"CUDA graph {graph} (whole graph)", graphs["graph"])
        self._add_on_gpu("kernel", graphs, graph_names)

    def _geometries(self, kernels: Columns) -> Ints | int:
        if not (kernels["grid_x"] != NONE).any():
            return NONE
        return self.builder.geometry_codes(
            _columns(kernels, "grid_x", "grid_y", "grid_z"),
            _columns(kernels, "block_x", "block_y", "block_z"),
            kernels["registers"],
            _added(kernels["static_shared"], kernels["dynamic_shared"]),
        )

    def _add_on_gpu(self, kind: str, table: Columns, name: Ints, geometry: Ints | int = NONE) -> int:
        device, stream, correlation = _columns(table, "device", "stream", "correlation")
        lane = self.builder.lanes[self.pids[0], "GPU"]
        return self._add(
            kind, table, name, lane, device=device, stream=stream, correlation=correlation, geometry=geometry
        )

    def _add(self, kind: str, table: Columns, name: Ints, lane: Ints | int, **ints: Unpack[EventInts]) -> int:
        start, end = _columns(table, "start", "end")
        has_start = start != NONE
        return self.builder.add_columns(
            kind, name, start, durations(start, end), lane=lane, has_start=has_start, **ints
        )

    def _add_calls(self) -> None:
        calls = self.tables[CALLS]
        name = self._strings("call", calls["name"])
        self._add("runtime", calls, name, self._threads(calls), correlation=calls["correlation"])

    def _add_ranges(self) -> None:
        ranges = self.tables[RANGES]
        closed = ranges["end"] != NONE
        self.builder.damage["unclosed"] += int((~closed).sum())
        name, lane = self._range_names(ranges), self._threads(ranges)
        self._add(
            "annotation", {column: values[closed] for column, values in ranges.items()}, name[closed], lane[closed]
        )

    def _strings(self, what: str, ids: Ints) -> Ints:
        """Names by id, without the runtime's version; those that are missing are counted."""
        texts = self.database.text_of(STRINGS, "id", "value", ids)
        self.builder.damage["unnamed"] += int((~np.isin(ids, list(texts))).sum())
        if what == "call":
            texts = {code: VERSION_SUFFIX.sub("", text) for code, text in texts.items()}
        return self.builder.name_codes(lambda code: texts.get(code) or UNNAMED[what], ids)

    def _range_names(self, ranges: Columns) -> Ints:
        """The text of each range, registered (by id) or its own, behind the name of its domain."""
        own: Codes[str | None] = Codes()
        index = own.of(self.texts).astype(np.int64)
        texts = list(own)
        registered = self.database.text_of(STRINGS, "id", "value", ranges["name"])

        def name_of(process: int, domain: int, code: int, index: int) -> str:
            name = texts[index] or registered.get(code) or UNNAMED["range"]
            prefix = self.domains.get((process, domain), "")
            return f"{prefix}:{name}" if prefix else name

        return self.builder.name_codes(name_of, ranges["process"], ranges["domain"], ranges["name"], index)

    def _domains(self, rows: Columns, texts: list[str | None]) -> dict[tuple[int, int], str]:
        """Names of NVTX domains by process and id; 0 is the default domain, which has none."""
        registered = self.database.text_of(STRINGS, "id", "value", rows["name"])
        names = [text or registered.get(code, "") for text, code in zip(texts, rows["name"].tolist(), strict=True)]
        keys = zip(rows["process"].tolist(), rows["domain"].tolist(), strict=True)
        return {key: name for key, name in zip(keys, names, strict=True) if key[1] > 0}

    def _threads(self, table: Columns) -> Ints:
        thread = np.where(table["global"] == NONE, 0, table["global"] & ID_MASK)
        return self.builder.lane_codes(lambda index, tid: (self.pids[index], tid), table["process"], thread)

    def _name_lanes(self) -> None:
        for pid, name in self.database.texts("PROCESSES", "pid", "name"):
            if bounded.is_whole(pid, 0) and name:
                self.builder.process_names[bounded.whole(pid)] = name
        threads = self.database.ints("ThreadNames", {"global": ("globalTid",), "name": ("nameId",)})
        texts = self.database.text_of(STRINGS, "id", "value", threads["name"])
        for thread, code in zip(threads["global"].tolist(), threads["name"].tolist(), strict=True):
            if code in texts:
                self.builder.thread_names[thread >> ID_BITS & ID_MASK, thread & ID_MASK] = texts[code]


def _columns(table: Columns, *names: str) -> list[Ints]:
    return [table[name] for name in names]


def _added(static: Ints, dynamic: Ints) -> Ints:
    is_recorded = (static != NONE) | (dynamic != NONE)
    return np.where(is_recorded, np.maximum(static, 0) + np.maximum(dynamic, 0), NONE)


def _devices(database: Database) -> list[Device]:
    table = next((table for table in GPU_TABLES if table in database.tables), GPU_TABLES[0])
    columns, names = database.ints_and_text(table, GPU, "name")
    devices: dict[int, Device] = {}
    for index, name in enumerate(names):
        gpu = {column: max(0, int(values[index])) for column, values in columns.items()}
        devices[gpu["id"]] = Device(
            id=gpu["id"],
            name=name or "",
            memory_bytes=gpu["memory"],
            multiprocessors=gpu["multiprocessors"],
            compute=f"{gpu['major']}.{gpu['minor']}" if gpu["major"] else "",
            threads_per_multiprocessor=gpu["warps"] * gpu["warp_size"],
            registers_per_multiprocessor=gpu["registers"],
            shared_bytes_per_multiprocessor=gpu["shared"],
            warp_size=gpu["warp_size"],
        )
    return list(devices.values())


def _facts(database: Database) -> dict[str, str]:
    return {
        FACTS[table][name]: value
        for table in FACTS
        for name, value in database.texts(table, "name", "value")
        if name in FACTS[table] and value
    }

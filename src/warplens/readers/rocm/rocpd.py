"""rocpd, the SQLite file that rocprofv3 writes by default (schema 3.x of ROCprofiler-SDK, ROCm 7).

Reads: kernel dispatches, copies, HIP and RCCL calls, roctx ranges and the GPUs, of the first process in the file: each
process has its own set of tables, with one ending of their names. As in rocprofv3's JSON, a dispatch is counted on
its hardware queue, and grids, recorded in work-items, become blocks here. Ignores: HSA calls (what HIP calls inside),
allocations, counters, samples, and the file's views.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Final, TypeVar

import msgspec
import numpy as np

from warplens.model.builder import TraceBuilder
from warplens.model.kinds import NONE
from warplens.model.quality import Note
from warplens.model.times import durations
from warplens.model.trace import Device, Ints, Meta, Trace
from warplens.readers.rocm.rocprofv3 import UNNAMED
from warplens.readers.shared.sqlite_tables import Database, Spec
from warplens_run.base import bounded
from warplens_run.base.errors import FormatError

DISPATCHES: Final = "rocpd_kernel_dispatch"
COPIES: Final = "rocpd_memory_copy"
REGIONS: Final = "rocpd_region"
TIMES: Final[Spec] = {"start": ("start",), "end": ("end",), "event": ("event_id",)}
SPECS: Final[dict[str, Spec]] = {
    DISPATCHES: {
        **TIMES,
        "agent": ("agent_id",),
        "queue": ("queue_id",),
        "kernel": ("kernel_id",),
        "shared": ("group_segment_size",),
        **{f"items_{axis}": (f"grid_size_{axis}",) for axis in "xyz"},
        **{f"block_{axis}": (f"workgroup_size_{axis}",) for axis in "xyz"},
    },
    COPIES: {
        **TIMES,
        "name": ("name_id",),
        "bytes": ("size",),
        "target": ("dst_agent_id",),
        "source": ("src_agent_id",),
    },
    REGIONS: {**TIMES, "name": ("name_id",), "thread": ("tid",)},
}
EVENT: Final[Spec] = {"id": ("id",), "category": ("category_id",), "correlation": ("stack_id",)}
SYMBOL: Final[Spec] = {"id": ("id",), "registers": ("arch_vgpr_count",)}
CATEGORY_KINDS: Final = {"MARKER": "annotation", "HSA": "", "HIP": "runtime", "RCCL": "runtime"}
"""By a part of the category's name, the first that fits; "" is left out."""
RECORD: Final = "record with: rocprofv3 --kernel-trace --hip-trace --marker-trace --memory-copy-trace"
AS_JSON: Final = "record with: rocprofv3 --output-format json"


class RangeMessage(msgspec.Struct):
    """The `extdata` of a roctx range's event."""

    message: str = ""


class AgentFacts(msgspec.Struct):
    """The `extdata` of a GPU."""

    cu_count: int = 0
    wave_front_size: int = 0


Stored = TypeVar("Stored", RangeMessage, AgentFacts)


def matches(tables: Sequence[str]) -> bool:
    """Whether a database with these tables was written by rocprofv3."""
    return any(table.startswith(DISPATCHES) for table in tables)


def read(database: Database, meta: Meta, notes: list[Note]) -> Trace:
    endings = sorted(table.removeprefix(DISPATCHES) for table in database.tables if table.startswith(DISPATCHES))
    if "start" not in database.columns(DISPATCHES + endings[0]):
        raise FormatError("a rocpd file with an unknown schema", where=meta.source, hint=AS_JSON)
    process = _ProcessTables(database, endings[0])
    builder = process.builder
    if not len(builder):
        raise FormatError("a rocpd file without events", where=meta.source, hint=RECORD)
    meta = msgspec.structs.replace(
        meta, format="rocpd", devices=tuple(process.gpus.values()), events_in_file=len(builder)
    )
    more = [Note("other_processes", len(endings) - 1)] if len(endings) > 1 else []
    return builder.build(meta, [*notes, *more])


class _ProcessTables:
    """Adds the events of one process to a builder."""

    def __init__(self, database: Database, ending: str) -> None:
        self.database = database
        self.ending = ending
        self.builder = TraceBuilder()
        self.pid = next((bounded.whole(pid) for (pid,) in self._texts("rocpd_info_process", "pid")), 0)
        self.gpus = self._gpus()
        events = database.ints("rocpd_event" + ending, EVENT)
        self._add_kernels(self._table(DISPATCHES, events))
        self._add_copies(self._table(COPIES, events))
        self._add_regions(self._table(REGIONS, events))

    def _texts(self, table: str, *columns: str) -> list[tuple[str | None, ...]]:
        return self.database.texts(table + self.ending, *columns)

    def _text_of(self, table: str, value: str, keys: Ints) -> dict[int, str]:
        return self.database.text_of(table + self.ending, "id", value, keys)

    def _table(self, name: str, events: dict[str, Ints]) -> dict[str, Ints]:
        table = self.database.ints(name + self.ending, SPECS[name])
        # A launch and what it launched have the same number there; "correlation_id" is the user's own.
        joined = {column: _looked_up(events["id"], events[column], table["event"]) for column in EVENT}
        return {**table, "category": joined["category"], "correlation": joined["correlation"]}

    def _gpus(self) -> dict[int, Device]:
        """GPUs by the id of their agent."""
        columns = ("id", "type", "type_index", "name", "product_name", "extdata")
        gpus: dict[int, Device] = {}
        for agent, kind, number, name, product, more in self._texts("rocpd_info_agent", *columns):
            if kind == "GPU":
                facts = _decoded(AgentFacts, more)
                gpus[bounded.whole(agent)] = Device(
                    id=bounded.whole(number) if number else len(gpus),
                    name=product or name or "",
                    multiprocessors=facts.cu_count,
                    compute=name or "",
                    warp_size=facts.wave_front_size,
                )
        return gpus

    def _add_kernels(self, kernels: dict[str, Ints]) -> None:
        symbols = "rocpd_info_kernel_symbol"
        shown = self._text_of(symbols, "display_name", kernels["kernel"])
        stored = self._text_of(symbols, "kernel_name", kernels["kernel"])
        names = {code: shown.get(code) or text.removesuffix(".kd") for code, text in {**shown, **stored}.items()}
        self.builder.damage["unnamed"] += int((~np.isin(kernels["kernel"], list(names))).sum())
        symbol_columns = self.database.ints(symbols + self.ending, SYMBOL)
        registers = _looked_up(symbol_columns["id"], symbol_columns["registers"], kernels["kernel"])
        block = [kernels[f"block_{axis}"] for axis in "xyz"]
        items = [kernels[f"items_{axis}"] for axis in "xyz"]
        grid = [-(-work // np.maximum(1, size)) for work, size in zip(items, block, strict=True)]
        geometry = self.builder.geometry_codes(grid, block, registers, kernels["shared"])
        name = self.builder.name_codes(lambda code: names.get(code) or UNNAMED, kernels["kernel"])
        self._add_on_gpu("kernel", kernels, name, kernels["agent"], kernels["queue"], geometry)

    def _add_copies(self, copies: dict[str, Ints]) -> None:
        texts = self._text_of("rocpd_string", "string", copies["name"])
        name = self.builder.name_codes(lambda code: copy_name(texts.get(code, "")), copies["name"])
        agent = np.where(np.isin(copies["target"], list(self.gpus)), copies["target"], copies["source"])
        first = self._add_on_gpu("memcpy", copies, name, agent, 0, NONE)
        self.builder.add_copies(zip(count(first), copies["bytes"].tolist(), strict=False))

    def _add_on_gpu(
        self, kind: str, table: dict[str, Ints], name: Ints, agent: Ints, stream: Ints | int, geometry: Ints | int
    ) -> int:
        agents = np.array(list(self.gpus), np.int64)
        numbers = np.array([gpu.id for gpu in self.gpus.values()], np.int64)
        device = np.maximum(_looked_up(agents, numbers, agent), 0)
        return self.builder.add_columns(
            kind, name, table["start"], durations(table["start"], table["end"]),
            lane=self.builder.lanes[self.pid, "GPU"], has_start=table["start"] != NONE,
            device=device, stream=stream, correlation=table["correlation"], geometry=geometry,
        )  # fmt: skip

    def _add_regions(self, regions: dict[str, Ints]) -> None:
        categories = self._text_of("rocpd_string", "string", regions["category"])
        kinds = {code: _kind(text) for code, text in categories.items()}
        threads = {
            bounded.whole(key): (bounded.whole(tid), name)
            for key, tid, name in self._texts("rocpd_info_thread", "id", "tid", "name")
        }
        self.builder.thread_names |= {(self.pid, tid): name for tid, name in threads.values() if name}
        lane = self.builder.lane_codes(
            lambda thread: (self.pid, threads.get(thread, (thread, ""))[0]), regions["thread"]
        )
        for kind in ("annotation", "runtime", "other"):
            # Calls of a category whose name is lost are kept.
            codes = [code for code, other in kinds.items() if (other != kind if kind == "other" else other == kind)]
            own = np.isin(regions["category"], codes, invert=kind == "other")
            table = {column: values[own] for column, values in regions.items()}
            start = table["start"]
            self.builder.add_columns(
                kind, self._region_names(table, with_messages=kind == "annotation"), start,
                durations(start, table["end"]), lane=lane[own], has_start=start != NONE,
                correlation=table["correlation"] if kind == "runtime" else NONE,
            )  # fmt: skip

    def _region_names(self, regions: dict[str, Ints], *, with_messages: bool) -> Ints:
        texts = self._text_of("rocpd_string", "string", regions["name"])
        self.builder.damage["unnamed"] += int((~np.isin(regions["name"], list(texts))).sum())
        if not with_messages:
            return self.builder.name_codes(lambda code: texts.get(code) or "(unnamed)", regions["name"])
        stored = self._text_of("rocpd_event", "extdata", regions["event"])
        messages = {event: _decoded(RangeMessage, text).message for event, text in stored.items()}
        return self.builder.name_codes(
            lambda event, code: messages.get(event) or texts.get(code) or "(unnamed)",
            regions["event"],
            regions["name"],
        )


def copy_name(operation: str) -> str:
    """ "MEMORY_COPY_HOST_TO_DEVICE" as the reader of rocprofv3's JSON names it."""
    return f"Memcpy {operation.removeprefix('MEMORY_COPY_').replace('_TO_', ' -> ').title()}".rstrip()


def _kind(category: str) -> str:
    upper = category.upper()
    return next((kind for part, kind in CATEGORY_KINDS.items() if part in upper), "other")


def _looked_up(keys: Ints, values: Ints, wanted: Ints) -> Ints:
    """The value of each wanted key, -1 where there is none."""
    if len(keys) == 0:
        return np.full(len(wanted), NONE, np.int64)
    order = np.argsort(keys, kind="stable")
    index = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
    return np.where(keys[index] == wanted, values[index], NONE)


def _decoded(kind: type[Stored], text: str | None) -> Stored:
    try:
        return msgspec.json.decode(text or "{}", type=kind)
    except msgspec.DecodeError:
        return kind()

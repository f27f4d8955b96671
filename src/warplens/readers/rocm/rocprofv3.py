"""rocprofv3 JSON (`rocprofv3 --output-format json`), from AMD's ROCprofiler-SDK.

Reads: kernel dispatches, copies, HIP and RCCL calls, roctx ranges and the GPUs, of the first process in the file. A
dispatch is booked on its hardware queue: stream numbers are given out anew for nearly every use. Grids are recorded in
work-items and become blocks here. Ignores: HSA calls (what HIP calls inside), allocations, counters and PC samples.
"""

from __future__ import annotations

import msgspec

from warplens.model.builder import TraceBuilder
from warplens.model.event_records import LaunchGeometry
from warplens.model.kinds import NONE
from warplens.model.quality import Note
from warplens.model.trace import Device, Meta, Trace
from warplens.readers.shared.stored_file import UNFINISHED
from warplens_run.base.errors import FormatError

GPU_AGENT = 2
UNNAMED = "(kernel without a name)"


class Handle(msgspec.Struct):
    handle: int = 0


class Correlation(msgspec.Struct):
    internal: int = NONE


class WorkSize(msgspec.Struct):
    x: int = 1
    y: int = 1
    z: int = 1


class Dispatch(msgspec.Struct):
    agent_id: Handle
    queue_id: Handle
    kernel_id: int
    workgroup_size: WorkSize
    grid_size: WorkSize
    group_segment_size: int = 0


class Record(msgspec.Struct):
    """One entry of any buffer; each kind fills its own fields."""

    start_timestamp: int
    end_timestamp: int
    kind: int = 0
    operation: int = 0
    thread_id: int = 0
    correlation_id: Correlation = msgspec.field(default_factory=Correlation)
    dispatch_info: Dispatch | None = None
    dst_agent_id: Handle = msgspec.field(default_factory=Handle)
    src_agent_id: Handle = msgspec.field(default_factory=Handle)
    bytes: int = NONE


class Buffers(msgspec.Struct):
    kernel_dispatch: list[Record] = []
    memory_copy: list[Record] = []
    hip_api: list[Record] = []
    rccl_api: list[Record] = []
    marker_api: list[Record] = []


class Symbol(msgspec.Struct):
    kernel_id: int
    kernel_name: str = ""
    formatted_kernel_name: str = ""
    arch_vgpr_count: int = NONE


class Agent(msgspec.Struct):
    id: Handle
    type: int
    name: str = ""
    product_name: str = ""
    cu_count: int = 0
    wave_front_size: int = 0
    logical_node_type_id: int = NONE


class Operations(msgspec.Struct):
    kind: str
    operations: list[str] = []


class MarkerText(msgspec.Struct):
    key: int
    value: str


class ToolStrings(msgspec.Struct):
    buffer_records: list[Operations] = []
    marker_api: list[MarkerText] = []


class MetaData(msgspec.Struct):
    pid: int = 0


class Tool(msgspec.Struct):
    metadata: MetaData = msgspec.field(default_factory=MetaData)
    agents: list[Agent] = []
    strings: ToolStrings = msgspec.field(default_factory=ToolStrings)
    kernel_symbols: list[Symbol] = []
    buffer_records: Buffers = msgspec.field(default_factory=Buffers)


class RocprofFile(msgspec.Struct, rename={"tools": "rocprofiler-sdk-tool"}):
    tools: list[Tool]


def read(text: bytes, meta: Meta, notes: list[Note]) -> Trace:
    try:
        tools = msgspec.json.decode(text, type=RocprofFile).tools
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"a damaged rocprofv3 file ({error})", where=meta.source, hint=UNFINISHED) from error
    if not tools:
        raise FormatError("a rocprofv3 file without a process", where=meta.source, hint=UNFINISHED)
    process = _ToolEvents(tools[0])
    builder = process.builder
    if not len(builder):
        raise FormatError("a rocprofv3 file without kernels, copies or calls", where=meta.source, hint=RECORD)
    meta = msgspec.structs.replace(
        meta, format="rocprofv3", devices=tuple(process.devices()), events_in_file=len(builder)
    )
    more = [Note("other_processes", len(tools) - 1)] if len(tools) > 1 else []
    return builder.build(meta, [*notes, *more])


RECORD = "record with: rocprofv3 --kernel-trace --hip-trace --marker-trace --memory-copy-trace --output-format json"


class _ToolEvents:
    """Adds the records of one process to a builder."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.builder = TraceBuilder()
        self.gpus = {agent.id.handle: agent for agent in tool.agents if agent.type == GPU_AGENT}
        self.number = {handle: _number(agent, index) for index, (handle, agent) in enumerate(self.gpus.items())}
        self._add_all()

    def _add_all(self) -> None:
        symbols = {symbol.kernel_id: symbol for symbol in self.tool.kernel_symbols}
        buffers, texts = self.tool.buffer_records, {text.key: text.value for text in self.tool.strings.marker_api}
        for record in buffers.kernel_dispatch:
            if record.dispatch_info is not None:
                self._add_kernel(record, record.dispatch_info, symbols.get(record.dispatch_info.kernel_id))
        for record in buffers.memory_copy:
            self._add_copy(record)
        for record in [*buffers.hip_api, *buffers.rccl_api]:
            self._add(record, "runtime", self._operation(record))
        for record in buffers.marker_api:
            name = texts.get(record.correlation_id.internal, "")
            self._add(record, "annotation", name or self._operation(record))

    def _add_kernel(self, record: Record, info: Dispatch, symbol: Symbol | None) -> None:
        name = (symbol.formatted_kernel_name or symbol.kernel_name.removesuffix(".kd")) if symbol else ""
        block, grid = info.workgroup_size, info.grid_size
        blocks = [
            -(-items // max(1, size)) for items, size in ((grid.x, block.x), (grid.y, block.y), (grid.z, block.z))
        ]
        registers = symbol.arch_vgpr_count if symbol else NONE
        geometry = LaunchGeometry(str(blocks), str([block.x, block.y, block.z]), registers, info.group_segment_size)
        self._add(
            record,
            "kernel",
            name or UNNAMED,
            device=self.number.get(info.agent_id.handle, 0),
            stream=info.queue_id.handle,
            geometry=self.builder.geometries[geometry],
        )

    def _add_copy(self, record: Record) -> None:
        words = self._operation(record).removeprefix("MEMORY_COPY_").replace("_TO_", " -> ").title()
        agent = record.dst_agent_id.handle if record.dst_agent_id.handle in self.gpus else record.src_agent_id.handle
        copy = self._add(record, "memcpy", f"Memcpy {words}", device=self.number.get(agent, 0), stream=0)
        self.builder.add_copies([(copy, record.bytes)])

    def _add(
        self, record: Record, kind: str, name: str, *, device: int = NONE, stream: int = NONE, geometry: int = NONE
    ) -> int:
        return self.builder.add(
            kind,
            name,
            record.start_timestamp,
            record.end_timestamp - record.start_timestamp,
            lane=self.builder.lanes[self.tool.metadata.pid, record.thread_id],
            device=device,
            stream=stream,
            # A range's number is its text's, not a launch's.
            correlation=NONE if kind == "annotation" else record.correlation_id.internal,
            geometry=geometry,
        )

    def _operation(self, record: Record) -> str:
        kinds = self.tool.strings.buffer_records
        operations = kinds[record.kind].operations if 0 <= record.kind < len(kinds) else []
        is_listed = 0 <= record.operation < len(operations)
        return operations[record.operation] if is_listed else f"operation {record.kind}.{record.operation}"

    def devices(self) -> list[Device]:
        return [
            Device(self.number[handle], gpu.product_name or gpu.name, multiprocessors=gpu.cu_count,
                   compute=gpu.name, warp_size=gpu.wave_front_size)
            for handle, gpu in self.gpus.items()
        ]  # fmt: skip


def _number(agent: Agent, index: int) -> int:
    return agent.logical_node_type_id if agent.logical_node_type_id >= 0 else index

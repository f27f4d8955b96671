"""Makes databases as `nsys export --type sqlite` does: its tables, its columns, its numbers (2024.6, schema 3.16)."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import warplens

PLACE = "start end deviceId contextId greenContextId streamId correlationId globalPid"
SCHEMA: dict[str, str] = {
    "StringIds": "id value:TEXT",
    "ThreadNames": "nameId priority globalTid",
    "PROCESSES": "globalPid pid name:TEXT",
    "META_DATA_EXPORT": "name:TEXT value:TEXT",
    "TARGET_INFO_SYSTEM_ENV": "globalVid devStateName:TEXT name:TEXT nameEnum value:TEXT",
    "TARGET_INFO_GPU": (
        "vmId id name:TEXT busLocation:TEXT isDiscrete l2CacheSize totalMemory memoryBandwidth clockRate smCount"
        " pwGpuId uuid:TEXT luid chipName:TEXT cuDevice maxShmemPerSm maxRegistersPerSm threadsPerWarp asyncEngines"
        " maxWarpsPerSm maxBlocksPerSm maxThreadsPerBlock computeMajor computeMinor smMajor smMinor"
    ),
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId pid uuid:TEXT numMultiprocessors",
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        f"{PLACE} demangledName shortName mangledName launchType cacheConfig registersPerThread gridX gridY gridZ"
        " blockX blockY blockZ staticSharedMemory dynamicSharedMemory localMemoryPerThread localMemoryTotal gridId"
        " sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig"
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        f"{PLACE} bytes copyKind deprecatedSrcId srcKind dstKind srcDeviceId srcContextId dstDeviceId dstContextId"
        " migrationCause graphNodeId virtualAddress"
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": f"{PLACE} value bytes graphNodeId memKind",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end eventClass globalTid correlationId nameId returnValue callchainId",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": f"{PLACE} syncType eventId",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": f"{PLACE} graphId graphExecId",
    "GPU_METRICS": "rawTimestamp timestamp typeId metricId value",
    "TARGET_INFO_GPU_METRICS": "typeId sourceId typeName:TEXT metricId metricName:TEXT",
    "NVTX_EVENTS": (
        "start end eventType rangeId category color text:TEXT globalTid endGlobalTid textId domainId uint64Value"
        " int64Value doubleValue uint32Value int32Value floatValue jsonTextId jsonText:TEXT binaryData:TEXT"
    ),
}
"""Columns of each table, INTEGER where nothing else is said."""

GEMM = "void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm_f16_128x128>(T1::Params)"
BOOT = 5_123_456_789_012_345
"""Uptimes of two months and more: the nanoseconds must not be lost in a float."""
PID = 4_242
TID = 4_243
MACHINE = 1 << 56
"""The serialized id of a process or thread begins with the machine's."""


def global_id(pid: int, tid: int = 0) -> int:
    return MACHINE | pid << 24 | tid


class NsysFile:
    """Rows to be written; a table without rows is left out, as by the exporter."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {"StringIds": []}
        self._strings: dict[str, int] = {}
        self.add("META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION", value="2024.6.2.225")
        self.add("META_DATA_EXPORT", name="EXPORT_SCHEMA_VERSION", value="3.16.1")

    def add(self, table: str, **row: Any) -> None:
        self.rows.setdefault(table, []).append(row)

    def string(self, text: str) -> int:
        if text not in self._strings:
            self._strings[text] = len(self._strings) + 1
            self.add("StringIds", id=self._strings[text], value=text)
        return self._strings[text]

    def kernel(self, name: str, start: int, end: int, correlation: int = 0, **more: Any) -> None:
        names = {"demangledName": self.string(name), "shortName": self.string(name.split("<")[0])}
        shape = {
            "gridX": 12,
            "gridY": 3,
            "gridZ": 1,
            "blockX": 128,
            "blockY": 1,
            "blockZ": 1,
            "registersPerThread": 64,
            "staticSharedMemory": 1_024,
            "dynamicSharedMemory": 4_096,
        }
        row = {**self._place(start, end, correlation), **names, **shape, **more}
        self.add("CUPTI_ACTIVITY_KIND_KERNEL", **row)

    def copy(self, way: int, start: int, end: int, size: int, correlation: int = 0, **more: Any) -> None:
        row = {**self._place(start, end, correlation), "bytes": size, "copyKind": way, **more}
        self.add("CUPTI_ACTIVITY_KIND_MEMCPY", **row)

    def memset(self, start: int, end: int, size: int, correlation: int = 0, **more: Any) -> None:
        row = {**self._place(start, end, correlation), "bytes": size, "value": 0, "memKind": 2, **more}
        self.add("CUPTI_ACTIVITY_KIND_MEMSET", **row)

    def graph(self, number: int, start: int, end: int, correlation: int = 0, **more: Any) -> None:
        row = {**self._place(start, end, correlation), "graphId": number, "graphExecId": number + 1, **more}
        self.add("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", **row)

    def call(self, name: str, start: int, end: int, correlation: int = 0, *, pid: int = PID, tid: int = TID) -> None:
        self.add("CUPTI_ACTIVITY_KIND_RUNTIME", start=start, end=end, eventClass=0, globalTid=global_id(pid, tid),
                 correlationId=correlation, nameId=self.string(name), returnValue=0)  # fmt: skip

    def range(self, text: str | None, start: int, end: int | None, **more: Any) -> None:
        """A push/pop range, if `eventType` does not say otherwise."""
        row = {
            "text": text,
            "start": start,
            "end": end,
            "eventType": 59,
            "domainId": 0,
            "globalTid": global_id(PID, TID),
        }
        self.add("NVTX_EVENTS", **{**row, **more})

    def domain(self, number: int, name: str, *, pid: int = PID) -> None:
        self.range(name, 1, None, eventType=75, domainId=number, globalTid=global_id(pid, TID))

    def gpu(self, number: int = 0, name: str = "NVIDIA H100 80GB HBM3", **more: Any) -> None:
        facts = {"totalMemory": 85_017_493_504, "smCount": 132, "computeMajor": 9, "computeMinor": 0,
                 "threadsPerWarp": 32, "maxWarpsPerSm": 64, "maxRegistersPerSm": 65_536, "maxShmemPerSm": 233_472}  # fmt: skip
        self.add("TARGET_INFO_GPU", vmId=MACHINE, id=number, name=name, cuDevice=number, **{**facts, **more})

    def metric(self, number: int, name: str, samples: Mapping[int, int | None], *, gpu: int = 0) -> None:
        """Samples of one metric by their time."""
        kind = 0x1_0000_0000_0000_00 | gpu
        self.add("TARGET_INFO_GPU_METRICS", typeId=kind, sourceId=1, typeName="GH100", metricId=number, metricName=name)
        for time, value in samples.items():
            self.add("GPU_METRICS", rawTimestamp=time, timestamp=time, typeId=kind, metricId=number, value=value)

    def write(self, path: Path, *, without: Mapping[str, tuple[str, ...]] | None = None) -> Path:
        """The database; `without` names columns that the exporter of that day did not write."""
        left_out = without or {}
        path.unlink(missing_ok=True)
        with sqlite3.connect(path) as connection:
            for table, rows in self.rows.items():
                columns = [each.split(":") for each in SCHEMA[table].split()]
                kept = [column for column in columns if column[0] not in left_out.get(table, ())]
                key = " PRIMARY KEY" if table == "StringIds" else ""
                declared = [f'"{name}" {(kind or ["INTEGER"])[0]}' for name, *kind in kept]
                connection.execute(f"CREATE TABLE {table} ({declared[0]}{key}, {', '.join(declared[1:])})")
                marks = ", ".join("?" * len(kept))
                values = [tuple(row.get(name) for name, *_ in kept) for row in rows]
                connection.executemany(f"INSERT INTO {table} VALUES ({marks})", values)
        connection.close()
        return path

    def _place(self, start: int, end: int, correlation: int) -> dict[str, int]:
        return {"start": start, "end": end, "deviceId": 0, "contextId": 1, "streamId": 7,
                "correlationId": correlation, "globalPid": global_id(PID)}  # fmt: skip


def training_step() -> NsysFile:
    """One step: a copy in, a GEMM and a memset under a range, and the wait for them."""
    file = NsysFile()
    file.gpu()
    file.range("step 0", BOOT, BOOT + 90_000)
    file.range("forward", BOOT + 15_000, BOOT + 40_000)
    file.call("cudaMemcpyAsync_v3020", BOOT + 1_001, BOOT + 9_003, 11)
    file.copy(1, BOOT + 12_007, BOOT + 18_019, 4_096, 11, srcKind=0, dstKind=2)
    file.call("cudaLaunchKernel_v7000", BOOT + 20_000, BOOT + 25_000, 12)
    file.kernel(GEMM, BOOT + 27_001, BOOT + 60_003, 12)
    file.call("cuMemsetD8Async", BOOT + 41_000, BOOT + 43_000, 13)
    file.memset(BOOT + 60_005, BOOT + 61_111, 512, 13)
    file.call("cudaStreamSynchronize_v3020", BOOT + 45_000, BOOT + 89_000, 14)
    file.add("PROCESSES", globalPid=global_id(PID), pid=PID, name="python3")
    file.add("ThreadNames", nameId=file.string("main thread"), globalTid=global_id(PID, TID))
    return file


def opened(path: Path) -> warplens.Profile:
    """The profile of an SQLite file, through the reader of such files."""
    from warplens.model.trace import Meta
    from warplens.passes import run_passes
    from warplens.profiles.trace import Profile
    from warplens.readers import sqlite_file

    text = path.read_bytes()
    return Profile(run_passes(sqlite_file.read(text, Meta(source=str(path), format="", size_bytes=len(text)), [])))


def summed(path: Path, *tables: str) -> int:
    """Nanoseconds in these tables, by SQLite's own sum."""
    with sqlite3.connect(path) as connection:
        sums = [connection.execute(f'SELECT sum("end" - start) FROM {table}').fetchone()[0] for table in tables]
    connection.close()
    return sum(sums)

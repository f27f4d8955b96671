"""Makes databases as rocprofv3 writes them: rocpd, schema 3.0."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

ENDING = "_0199c3a2_5a00_7d3c_b0f1_7d2f6a3c9e10"
SIZES = " ".join(f"{what}_size_{axis}" for what in ("workgroup", "grid") for axis in "xyz")
SCHEMA: dict[str, str] = {
    "rocpd_metadata": "id tag:TEXT value:TEXT",
    "rocpd_string": "id guid:TEXT string:TEXT",
    "rocpd_info_node": "id guid:TEXT hash machine_id:TEXT hostname:TEXT",
    "rocpd_info_process": "id guid:TEXT nid ppid pid init fini start end command:TEXT environment:JSONB extdata:JSONB",
    "rocpd_info_thread": "id guid:TEXT nid ppid pid tid name:TEXT start end extdata:JSONB",
    "rocpd_info_agent": (
        "id guid:TEXT nid pid type:TEXT absolute_index logical_index type_index uuid name:TEXT model_name:TEXT"
        " vendor_name:TEXT product_name:TEXT user_name:TEXT extdata:JSONB"
    ),
    "rocpd_info_kernel_symbol": (
        "id guid:TEXT nid pid code_object_id kernel_name:TEXT display_name:TEXT kernel_object kernarg_segment_size"
        " group_segment_size private_segment_size sgpr_count arch_vgpr_count accum_vgpr_count extdata:JSONB"
    ),
    "rocpd_event": "id guid:TEXT category_id stack_id parent_stack_id correlation_id extdata:JSONB",
    "rocpd_region": "id guid:TEXT nid pid tid start end name_id event_id extdata:JSONB",
    "rocpd_kernel_dispatch": (
        "id guid:TEXT nid pid tid agent_id kernel_id dispatch_id queue_id stream_id start end private_segment_size"
        f" group_segment_size {SIZES} region_name_id event_id extdata:JSONB"
    ),
    "rocpd_memory_copy": (
        "id guid:TEXT nid pid tid start end name_id dst_agent_id dst_address src_agent_id src_address size queue_id"
        " stream_id region_name_id event_id extdata:JSONB"
    ),
}
"""Schema 3.0; every table of a process carries the process's ending. INTEGER where nothing else is said."""

NODE, PID, TID = 77, 5_151, 5_152
BOOT = 5_123_456_789_012_345


class RocpdFile:
    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {table: [] for table in SCHEMA}
        self._strings: dict[str, int] = {}
        self.add("rocpd_metadata", tag="schema_version", value="3")
        self.add("rocpd_info_process", id=PID, nid=NODE, pid=PID, command="python train.py")
        self.add("rocpd_info_thread", id=TID, nid=NODE, pid=PID, tid=TID, name="main")
        self.add("rocpd_info_agent", id=0, type="CPU", type_index=0, name="AMD EPYC")
        for place in range(2):
            facts = json.dumps({"cu_count": 304, "wave_front_size": 64, "caches": [{"size": 16}]})
            self.add("rocpd_info_agent", id=4 + place, type="GPU", absolute_index=4 + place, type_index=place,
                     name="gfx942", product_name="AMD Instinct MI300X", extdata=facts)  # fmt: skip
        self.add("rocpd_info_kernel_symbol", id=3, kernel_name="_Z4gemmPf.kd", display_name="gemm(float*)",
                 arch_vgpr_count=128)  # fmt: skip

    def add(self, table: str, **row: Any) -> int:
        self.rows[table].append(row)
        return len(self.rows[table])

    def string(self, text: str) -> int:
        if text not in self._strings:
            self._strings[text] = self.add("rocpd_string", id=len(self._strings) + 1, string=text)
        return self._strings[text]

    def event(self, category: str, number: int, message: str = "") -> int:
        more = json.dumps({"message": message}) if message else "{}"
        return self.add("rocpd_event", id=len(self.rows["rocpd_event"]) + 1, category_id=self.string(category),
                        stack_id=number, parent_stack_id=number, correlation_id=0, extdata=more)  # fmt: skip

    def region(self, category: str, name: str, start: int, end: int, number: int, message: str = "") -> None:
        self.add("rocpd_region", id=number, nid=NODE, pid=PID, tid=TID, start=start, end=end,
                 name_id=self.string(name), event_id=self.event(category, number, message))  # fmt: skip

    def dispatch(self, start: int, end: int, number: int, **more: Any) -> None:
        sizes = {"workgroup_size_x": 256, "workgroup_size_y": 1, "workgroup_size_z": 1,
                 "grid_size_x": 1_000, "grid_size_y": 4, "grid_size_z": 1}  # fmt: skip
        row = {"nid": NODE, "pid": PID, "tid": TID, "agent_id": 5, "kernel_id": 3, "queue_id": 2, "stream_id": 9,
               "start": start, "end": end, "group_segment_size": 1_024, **sizes}  # fmt: skip
        number_of_its_own = len(self.rows["rocpd_kernel_dispatch"]) + 1
        event = self.event("KERNEL_DISPATCH", number)
        self.add("rocpd_kernel_dispatch", id=number_of_its_own, event_id=event, **{**row, **more})

    def copy(self, way: str, start: int, end: int, size: int, number: int, *, source: int, target: int) -> None:
        self.add("rocpd_memory_copy", nid=NODE, pid=PID, tid=TID, start=start, end=end, name_id=self.string(way),
                 src_agent_id=source, dst_agent_id=target, size=size, stream_id=9,
                 event_id=self.event("MEMORY_COPY", number))  # fmt: skip

    def write(self, path: Path, ending: str = ENDING) -> Path:
        """Adds the process's tables to the file."""
        with sqlite3.connect(path) as connection:
            for table, rows in self.rows.items():
                columns = [each.split(":") for each in SCHEMA[table].split()]
                declared = [f'"{name}" {(kind or ["INTEGER"])[0]}' for name, *kind in columns[1:]]
                connection.execute(f"CREATE TABLE `{table}{ending}` (id INTEGER PRIMARY KEY, {', '.join(declared)})")
                marks = ", ".join("?" * len(columns))
                values = [tuple(row.get(name) for name, *_ in columns) for row in rows]
                connection.executemany(f"INSERT INTO `{table}{ending}` VALUES ({marks})", values)
                connection.execute(f"CREATE VIEW IF NOT EXISTS {table} AS SELECT * FROM `{table}{ending}`")
        connection.close()
        return path


def training_step() -> RocpdFile:
    file = RocpdFile()
    file.region("MARKER_CORE_RANGE_API", "roctxRangePushA", BOOT + 500, BOOT + 30_000, 50, "forward")
    file.region("HIP_RUNTIME_API", "hipLaunchKernel", BOOT + 1_000, BOOT + 2_000, 51)
    file.region("HSA_CORE_API", "hsa_signal_store_screlease", BOOT + 1_100, BOOT + 1_200, 52)
    file.dispatch(BOOT + 5_001, BOOT + 9_004, 51)
    file.region("HIP_RUNTIME_API", "hipMemcpyAsync", BOOT + 10_000, BOOT + 11_000, 53)
    file.copy("MEMORY_COPY_HOST_TO_DEVICE", BOOT + 12_000, BOOT + 13_003, 4_096, 53, source=0, target=4)
    file.region("RCCL_API", "ncclAllReduce", BOOT + 14_000, BOOT + 15_000, 54)
    return file

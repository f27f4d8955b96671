"""Makes files as `rocprofv3 --output-format json` does."""

from __future__ import annotations

from typing import Any

KINDS = ["NONE", "HIP_RUNTIME_API", "MARKER_CORE_API", "MEMORY_COPY", "KERNEL_DISPATCH", "RCCL_API"]
OPERATIONS = {
    "HIP_RUNTIME_API": ["hipLaunchKernel", "hipMemcpyAsync"],
    "MARKER_CORE_API": ["roctxRangePushA"],
    "MEMORY_COPY": ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_HOST", "MEMORY_COPY_HOST_TO_DEVICE"],
    "RCCL_API": ["ncclAllReduce"],
}


def record(kind: str, operation: int, start: int, end: int, correlation: int, **more: Any) -> dict[str, Any]:
    place = {"kind": KINDS.index(kind), "operation": operation, "thread_id": 7}
    times = {"start_timestamp": start, "end_timestamp": end}
    return {**place, **times, "correlation_id": {"internal": correlation, "external": 0}, **more}


def dispatch(start: int, end: int, correlation: int, *, agent: int = 2, kernel: int = 1) -> dict[str, Any]:
    info = {
        "agent_id": {"handle": agent},
        "queue_id": {"handle": 3},
        "kernel_id": kernel,
        "group_segment_size": 1024,
        "workgroup_size": {"x": 256, "y": 1, "z": 1},
        "grid_size": {"x": 1000, "y": 4, "z": 1},
    }
    return record("KERNEL_DISPATCH", 1, start, end, correlation, dispatch_info=info)


def tool(**buffers: list[dict[str, Any]]) -> dict[str, Any]:
    agents = [
        {"id": {"handle": 1}, "type": 1, "name": "CPU"},
        {"id": {"handle": 2}, "type": 2, "name": "gfx942", "product_name": "AMD Instinct MI300X", "cu_count": 304,
         "wave_front_size": 64, "logical_node_type_id": 0},
        {"id": {"handle": 9}, "type": 2, "name": "gfx942", "logical_node_type_id": 1},
    ]  # fmt: skip
    return {
        "metadata": {"pid": 42},
        "agents": agents,
        "strings": {
            "buffer_records": [{"kind": kind, "operations": OPERATIONS.get(kind, [])} for kind in KINDS],
            "marker_api": [{"key": 50, "value": "forward"}],
        },
        "kernel_symbols": [{"kernel_id": 1, "kernel_name": "gemm_k.kd", "formatted_kernel_name": "gemm_k",
                            "arch_vgpr_count": 128}],
        "buffer_records": buffers,
    }  # fmt: skip


def training_step() -> dict[str, Any]:
    """A launch under a range, a copy and a collective."""
    copy = record("MEMORY_COPY", 2, 3_000, 4_000, 8, bytes=4096, dst_agent_id={"handle": 9}, src_agent_id={"handle": 1})
    return tool(
        kernel_dispatch=[dispatch(5_000, 9_000, 4), dispatch(9_500, 9_700, 5)],
        hip_api=[record("HIP_RUNTIME_API", 0, 1_000, 2_000, 4)],
        marker_api=[record("MARKER_CORE_API", 0, 500, 3_000, 50)],
        memory_copy=[copy],
        rccl_api=[record("RCCL_API", 0, 10, 20, 9)],
    )

"""What the tables of an Nsight Systems export are called, and what the numbers in them stand for.

From the "SQLite schema reference" of NVIDIA's guide, versions 2020 to 2026. Each of our columns lists the names that
it had over the years; tables without rows are left out by the exporter.
"""

from __future__ import annotations

from typing import Final

from warplens.readers.shared.sqlite_tables import Spec

KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
SETS: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
WHOLE_GRAPHS: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
CALLS: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
"""Calls of the runtime and of the driver."""
RANGES: Final = "NVTX_EVENTS"
STRINGS: Final = "StringIds"
GPU_TABLES: Final = ("TARGET_INFO_GPU", "TARGET_INFO_CUDA_GPU")
"""Now, and up to early 2021."""
METRICS: Final = "GPU_METRICS"
METRIC_NAMES: Final = "TARGET_INFO_GPU_METRICS"

ON_GPU: Final[Spec] = {
    "start": ("start",),
    "end": ("end",),
    "global": ("globalPid",),
    "device": ("deviceId",),
    "stream": ("streamId",),
    "correlation": ("correlationId",),
}
SPECS: Final[dict[str, Spec]] = {
    KERNELS: {
        **ON_GPU,
        "name": ("demangledName", "shortName", "mangledName"),
        "grid_x": ("gridX",),
        "grid_y": ("gridY",),
        "grid_z": ("gridZ",),
        "block_x": ("blockX",),
        "block_y": ("blockY",),
        "block_z": ("blockZ",),
        "registers": ("registersPerThread",),
        "static_shared": ("staticSharedMemory",),
        "dynamic_shared": ("dynamicSharedMemory",),
    },
    COPIES: {**ON_GPU, "bytes": ("bytes",), "way": ("copyKind",), "source": ("srcKind",), "target": ("dstKind",)},
    SETS: {**ON_GPU, "bytes": ("bytes",), "memory": ("memKind",)},
    WHOLE_GRAPHS: {**ON_GPU, "graph": ("graphId",)},
    CALLS: {
        "start": ("start",),
        "end": ("end",),
        "global": ("globalTid",),
        "correlation": ("correlationId",),
        "name": ("nameId",),
    },
}
RANGE: Final[Spec] = {
    "start": ("start",),
    "end": ("end",),
    "global": ("globalTid",),
    "domain": ("domainId",),
    "name": ("textId",),
}
GPU: Final[Spec] = {
    "id": ("id", "deviceId"),
    "memory": ("totalMemory",),
    "multiprocessors": ("smCount", "numMultiprocessors"),
    "major": ("computeMajor", "computeCapabilityMajor"),
    "minor": ("computeMinor", "computeCapabilityMinor"),
    "warps": ("maxWarpsPerSm", "maxWarpsPerMultiprocessor"),
    "warp_size": ("threadsPerWarp", "numThreadsPerWarp"),
    "registers": ("maxRegistersPerSm",),
    "shared": ("maxShmemPerSm",),
}
METRIC: Final[Spec] = {"type": ("typeId",), "metric": ("metricId",)}
SAMPLE: Final[Spec] = {**METRIC, "time": ("timestamp",), "value": ("value",)}
VISIBLE_GPU: Final[Spec] = {"gpu": ("gpuId",), "number": ("cudaId",), "pid": ("pid",)}
"""A process counts only the GPUs that it may see (CUDA_VISIBLE_DEVICES)."""

RANGE_TYPES: Final = "eventType IN (59, 60)"
"""Push/pop and start/end ranges; 34 is a mark, without a duration."""
DOMAIN_TYPE: Final = "eventType = 75"

FACTS: Final = {
    # Few and by name: the second table can hold the whole environment of the process, secrets included.
    "META_DATA_EXPORT": {
        "EXPORT_PRODUCT_VERSION": "Nsight Systems version",
        "EXPORT_SCHEMA_VERSION": "export schema version",
    },
    "TARGET_INFO_SYSTEM_ENV": {"NvDriverVersion": "driver version", "CudaDriverVersion": "CUDA driver version"},
}

COPY_WAYS: Final = (
    *("Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"),
    *("HtoD", "DtoH", "DtoD"),
)
FIRST_UNIFIED_WAY: Final = 11
"""From here on, the driver moved pages of unified memory."""
MEMORY_KINDS: Final = (
    "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static", "Unknown",
)  # fmt: skip


def copy_name(way: int, source: int, target: int) -> str:
    """A copy as PyTorch's profiler names it."""
    way_text = COPY_WAYS[way] if 0 <= way < len(COPY_WAYS) else f"of kind {way}"
    if way >= FIRST_UNIFIED_WAY and way_text != f"of kind {way}":
        return f"Memcpy {way_text} (unified memory)"
    ends = memory_kind(source), memory_kind(target)
    return f"Memcpy {way_text} ({ends[0]} -> {ends[1]})" if all(ends) else f"Memcpy {way_text}"


def set_name(memory: int) -> str:
    return f"Memset ({memory_kind(memory) or 'Unknown'})"


def memory_kind(kind: int) -> str:
    return MEMORY_KINDS[kind] if 0 <= kind < len(MEMORY_KINDS) else ""

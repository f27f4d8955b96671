"""What the statistics of one event of an `.xplane.pb` file say: launch geometry, sizes, copies, allocations."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from warplens.model.copies import COPY, copy_ends
from warplens.model.event_records import Allocation, LaunchGeometry, ThreadId
from warplens.model.kinds import NONE
from warplens.readers.xplane.planes import Stats, Value, XEvent
from warplens_run.base import bounded

ROCM_COPY: Final = "__amd_rocclr_copybuffer"
"""The kernels that ROCm copies device memory with, in lower case."""
ALLOCATIONS: Final = {"MemoryAllocation": 1, "MemoryDeallocation": -1}


def id_of(value: Value | None) -> int:
    """A count or an id; -1 for none and for what no 64-bit column holds."""
    return NONE if isinstance(value, float) else bounded.whole(value, NONE, 0)


def details_of(stats: Stats, *names: str) -> dict[str, str]:
    """The words "key:value" of a statistic such as `kernel_details`."""
    words = " ".join(str(stats.get(name, "")) for name in names).split()
    return dict(word.split(":", 1) for word in words if ":" in word)


def geometry_of(stats: Stats) -> LaunchGeometry:
    return _geometry(stats.get("kernel_details", ""), stats.get("theoretical_occupancy_pct"))


@lru_cache(maxsize=4096)
def _geometry(kernel_details: Value, occupancy: Value | None) -> LaunchGeometry:
    details = details_of({"kernel_details": kernel_details}, "kernel_details")
    shared = [id_of(details.get(key)) for key in ("static_shared", "dynamic_shared", "group_mem")]
    recorded = [size for size in shared if size >= 0]
    size = min(sum(recorded), 2**63 - 1) if recorded else NONE
    percent = percent_of(details.get("occ_pct") if occupancy is None else occupancy)
    grid, block = (_extent(details.get(key)) for key in ("grid", "block"))
    return LaunchGeometry(grid, block, id_of(details.get("regs")), size, percent)


def _extent(text: str | None) -> str:
    """ "4096,1,1" as Kineto writes it."""
    return f"[{', '.join(text.split(','))}]" if text else ""


def percent_of(value: Value | None) -> float:
    """-1 for none, and for 0, which is what XLA writes where it does not know (ROCm)."""
    percent = bounded.number(value)
    return percent if percent is not None and 0 < percent <= 100 else float(NONE)


def size_of(stats: Stats) -> int:
    """The bytes of a copy or fill; -1 where the file does not say (ROCm's copies say 0)."""
    details = details_of(stats, "memcpy_details", "memset_details")
    return id_of(details.get("size", details.get("num_bytes"))) or NONE


def work_kind(event: XEvent) -> str:
    """What an event of a stream is."""
    lower = event.name.lower()
    if "memcpy_details" in event.stats or COPY.fullmatch(event.name) or lower.startswith(("memcpy", ROCM_COPY)):
        return "memcpy"
    return "memset" if "memset_details" in event.stats or lower.startswith("memset") else "kernel"


def copy_name(event: XEvent, call: str = "") -> str:
    """ "MemcpyH2D" as PyTorch names it, with the kinds of memory where they are known; else by the call that asks for
    the copy, such as "hipMemcpyDtoDAsync"."""
    ends = copy_ends(event.name if COPY.fullmatch(event.name) else call)
    if not ends:
        return event.name
    details = details_of(event.stats, "memcpy_details")
    kinds = [details.get(key, "unknown") for key in ("kind_src", "kind_dst")]
    words = "" if "unknown" in kinds else f" ({kinds[0].capitalize()} -> {kinds[1].capitalize()})"
    return f"Memcpy {ends[0]}to{ends[1]}{words}"


def allocation_of(event: XEvent, start_ns: int, process: ThreadId, thread: ThreadId) -> Allocation:
    """XLA writes 0 for the bytes that it has reserved where it keeps no count."""
    allocator = str(event.stats.get("allocator_name", ""))
    gpu = re.match(r"GPU_(\d+)_", allocator)
    return Allocation(
        start_ns,
        process,
        thread,
        device=f"GPU {gpu[1]}" if gpu else allocator,
        bytes=max(0, id_of(event.stats["allocation_bytes"])) * ALLOCATIONS[event.name],
        allocated_bytes=id_of(event.stats.get("bytes_allocated")),
        reserved_bytes=id_of(event.stats.get("bytes_reserved")) or NONE,
    )

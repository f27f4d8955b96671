"""Makes files as `rocprof --sys-trace` does before version 3."""

from __future__ import annotations

from typing import Any

Event = dict[str, Any]
BOOT = 3_497_798_443_427_445
NAMES = {
    1: "COPY",
    2: "CPU HIP API",
    3: "CPU HSA API",
    4: "Markers and Ranges",
    6: "GPU0",
    8: "GPU2",
    520: "GPU Barriers2",
}


def timed(pid: int, tid: int, name: str, begin: int, end: int, **args: str) -> Event:
    own = {"BeginNs": str(BOOT + begin), "EndNs": str(BOOT + end), "Name": name, "DurationNs": str(end - begin), **args}
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": str((BOOT + begin) // 1000),
            "dur": str((end - begin) // 1000), "args": own}  # fmt: skip


def on_gpu(pid: int, name: str, begin: int, end: int, *, stream: int = 1) -> Event:
    device = {"dev-id": "2", "queue-id": "0", "stream-id": str(stream)}
    return timed(pid, stream, name, begin, end, **device)


def flow(number: int, call: tuple[int, int], work: Event) -> list[Event]:
    """As rocprof writes it: from the middle of the call to the beginning of the work."""
    middle = (2 * BOOT + sum(call)) // 2000
    return [
        {"ts": middle, "ph": "s", "cat": "DataFlow", "id": number, "pid": 2, "tid": 894, "name": "dep"},
        {"ts": int(work["ts"]), "ph": "t", "cat": "DataFlow", "id": number, "pid": work["pid"], "tid": work["tid"],
         "name": "dep"},
    ]  # fmt: skip


KERNEL = on_gpu(8, "vector_add(float*, float*, int)", 60_500, 90_123)
COPY = on_gpu(1, "CopyHostToDevice", 20_000, 41_001, stream=0)
EVENTS = [
    timed(2, 894, "hipMemcpy", 10_000, 45_000),
    timed(2, 894, "hipLaunchKernel", 50_000, 56_000),
    timed(3, 894, "hsa_queue_create", 11_000, 12_000),
    timed(4, 894, "forward", 5_000, 99_000),
    on_gpu(520, "Barrier", 91_000, 92_000),
    COPY,
    KERNEL,
    *flow(0, (10_000, 45_000), COPY),
    *flow(1, (50_000, 56_000), KERNEL),
]


def content(events: list[Event]) -> dict[str, Any]:
    labels = [{"args": {"name": name}, "ph": "M", "pid": pid, "name": "process_name"} for pid, name in NAMES.items()]
    return {"traceEvents": [{}, *labels, *events], "otherData": {"CMD": "x"}}

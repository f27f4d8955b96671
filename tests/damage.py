"""A small sound trace, the figures it must give, and how to look at them once its file is damaged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import warplens
from support import kernel, launch, op

Events = list[dict[str, Any]]


def work() -> Events:
    """One op that launches two kernels: 20 and 10 µs of GPU work, 10 µs apart."""
    return [
        op("aten::mm", 0, 100),
        launch(10, 5, 1),
        launch(20, 5, 2),
        kernel("gemm", 50, 20, 1),
        kernel("relu", 80, 10, 2),
    ]


WHOLE = {"events": 5, "gpu": 2, "gpu_us": 30.0, "busy_us": 30.0, "idle_us": 10.0, "in_op_us": 30.0}


def text_of(events: Any, **header: Any) -> bytes:
    return json.dumps({**header, "traceEvents": events}).encode()


def read(folder: Path, content: bytes) -> warplens.Profile:
    path = folder / "trace.json"
    path.write_bytes(content)
    return warplens.open(path, cache=False)


def figures(profile: warplens.Profile) -> dict[str, float]:
    """What the tables say of a trace, in a few numbers."""
    gpu = profile.gpu_events()
    rows = profile.table("timeline").to_dicts()
    times = {row["measure"]: row["time_ms"] * 1000 for row in rows if row["device"] == "all"}
    ops = {row["op"]: row["kernel_us"] for row in profile.table("ops").to_dicts()}
    return {
        "events": len(profile.trace),
        "gpu": len(gpu),
        "gpu_us": gpu["dur_ns"].sum() / 1000,
        "busy_us": round(times.get("busy", 0.0), 3),
        "idle_us": round(times.get("idle", 0.0), 3),
        "in_op_us": ops.get("aten::mm", 0.0),
    }


def warnings_of(profile: warplens.Profile) -> dict[str, int]:
    """The Quality notes that say something is wrong, with their counts."""
    return {note.code: note.count for note in profile.trace.quality.notes if note.severity == "warning"}


def scrambled(whole: bytes, stride: int) -> Iterator[bytes]:
    """Copies of a file, each with a few bytes changed a stride further on."""
    for place in range(0, len(whole), stride):
        text = bytearray(whole)
        text[place : place + 40] = bytes(byte ^ 0x5A for byte in text[place : place + 40])
        yield bytes(text)

"""The GPU work of single calls, from PyTorch's own profiler: what was launched inside a named range belongs to it."""

from __future__ import annotations

import bisect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import torch

from warplens_run.replay.same import Launched

MARK: Final = "warplens call "
KINDS: Final = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
LAUNCHES: Final = ("cuda_runtime", "cuda_driver")


def record(body: Callable[[Callable[[int], Any]], None], folder: Path) -> dict[int, tuple[Launched, ...]]:
    """Runs `body` under the profiler; it marks call i with `with mark(i):`. What each launched, in order."""
    from torch.profiler import ProfilerActivity, profile, record_function

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        body(lambda number: record_function(f"{MARK}{number}"))
        torch.cuda.synchronize()
    path = folder / "calls.json"
    profiler.export_chrome_trace(str(path))
    return launches(json.loads(path.read_text("utf-8", errors="replace")))


def launches(document: Mapping[str, Any]) -> dict[int, tuple[Launched, ...]]:
    """By call, of a trace in Kineto's form. A call without GPU work is there, with none."""
    ranges: list[tuple[float, float, int]] = []
    calls: list[tuple[float, int]] = []
    work: dict[int, list[Launched]] = {}
    for event in document["traceEvents"]:
        category = event.get("cat")
        if category == "user_annotation" and event["name"].startswith(MARK):
            ranges.append((event["ts"], event["ts"] + event["dur"], int(event["name"][len(MARK) :])))
        elif category in LAUNCHES and "correlation" in event["args"]:
            calls.append((event["ts"], event["args"]["correlation"]))
        elif category in KINDS:
            work.setdefault(event["args"].get("correlation", -1), []).append(_launched(event))
    return _by_range(sorted(ranges), sorted(calls), work)


def _by_range(
    ranges: list[tuple[float, float, int]], calls: list[tuple[float, int]], work: dict[int, list[Launched]]
) -> dict[int, tuple[Launched, ...]]:
    launched: dict[int, list[Launched]] = {number: [] for _, _, number in ranges}
    starts = [start for start, _, _ in ranges]
    for moment, correlation in calls:
        index = bisect.bisect_right(starts, moment) - 1
        if index >= 0 and moment <= ranges[index][1]:
            launched[ranges[index][2]].extend(work.pop(correlation, ()))
    return {number: tuple(range_launches) for number, range_launches in launched.items()}


def _launched(event: Mapping[str, Any]) -> Launched:
    facts = event["args"]
    return Launched(
        name=event["name"],
        kind=KINDS[event["cat"]],
        ns=event["dur"] * 1000,
        grid=tuple(facts.get("grid", ())),
        block=tuple(facts.get("block", ())),
        bytes=facts.get("bytes"),
    )

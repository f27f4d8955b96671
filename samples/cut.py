"""Cuts a time window out of a Kineto trace, as small samples are made.

usage: cut.py IN.json.gz OUT.json.gz START_MS END_MS

Keeps the header, the metadata events, every host event that starts in the window, the GPU events launched by
them, the flows between kept ends, and nothing else; event texts stay as recorded.
"""

from __future__ import annotations

import gzip
import json
import sys
from typing import Any

GPU = {"kernel", "gpu_memcpy", "gpu_memset"}


def cut(document: dict[str, Any], start_ms: float, end_ms: float) -> dict[str, Any]:
    events = document["traceEvents"]
    first = min(event["ts"] for event in events if event.get("ph") == "X")
    low, high = first + start_ms * 1e3, first + end_ms * 1e3

    def inside(event: dict[str, Any]) -> bool:
        return low <= event.get("ts", -1) < high

    host = [event for event in events if event.get("cat") not in GPU | {"ac2g", "fwdbwd"} and inside(event)]
    launches = {event["args"].get("correlation") for event in host if "runtime" in event.get("cat", "")}
    launches |= {event["args"].get("correlation") for event in host if "driver" in event.get("cat", "")}
    gpu = [event for event in events if event.get("cat") in GPU and event["args"]["correlation"] in launches]
    ends: dict[Any, int] = {}
    flows = [event for event in events if event.get("cat") == "fwdbwd" and inside(event)]
    for event in flows:
        ends[event["id"]] = ends.get(event["id"], 0) + 1
    flows = [event for event in flows if ends[event["id"]] == 2]
    labels = [event for event in events if event.get("ph") == "M"]
    return {
        **document,
        "traceEvents": labels + [event for event in host if event.get("ph") != "M"] + flows + gpu,
    }


def main() -> None:
    source, target, start, end = sys.argv[1:]
    with gzip.open(source) as stream:
        document = cut(json.load(stream), float(start), float(end))
    with gzip.GzipFile(target, "wb", mtime=0) as stream:
        stream.write(json.dumps(document).encode())


if __name__ == "__main__":
    main()

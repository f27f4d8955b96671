"""What Perfetto's importer of Chrome traces accepts, for tests: how it reads times, nests slices and binds flows."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Track = tuple[int, int]


def chrome_trace(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    document: dict[str, Any] = json.loads(gzip.decompress(content) if path.name.endswith(".gz") else content)
    return document


def ns_of(microseconds: float) -> int:
    """It multiplies and drops the fraction."""
    return int(microseconds * 1000.0)


@dataclass
class Imported:
    """The slices per track in order, those that were dropped, and the pairs of slices that flows connect."""

    slices: dict[Track, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    dropped: list[dict[str, Any]] = field(default_factory=list)
    flows: list[tuple[str, dict[str, Any], dict[str, Any]]] = field(default_factory=list)
    unbound: Counter[str] = field(default_factory=Counter)


def imported(events: list[dict[str, Any]]) -> Imported:
    """Events in the order of time, and of the file where times are equal; each on the stack of its track."""
    result, stacks = Imported(), defaultdict[Track, list[dict[str, Any]]](list)
    sources: dict[tuple[str, int], dict[str, Any]] = {}
    for event in sorted(events, key=lambda event: ns_of(event["ts"])):
        if event["ph"] not in "Xsf":
            continue
        start, stack = ns_of(event["ts"]), stacks[event["pid"], event["tid"]]
        duration = ns_of(event.get("dur", 0))
        while stack and _is_over(stack[-1], start, duration if event["ph"] == "X" else 1):
            stack.pop()
        if event["ph"] == "X":
            if stack and start + duration > _end(stack[-1]):
                result.dropped.append(event)
                continue
            stack.append(event)
            result.slices[event["pid"], event["tid"]].append(event)
        elif not stack or (event["ph"] == "f" and (event["cat"], event["id"]) not in sources):
            result.unbound[event["cat"]] += 1
        elif event["ph"] == "s":
            sources[event["cat"], event["id"]] = stack[-1]
        else:
            result.flows.append((event["cat"], sources[event["cat"], event["id"]], stack[-1]))
    return result


def _end(event: dict[str, Any]) -> int:
    return ns_of(event["ts"]) + ns_of(event["dur"])


def _is_over(event: dict[str, Any], start: int, duration: int) -> bool:
    ended = _end(event)
    return ended < start or (ended == start and not (ns_of(event["dur"]) == 0 and duration == 0))

"""Which GPU events run at the same time on other streams, launched by other ops."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from warplens.analyses.shared import shared
from warplens.compat.calls import Calls
from warplens.compat.names import OVERLAP
from warplens.model.intervals import length, union
from warplens.model.trace import Ints

LEAST_NS: Final = 1000
"""Shorter overlaps are noise of the clock."""
MOST_STREAMS: Final = 64
"""Streams that are looked at beside an event; more than programs keep busy at once."""


class Overlaps:
    """For each GPU event those that overlap with it."""

    def __init__(self, calls: Calls, beside: dict[int, list[int]]) -> None:
        self.calls = calls
        self.beside = beside
        self.end_ns = calls.start_ns + calls.dur_ns

    def of(self, events: Ints) -> dict[str, Any]:
        """What overlaps with the events of one call: names, mean times by name, and the share of the call's time."""
        pairs = [(event, other) for event in events.tolist() for other in self.beside.get(event, ())]
        if not pairs:
            return dict.fromkeys(OVERLAP)
        start, end = self.calls.start_ns, self.end_ns
        whole = length(union(start[events], end[events]))
        shares: dict[str, list[tuple[int, float]]] = {}
        covered: dict[int, list[tuple[int, int]]] = {}
        for event, other in pairs:
            part = max(int(start[event]), int(start[other])), min(int(end[event]), int(end[other]))
            covered.setdefault(event, []).append(part)
            shares.setdefault(self.calls.kernel[other], []).append((other, round((part[1] - part[0]) / whole, 2)))
        details = [
            {
                "name": name,
                "dur": round(float(self.calls.dur_ns[[other for other, _ in parts]].mean()) / 1000, 2),
                "stream": self.calls.stream_of(parts[0][0]),
                "overlap_pct": round(sum(share for _, share in parts) / len(parts), 2),
            }
            for name, parts in shares.items()
        ]
        overlapped = sum(length(union(*np.array(parts).T)) for parts in covered.values())
        return dict(zip(OVERLAP, (list(shares), details, round(overlapped / whole, 2)), strict=True))


@shared
def overlaps(calls: Calls) -> Overlaps:
    """One sweep over all events by their starts, with the latest event of each stream that still runs."""
    start, end = calls.start_ns, calls.start_ns + calls.dur_ns
    rows = np.flatnonzero(calls.is_counted & (calls.dur_ns >= LEAST_NS))
    beside: dict[int, list[int]] = {}
    running: dict[int, int] = {}
    for row in rows[np.argsort(start[rows], kind="stable")].tolist():
        stream, op = int(calls.stream[row]), int(calls.op[row])
        running = {other: at for other, at in running.items() if end[at] > start[row]}
        for other, at in running.items():
            same = other == stream or (op >= 0 and op == calls.op[at])
            if not same and min(end[at], end[row]) - start[row] >= LEAST_NS:
                beside.setdefault(row, []).append(at)
                beside.setdefault(at, []).append(row)
        if len(running) < MOST_STREAMS or stream in running:
            running[stream] = row
    return Overlaps(calls, beside)

"""What a trace of PyTorch's profiler cannot hold: the numbers that users attach to scopes.

The profiler keeps a scope's name, thread and times. A metric is tied to it by thread, name and occurrence: the k-th
scope of that name on that thread while recording.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

HEADER: Final = "warplens_scopes"
"""The key next to `traceEvents` under which a trace carries the log."""


class ScopeEntry(NamedTuple):
    """Metrics of a scope: the `occurrence`-th of that name on that thread."""

    thread: int
    name: str
    occurrence: int
    metrics: dict[str, float]


class ScopeLog:
    def __init__(self) -> None:
        self._counts: Counter[tuple[int, str]] = Counter()
        self._lock = threading.Lock()
        self.entries: list[ScopeEntry] = []

    def enter(self, name: str, metrics: Mapping[str, float]) -> None:
        thread = threading.get_native_id()
        with self._lock:
            occurrence = self._counts[thread, name]
            self._counts[thread, name] += 1
            if metrics:
                self.entries.append(ScopeEntry(thread, name, occurrence, dict(metrics)))

"""Loops of a call that keep the GPU busy: a CUDA graph of many calls, or where that cannot be captured, plain calls.

A loop would find everything in the cache that its last turn left there, so what was cold in the run is given in turn as
one of several copies, more than the cache holds.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import torch

from warplens_run.replay.caches import FLUSH_CACHES, Cache
from warplens_run.replay.faults import one_line
from warplens_run.replay.inputs import Inputs, free_bytes

OpCall = Callable[[], None]
Candidate = Callable[[Inputs], OpCall]
"""Makes the call on inputs like these."""
REPLAY_NS: Final = 5e6
MIN_CALLS, MAX_CALLS, FEW_CALLS = 50, 2000, 2
LONG_CALL_NS: Final = 1e5
MAX_SETS: Final = 32
MOST_WAITING: Final = 8
"""Replays that are enqueued before the host waits: how long the load lasts is known to a few replays."""
RESET_SHARE: Final = 0.01
"""Setting back what the calls change may take this share of a replay; where it takes more, it is done less often."""


class GraphLoop:
    """What a meter loops. One replay is `calls` calls, enqueued and not waited for."""

    def __init__(self, replay: OpCall, calls: int, resets: list[tuple[Any, Any]], replay_ns: float) -> None:
        self.calls = calls
        self._replay = replay
        self._resets = resets
        self._reset_every = max(1, math.ceil(self._reset_ns() / (RESET_SHARE * replay_ns))) if resets else 0
        self._launched = 0
        self._finished = 0
        self._pending: deque[Any] = deque()

    def launch(self) -> None:
        self._reset_if_due()
        self._replay()
        event = torch.cuda.Event()
        event.record()
        self._pending.append(event)

    def completed(self) -> int:
        """Replays finished so far."""
        while self._pending and self._pending[0].query():
            self._pending.popleft()
            self._finished += 1
        return self._finished

    def synchronize(self) -> None:
        torch.cuda.synchronize()
        self.completed()

    def settle(self, seconds: float) -> None:
        """Keeps the GPU busy for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.timed(MOST_WAITING)

    def timed(self, replays: int) -> list[float]:
        """Time of a call, in ns, of each of so many replays."""
        events = []
        for _ in range(replays):
            self._reset_if_due()
            events.append(_events(self._replay))
        torch.cuda.synchronize()
        return [start.elapsed_time(end) * 1e6 / self.calls for start, end in events]

    def _reset_if_due(self) -> None:
        if self._reset_every and self._launched % self._reset_every == 0:
            self._reset()
        self._launched += 1

    def _reset(self) -> None:
        for flat, original in self._resets:
            flat.copy_(original)

    def _reset_ns(self) -> float:
        self._reset()
        start, end = _events(self._reset)
        torch.cuda.synchronize()
        return float(start.elapsed_time(end)) * 1e6


def _events(action: OpCall) -> tuple[Any, Any]:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    action()
    end.record()
    return start, end


def loop_of(candidate: Candidate, inputs: Inputs, cache: Cache, call_ns: float, device: Any) -> tuple[GraphLoop, str]:
    """The loop, and a note where it is not a graph."""
    sets = rotation(inputs, cache, device)
    calls = [candidate(inputs_set) for inputs_set in sets]
    count = -(-calls_per_replay(call_ns) // len(sets)) * len(sets)
    resets = list(
        {flat.data_ptr(): (flat, original) for inputs_set in sets for flat, original in inputs_set.changed()}.values()
    )
    try:
        return GraphLoop(_captured(calls, count).replay, count, resets, count * call_ns), ""
    except RuntimeError as error:
        torch.cuda.synchronize()  # raises where the failed capture left nothing to go on with
        note = f"looped without a CUDA graph: {one_line(error)}"

    few = min(count, MIN_CALLS)

    def run_without_graph() -> None:
        for number in range(few):
            calls[number % len(calls)]()

    return GraphLoop(run_without_graph, few, resets, few * call_ns), note


def calls_per_replay(call_ns: float) -> int:
    """
    >>> calls_per_replay(1000), calls_per_replay(20e3), calls_per_replay(1e6), calls_per_replay(1e9)
    (2000, 250, 5, 2)
    """
    calls = math.ceil(REPLAY_NS / max(call_ns, 1.0))
    if call_ns > LONG_CALL_NS:
        return max(calls, FEW_CALLS)
    return min(max(calls, MIN_CALLS), MAX_CALLS)


def rotation(inputs: Inputs, cache: Cache, device: Any) -> list[Inputs]:
    """The inputs, and copies of them that differ in the storages that were cold."""
    cold = cache.cold(inputs.storages)
    size = sum(inputs.flats[index].numel() for index in cold)
    return [inputs] + [
        inputs.with_copies(cold) for _ in range(sets_for(size, cache.bytes, free_bytes(device) or 0) - 1)
    ]


def sets_for(cold_bytes: int, cache_bytes: int, free: int) -> int:
    """How many copies are more than the cache holds, within a quarter of the free memory.

    >>> sets_for(0, 60, 10**9), sets_for(50, 60, 10**9), sets_for(500, 60, 10**9), sets_for(1, 60, 10**9)
    (1, 3, 1, 32)
    >>> sets_for(50, 60, 450)
    2
    """
    if cold_bytes <= 0:
        return 1
    sets = math.ceil(FLUSH_CACHES * cache_bytes / cold_bytes)
    return max(1, min(sets, MAX_SETS, free // 4 // cold_bytes))


def _captured(calls: list[OpCall], count: int) -> Any:
    current, stream = torch.cuda.current_stream(), torch.cuda.Stream()
    stream.wait_stream(current)
    with torch.cuda.stream(stream):
        for call in calls:  # what a first call on a stream sets up must not be captured
            call()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            for number in range(count):
                calls[number % len(calls)]()
        finally:
            graph.capture_end()
    current.wait_stream(stream)
    return graph

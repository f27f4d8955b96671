"""The model's conservation laws, asserted after every pass and in tests."""

from __future__ import annotations

import numpy as np

from warplens.model.kinds import CODE, NESTED
from warplens.model.trace import Trace


class BrokenLawError(AssertionError):
    """A bug of ours: the trace no longer adds up."""


def self_check(trace: Trace) -> None:
    """Raise `BrokenLawError` where the rows contradict each other."""
    rows = np.arange(len(trace))
    start, duration, lane = trace.ints("start_ns"), trace.ints("dur_ns"), trace.ints("lane")
    _law(bool((duration >= 0).all()), "a duration is negative")
    _law(bool((start >= 0).all()), "an event starts before the trace")
    order = (lane[1:] > lane[:-1]) | ((lane[1:] == lane[:-1]) & (start[1:] >= start[:-1]))
    _law(bool(order.all()), "rows are not sorted by lane and start")
    parent = trace.ints("parent")
    child = np.flatnonzero(parent >= 0)
    timed = child[~np.isin(child, trace.frames["id"].to_numpy())] if len(trace.frames) else child
    _law(bool((lane[parent[timed]] == lane[timed]).all()), "a parent is on another thread")
    _law(bool((parent[child] != rows[child]).all()), "an event is its own parent")
    nested = trace.is_kind(*NESTED)[parent[child]]
    _law(bool(nested.all()), "a parent is not a host event")
    depth = trace.ints("depth")
    _law(bool((depth[child] == depth[parent[child]] + 1).all()), "a depth is not its parent's plus one")
    gpu = trace.gpu_rows
    launch = trace.ints("launch")
    _law(
        int((launch >= 0).sum()) == int((launch[gpu] >= 0).sum()),
        "something that is not GPU work has a launch",
    )
    runtime = trace.ints("kind")[launch[gpu][launch[gpu] >= 0]] == CODE["runtime"]
    _law(bool(runtime.all()), "a launch is not a runtime call")


def _law(holds: bool, broken: str) -> None:
    if not holds:
        raise BrokenLawError(broken)

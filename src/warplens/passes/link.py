"""Links: GPU event → the host call that launched it → the innermost op around that call."""

from __future__ import annotations

import numpy as np

from warplens.model.kinds import CODE, NONE
from warplens.model.quality import Note
from warplens.model.trace import Ints, Trace
from warplens.passes.climb import climb


def link_launches(trace: Trace) -> Trace:
    gpu = trace.gpu_rows
    launch, duplicates = _launch_of(trace, gpu)
    launches = np.full(len(trace), NONE, np.int64)
    launches[gpu] = launch
    ops = np.full(len(trace), NONE, np.int64)
    ops[gpu] = _op_of(trace, gpu, launch)
    notes = [Note("duplicate_correlation", duplicates)] if duplicates else []
    return trace.with_columns(*notes, launch=launches, op=ops)


def _launch_of(trace: Trace, gpu: Ints) -> tuple[Ints, int]:
    """Each GPU event's host call by correlation id, and how many calls shared one that was needed.

    A call of a driver inside that of the runtime has the same id as it, and is no other launch.
    """
    correlation, start = trace.ints("correlation"), trace.ints("start_ns")
    calls = trace.rows_of("runtime")
    calls = calls[correlation[calls] > 0]
    calls = calls[np.lexsort((start[calls], correlation[calls]))]
    keys = correlation[calls]
    wanted = correlation[gpu]
    first, last = np.searchsorted(keys, wanted, "left"), np.searchsorted(keys, wanted, "right")
    has_launch = (wanted > 0) & (last > first)
    launch = np.full(len(gpu), NONE, np.int64)
    launch[has_launch] = calls[first[has_launch]]
    shared = np.flatnonzero(has_launch & (last - first > 1))
    begun, end, lane = start[calls], start[calls] + trace.ints("dur_ns")[calls], trace.ints("lane")[calls]
    outer = np.searchsorted(keys, keys, "left")
    inside = np.append(0, np.cumsum((end <= end[outer]) & (lane == lane[outer])))
    shared = shared[inside[last[shared]] - inside[first[shared]] < (last - first)[shared]]
    for index in shared.tolist():
        earlier = np.searchsorted(begun[first[index] : last[index]], start[gpu[index]], "right")
        launch[index] = calls[first[index] + max(int(earlier) - 1, 0)]
    return launch, len(np.unique(wanted[shared]))


def _op_of(trace: Trace, gpu: Ints, launch: Ints) -> Ints:
    """The op around the launch; where the launch is missing, the op that the external id names."""
    is_op = trace.ints("kind") == CODE["op"]
    op = climb(launch, trace.ints("parent"), is_op)
    lost = np.flatnonzero(op < 0)
    if len(lost):
        external = trace.ints("external_id")
        of_launch = np.where(launch[lost] >= 0, external[launch[lost]], NONE)
        own = external[gpu[lost]]
        if len(trace.rows_of("runtime")):
            # Of work from before the recording, ROCm's profiler writes the correlation id in the place of the op's.
            own = np.where((launch[lost] < 0) & (own == trace.ints("correlation")[gpu[lost]]), NONE, own)
        op[lost] = _op_with_external_id(trace, np.where(own > 0, own, of_launch))
    return op


def _op_with_external_id(trace: Trace, wanted: Ints) -> Ints:
    ops = trace.rows_of("op")
    if len(ops) == 0:
        return np.full(len(wanted), NONE, np.int64)
    external = trace.ints("external_id")[ops]
    order = np.argsort(external, kind="stable")
    position = np.minimum(np.searchsorted(external[order], wanted), len(ops) - 1)
    op = ops[order[position]]
    return np.where((wanted > 0) & (external[order[position]] == wanted), op, NONE)

"""Links: GPU event → the host call that launched it → the innermost op around that call."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from warplens.model.kinds import CODE, NONE
from warplens.model.quality import Note
from warplens.model.trace import Ints, Trace
from warplens.passes.climb import climb

LAUNCHES: Final = re.compile(r"launch|memcpy|memset|enqueue", re.IGNORECASE)
"""In the names of calls that give a GPU work."""
NO_IDS: Final = np.empty(0, np.int64)


def link_launches(trace: Trace) -> Trace:
    gpu = trace.gpu_rows
    has_correlations = not len(gpu) or bool((trace.ints("correlation")[gpu] > 0).any())
    launch, duplicates = _launch_of(trace, gpu) if has_correlations else (_launch_by_external_id(trace, gpu), 0)
    launches = np.full(len(trace), NONE, np.int64)
    launches[gpu] = launch
    ops = np.full(len(trace), NONE, np.int64)
    ops[gpu] = _op_of(trace, gpu, launch, not_of_ops=NO_IDS if has_correlations else _ids_of_calls(trace))
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


def _launch_by_external_id(trace: Trace, gpu: Ints) -> Ints:
    """Of a trace without correlation ids: where as many calls as GPU events have an external id, they belong together
    in their order. It may be the number of the one call, or that of the op around several."""
    external, start = trace.ints("external_id"), trace.ints("start_ns")
    launches = np.array([code for code in trace.host_names.tolist() if LAUNCHES.search(trace.names[code])], np.int64)
    calls = trace.runtime_rows
    calls = calls[np.isin(trace.ints("name")[calls], launches) & (external[calls] > 0)]
    numbers, counts = np.unique(external[calls], return_counts=True)
    wanted = np.sort(external[gpu])
    agree = counts == np.searchsorted(wanted, numbers, "right") - np.searchsorted(wanted, numbers, "left")
    calls, linked = (rows[np.isin(external[rows], numbers[agree])] for rows in (calls, gpu))
    calls, linked = (rows[np.lexsort((start[rows], external[rows]))] for rows in (calls, linked))
    launch = np.full(len(gpu), NONE, np.int64)
    launch[np.searchsorted(gpu, linked)] = calls
    return launch


def _ids_of_calls(trace: Trace) -> Ints:
    """External ids that are the number of a call into the runtime, not of the op around it."""
    external, calls = trace.ints("external_id"), trace.runtime_rows
    op = climb(calls, trace.ints("parent"), trace.is_kind("op"))
    numbers: Ints = external[calls][(op < 0) | (external[op] != external[calls])]
    return numbers


def _op_of(trace: Trace, gpu: Ints, launch: Ints, not_of_ops: Ints) -> Ints:
    """The op around the launch; where the launch is missing, the op that the external id names."""
    is_op = trace.ints("kind") == CODE["op"]
    op = climb(launch, trace.ints("parent"), is_op)
    lost = np.flatnonzero(op < 0)
    if len(lost):
        external = trace.ints("external_id")
        of_launch = np.where(launch[lost] >= 0, external[launch[lost]], NONE)
        own = external[gpu[lost]]
        if len(trace.runtime_rows):
            # Of work from before the recording, ROCm's profiler writes the correlation id in the place of the op's.
            own = np.where((launch[lost] < 0) & (own == trace.ints("correlation")[gpu[lost]]), NONE, own)
        wanted = np.where(own > 0, own, of_launch)
        op[lost] = _op_with_external_id(trace, np.where(np.isin(wanted, not_of_ops), NONE, wanted))
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

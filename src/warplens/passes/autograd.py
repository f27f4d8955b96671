"""Backward → forward: the op that created each backward op, so that its time lands on the user's line."""

from __future__ import annotations

import numpy as np

from warplens.model.kinds import NONE
from warplens.model.trace import Ints, Trace

ENGINE = "autograd::engine::evaluate_function: "
MAX_PAIRS = 20_000
"""Comparing two threads takes some 15 µs; with more pairs than this, threads are matched by their order alone."""


def join_backward(trace: Trace) -> Trace:
    forward = np.full(len(trace), NONE, np.int64)
    _by_sequence(trace, forward)
    _by_flows(trace, forward)
    start = _start_with_callers(trace)
    # A link into the future is damage, and would let a walk up the context go in circles.
    linked = np.flatnonzero(forward >= 0)
    wrong = linked[start[forward[linked]] >= start[linked]]
    forward[wrong] = NONE
    return trace.with_columns(forward=forward)


def _start_with_callers(trace: Trace) -> Ints:
    """When an event and all its callers had started; later than its own start only where nesting was mended."""
    parent = trace.ints("parent")
    start: Ints = trace.ints("start_ns").copy()
    child = np.flatnonzero(parent >= 0)
    while True:
        late = child[start[parent[child]] > start[child]]
        if len(late) == 0:
            return start
        start[late] = start[parent[late]]


def _by_flows(trace: Trace, forward: Ints) -> None:
    """`fwdbwd` arrows are exact: they name the thread, where sequence numbers repeat across threads."""
    if trace.flows.is_empty():
        return
    source, target = trace.flows["source"].to_numpy(), trace.flows["target"].to_numpy()
    of_ops = trace.is_kind("op")[target]  # arrows between the warps of a kernel are flows too
    forward[target[of_ops]] = source[of_ops]


def _by_sequence(trace: Trace, forward: Ints) -> None:
    """The innermost forward op with the same sequence number, on the thread its partners point to."""
    ops = trace.rows_of("op")
    sequence = trace.ints("sequence")
    ops = ops[sequence[ops] >= 0]
    if len(ops) == 0:
        return
    is_engine = np.fromiter((name.startswith(ENGINE) for name in trace.names), bool, len(trace.names))
    backward = (trace.ints("forward_thread")[ops] > 0) | is_engine[trace.ints("name")[ops]]
    creators, followers = ops[~backward], ops[backward]
    if len(creators) == 0 or len(followers) == 0:
        return
    home = _forward_lanes(trace, creators, followers)
    lane, start = trace.ints("lane"), trace.ints("start_ns")
    for thread, lane_of_thread in home.items():
        mine = followers[trace.ints("forward_thread")[followers] == thread]
        on_lane = creators[lane[creators] == lane_of_thread]
        order = on_lane[np.lexsort((start[on_lane], sequence[on_lane]))]
        latest = np.searchsorted(sequence[order], sequence[mine], side="right") - 1
        creator = order[np.maximum(latest, 0)]
        matches = (latest >= 0) & (sequence[creator] == sequence[mine])
        forward[mine[matches]] = creator[matches]


def _forward_lanes(trace: Trace, creators: Ints, followers: Ints) -> dict[int, int]:
    """Which host thread each of autograd's own thread numbers means: the one most sequence numbers fit.

    Threads count their own sequence numbers, so several can fit equally well. Autograd numbers threads in the
    order in which they start: of equal fits the lowest number gets the earliest thread, each a thread of its own.
    """
    lane, sequence, start = trace.ints("lane"), trace.ints("sequence"), trace.ints("start_ns")
    numbers = np.unique(trace.ints("forward_thread")[followers]).tolist()
    lanes = sorted(
        np.unique(lane[creators]).tolist(),
        key=lambda candidate: int(start[creators[lane[creators] == candidate]].min()),
    )
    if len(numbers) * len(lanes) > MAX_PAIRS:
        return {number: lanes[min(rank, len(lanes) - 1)] for rank, number in enumerate(numbers)}
    sequences = {candidate: sequence[creators[lane[creators] == candidate]] for candidate in lanes}
    fits = []
    for number in numbers:
        wanted = np.unique(sequence[followers[trace.ints("forward_thread")[followers] == number]])
        fits += [
            (-int(np.isin(wanted, sequences[candidate]).sum()), number, rank) for rank, candidate in enumerate(lanes)
        ]
    homes: dict[int, int] = {}
    for _, number, rank in sorted(fits):
        if number not in homes and lanes[rank] not in homes.values():
            homes[number] = lanes[rank]
    for _, number, rank in sorted(fits):
        # More numbers than threads: a thread that ended gave its id to a later one.
        homes.setdefault(number, lanes[rank])
    return homes

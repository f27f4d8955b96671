"""Calls: GPU events that belong together, and the time in which any of them ran."""

from __future__ import annotations

import msgspec
import numpy as np

from warplens.model.intervals import union
from warplens.model.trace import Ints


class CallTimes(msgspec.Struct, frozen=True):
    """Per call, by rising call number: its first event, and the length of the union of its events' intervals."""

    first: Ints
    union_ns: Ints


def call_times(call: Ints, start: Ints, duration: Ints) -> CallTimes:
    """`call` says for each event which call it belongs to.

    >>> call_times(np.array([7, 7, 9]), np.array([0, 5, 0]), np.array([10, 10, 3])).union_ns
    array([15,  3])
    """
    order = np.argsort(call, kind="stable")
    ordered = call[order]
    opens = np.ones(len(order), bool)
    opens[1:] = ordered[1:] != ordered[:-1]
    number = np.cumsum(opens) - 1
    count = int(number[-1]) + 1 if len(number) else 0
    unions = np.bincount(number, weights=duration[order], minlength=count).astype(np.int64)
    several = np.bincount(number, minlength=count)[number] > 1
    # Most calls launch one kernel: only the others need a union.
    rows = order[several]
    _set_unions(unions, number[several], start[rows], duration[rows])
    return CallTimes(order[opens], unions)


def _set_unions(unions: Ints, number: Ints, start: Ints, duration: Ints) -> None:
    """The unions of the calls with these numbers, in one go.

    Each call's time is moved to a stretch of its own on one common axis, so that a single union serves all.
    """
    if len(number) == 0:
        return
    first = np.append(0, np.flatnonzero(np.diff(number)) + 1)
    begin = np.minimum.reduceat(start, first)
    room = np.maximum.reduceat(start + duration, first) - begin + 1
    base = np.append(0, np.cumsum(room)[:-1])
    shift = np.repeat(base - begin, np.diff(np.append(first, len(number))))
    whole = union(start + shift, start + shift + duration)
    call_of_interval = np.searchsorted(base, whole.starts, side="right") - 1
    lengths = np.bincount(call_of_interval, weights=whole.ends - whole.starts, minlength=len(base))
    unions[number[first]] = lengths.astype(np.int64)

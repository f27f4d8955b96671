"""Starts and durations as integer nanoseconds, and the rules by which damaged ones are found."""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from warplens.model.trace import Bools, Ints

MAX_NS: Final = 4 * 10**18
"""Times beyond this (126 years) are damage; up to here, two of them can be added in 64 bits."""
YEAR_NS: Final = 32 * 10**15
"""No trace is this long: a time further from the others, or a longer duration, is damage."""
MAX_SUMMED_NS: Final = 10**18
"""Durations that add up to more (31 years) include damage; eight times this still fits in 64 bits."""


class UsableTimes(msgspec.Struct, frozen=True):
    """The events whose times make sense: their rows, starts and durations."""

    rows: Ints
    start_ns: Ints
    dur_ns: Ints


def usable_times(
    start: Ints, duration: Ints, has_start: Bools | None, has_duration: Bools | None, damage: Counter[str]
) -> UsableTimes:
    """Events with a usable start; missing and negative durations become 0. Every repair and loss is counted.

    A mask that is None is true everywhere.
    """
    usable = (start < MAX_NS) & (start > -MAX_NS)
    if has_start is not None:
        usable &= has_start
    if has_duration is not None:
        duration = np.where(has_duration, duration, 0)
        damage["missing_duration"] += int(np.count_nonzero(~has_duration))
    damage["negative_duration"] += int(np.count_nonzero(duration < 0))
    duration = np.maximum(duration, 0)
    usable &= duration < YEAR_NS
    if duration[usable].sum(dtype=np.float64) > MAX_SUMMED_NS:
        usable &= duration < MAX_SUMMED_NS / len(usable)
    if usable.any():
        # One absurd timestamp must not stretch the trace: far from the median it is damage.
        usable &= np.abs(start - _median(start[usable])) < YEAR_NS
    rows = np.flatnonzero(usable)
    damage["out_of_range"] += len(usable) - len(rows)
    return UsableTimes(rows, start[rows], duration[rows])


def _median(values: Ints) -> int:
    """numpy's own imports its masked arrays first, which takes as long as reading a small trace."""
    middle = len(values) // 2
    return int(np.partition(values, middle)[middle])


def durations(start: Ints, end: Ints) -> Ints:
    """`end - start`; of damaged times so far apart that it would not fit in 64 bits, `MAX_NS` or its negative."""
    apart = end.astype(np.float64) - start.astype(np.float64)
    far: npt.NDArray[np.int64] = np.where(apart > 0, MAX_NS, -MAX_NS)
    with np.errstate(over="ignore"):
        return np.where(np.abs(apart) < MAX_NS, end - start, far)


def clamped(times: list[int]) -> Ints:
    """Times as an array; those beyond 64 bits, which are damage, become `MAX_NS` or its negative."""
    try:
        return np.array(times, np.int64)
    except OverflowError:
        return np.array([max(-MAX_NS, min(time, MAX_NS)) for time in times], np.int64)

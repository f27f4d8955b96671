"""When a rank's GPU computed: intervals coarse enough for a timeline of many ranks."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.time.timeline import device_work
from warplens.analyses.workspace import Workspace
from warplens.model.intervals import Union
from warplens.model.trace import Ints

CLOSED_NS: Final = 20_000
"""Shorter gaps between kernels are closed: on a timeline of a whole job they are less than a pixel."""
MOST_PER_STEP: Final = 2_000
"""Of a step with more gaps the longest ones are kept."""


def computing(work: Workspace) -> pl.DataFrame:
    """The frame `compute` of a digest."""
    marks = work.trace.steps["start_ns"].sort().to_numpy()
    parts = coarse(device_work(work, None).computation, marks)
    origin = work.trace.meta.origin_ns
    return pl.DataFrame({"start_ns": parts.starts + origin, "end_ns": parts.ends + origin})


def coarse(intervals: Union, step_starts: Ints) -> Union:
    """The union with its short gaps closed.

    >>> parts = coarse(Union(np.array([0, 15_000, 90_000]), np.array([10_000, 20_000, 95_000])), np.array([0]))
    >>> parts.starts.tolist(), parts.ends.tolist()
    ([0, 90000], [20000, 95000])
    """
    if len(intervals.starts) == 0:
        return intervals
    gaps = intervals.starts[1:] - intervals.ends[:-1]
    step = np.searchsorted(step_starts, intervals.ends[:-1], "right")
    longest_first = np.lexsort((-gaps, step))
    ordered = step[longest_first]
    place = np.empty(len(gaps), np.int64)
    place[longest_first] = np.arange(len(gaps)) - np.searchsorted(ordered, ordered, "left")
    kept = np.flatnonzero((gaps >= CLOSED_NS) & (place < MOST_PER_STEP - 1))
    return Union(intervals.starts[np.append(0, kept + 1)], intervals.ends[np.append(kept, len(intervals.ends) - 1)])

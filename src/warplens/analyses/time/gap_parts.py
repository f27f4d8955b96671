"""The parts of a gap: before its launch was issued, until the launched work could begin, and after that."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from warplens.analyses.graph.gpu_order import LEAST_LATENCY_NS, MOST_LATENCY_NS, SMALL_EXCESS_NS, USUAL_LATENCY_NS
from warplens.model.trace import Ints, Trace

ENOUGH: Final = 10
"""So many launches show what is usual."""


class GapParts(NamedTuple):
    """Per gap, of the GPU event that ended it; the parts of a gap whose launch is not recorded are 0."""

    host_ns: Ints
    """The launch was not issued yet."""
    launch_ns: Ints
    """It was issued, and the event could not begin yet: the call, and the latency of a launch."""
    dependency_ns: Ints
    """The event could begin, as far as its launch is concerned."""


def gap_parts(trace: Trace, start: Ints, end: Ints, launch: Ints) -> GapParts:
    """`launch`: the call that launched the event which ended the gap, -1 for none."""
    has_launch = launch >= 0
    issued = np.where(has_launch, trace.ints("start_ns")[np.maximum(launch, 0)], end)
    call = np.where(has_launch, trace.ints("dur_ns")[np.maximum(launch, 0)], 0)
    latency = _usual_latency_ns((end - issued)[has_launch & (issued >= start)])
    # A launch takes effect at some moment inside its call, the later the slower the call.
    possible = issued + np.maximum(latency, call + LEAST_LATENCY_NS)
    is_explained = (possible > start) & (end - possible <= SMALL_EXCESS_NS)
    issued = np.clip(issued, start, end)
    possible = np.where(is_explained, end, np.clip(possible, issued, end))
    parts = (issued - start, possible - issued, end - possible)
    return GapParts(*(np.where(has_launch, part, 0) for part in parts))


def _usual_latency_ns(latencies: Ints) -> int:
    """From a launch to its event where the GPU had nothing else to do; of a few, most may have waited for more."""
    enough = len(latencies) >= ENOUGH
    return min(MOST_LATENCY_NS, max(0, int(np.median(latencies)))) if enough else USUAL_LATENCY_NS

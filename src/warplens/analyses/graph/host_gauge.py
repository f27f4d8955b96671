"""How slow the host was while it recorded, read off the ops of a trace.

An op that only calls another one does next to nothing itself: what it takes beyond that one is the profiler's work at
the beginning and end of a record, and a call. The shorter half of these times is the least that a record costs on this
host, with these options. A host that other programs use stops now and then; then everything takes longer, recording
too.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from warplens.model.arrays import numbered
from warplens.model.kinds import CODE
from warplens.model.trace import Trace

LONGEST_NESTED_NS: Final = 4_000.0
"""No host takes longer for it; a trace of few ops may have none that only calls another. Measured: 500 to 2,700 ns."""
FEWEST: Final = 6
"""From this many ops of a name on, their median says how long one usually takes."""
LONGEST_PAUSE_NS: Final = 20_000_000
"""A host that is shared stops for milliseconds. What takes longer happens once, as loading a library does."""
MOST_PAUSES: Final = 3.0
"""Three busy programs on the two cores of the recorded one made it 2.5."""


def nested_op_ns(trace: Trace) -> float:
    """What an op takes that only calls another one, without that one: the mean of the shorter half; 0 without any."""
    parent, duration = trace.ints("parent"), trace.ints("dur_ns")
    is_op = np.append(trace.ints("kind") == CODE["op"], False)  # no parent is -1: the last
    callees = np.bincount(parent + 1, minlength=len(trace) + 1)[1:]
    only = np.flatnonzero(is_op[:-1] & is_op[parent] & (callees[parent] == 1))
    own_ns = np.sort(duration[parent[only]] - duration[only])
    shorter = own_ns[: (len(own_ns) + 1) // 2]
    return min(LONGEST_NESTED_NS, float(shorter.mean())) if len(shorter) else 0.0


def pauses(trace: Trace) -> float:
    """The time of all ops over the time they would take if each took as long as usual for its name; at least 1.

    An op's time is without what it calls, so that waits for the GPU, which are calls of the runtime, do not count.
    """
    parent, duration = trace.ints("parent"), trace.ints("dur_ns")
    called_ns = np.bincount(parent + 1, duration, len(trace) + 1)[1:]
    ops = np.flatnonzero(trace.ints("kind") == CODE["op"])
    own_ns = np.maximum(0.0, duration[ops] - called_ns[ops])
    names, number = numbered(trace.ints("name")[ops])
    order = np.lexsort((own_ns, number))
    count = np.bincount(number, minlength=len(names))
    usual_ns = own_ns[order][np.cumsum(count) - count + count // 2]
    more_ns = np.bincount(number, np.minimum(own_ns - usual_ns[number], LONGEST_PAUSE_NS), len(names))
    is_known = count >= FEWEST
    usually_ns = (usual_ns * count)[is_known].sum()
    return float(np.clip(1 + more_ns[is_known].sum() / usually_ns, 1.0, MOST_PAUSES)) if usually_ns else 1.0

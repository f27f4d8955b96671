"""Recorded call paths: frames that a profiler named without saying when they ran, tied to each other and to GPU work.

Such frames are events of no duration (see `Trace.frames`), so nesting by time cannot place them. Here each gets the
parent that was recorded, and each GPU event with a recorded path is booked on its innermost frame. A frame named
"(backward)" is not a caller but a mark: what is below it is the backward pass of what is above it.
"""

from __future__ import annotations

import numpy as np

from warplens.model.kinds import BACKWARD, NONE
from warplens.model.paths import depths
from warplens.model.trace import Bools, Ints, Trace


def apply_contexts(trace: Trace) -> Trace:
    if trace.frames.is_empty() and trace.contexts.is_empty():
        return trace
    parent, op = trace.ints("parent").astype(np.int64), trace.ints("op").astype(np.int64)
    frames, above = trace.frames["id"].to_numpy(), trace.frames["parent"].to_numpy()
    parent[frames] = above
    op[trace.contexts["id"].to_numpy()] = trace.contexts["frame"].to_numpy()
    forward = trace.ints("forward").astype(np.int64)
    marked = frames[(above >= 0) & _marks(trace, frames)[above]]
    forward[marked] = parent[parent[marked]]
    return trace.with_columns(parent=parent, depth=depths(parent), op=op, forward=forward)


def _marks(trace: Trace, frames: Ints) -> Bools:
    """Which events are marks of the backward pass."""
    code = trace.names.index(BACKWARD) if BACKWARD in trace.names else NONE
    is_mark = np.zeros(len(trace), bool)
    is_mark[frames] = trace.ints("name")[frames] == code
    return is_mark

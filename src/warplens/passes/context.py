"""Recorded call paths: frames that a profiler named without saying when they ran, tied to each other and to GPU work.

Such frames are events of no duration (see `Trace.frames`), so nesting by time cannot place them. Here each gets the
parent that was recorded, and each GPU event with a recorded path is booked on its innermost frame.
"""

from __future__ import annotations

import numpy as np

from warplens.model.paths import depths
from warplens.model.trace import Trace


def apply_contexts(trace: Trace) -> Trace:
    if trace.frames.is_empty() and trace.contexts.is_empty():
        return trace
    parent, op = trace.ints("parent").astype(np.int64), trace.ints("op").astype(np.int64)
    parent[trace.frames["id"].to_numpy()] = trace.frames["parent"].to_numpy()
    op[trace.contexts["id"].to_numpy()] = trace.contexts["frame"].to_numpy()
    return trace.with_columns(parent=parent, depth=depths(parent), op=op)

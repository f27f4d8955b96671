"""How much of a recording the host spends on the capture of CUDA or HIP graphs."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from warplens.analyses.time.host_activity import matching_names
from warplens.analyses.workspace import Workspace
from warplens.model.intervals import length, union
from warplens.model.kinds import NESTED

BEGIN: Final = re.compile(r"(?:cuda|hip|cu)StreamBeginCapture|torch/cuda/graphs\.py\(\d+\): capture_begin$")
END: Final = re.compile(r"(?:cuda|hip|cu)StreamEndCapture|torch/cuda/graphs\.py\(\d+\): capture_end$")
MARK: Final = re.compile(r"capture_\d+_\w+$")
"""What serving engines write around the capture of one batch size, its warm-up included."""


def capture_share(work: Workspace) -> float:
    """Of the time in which the host does anything."""
    trace = work.trace
    rows = trace.rows_of(*NESTED)
    name, start = trace.ints("name")[rows], trace.ints("start_ns")[rows]
    end = start + trace.ints("dur_ns")[rows]
    begins, ends, marks = (matching_names(trace, pattern)[name] for pattern in (BEGIN, END, MARK))
    if not (begins.any() or marks.any()):
        return 0.0
    last = np.sort(end[ends])
    begun = start[begins]
    at = np.searchsorted(last, begun)
    until = last[np.minimum(at, len(last) - 1)] if len(last) else begun
    captured = union(np.append(begun, start[marks]), np.append(until, end[marks]))
    return length(captured) / max(1, int(end.max() - start.min()))

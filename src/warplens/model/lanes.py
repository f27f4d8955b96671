"""What the lanes of a trace are called, and which of them have no times."""

from __future__ import annotations

import re

import numpy as np

from warplens.model.trace import Trace


def caller_lanes(trace: Trace) -> list[int]:
    """Lanes that contain nothing but recorded callers: their times are unknown, so they are not part of a timeline."""
    if trace.frames.is_empty():
        return []
    lane, size = trace.ints("lane"), len(trace.lanes)
    callers = np.bincount(lane[trace.frames["id"].to_numpy()], minlength=size)
    return list(map(int, np.flatnonzero((callers > 0) & (callers == np.bincount(lane, minlength=size)))))


def lane_titles(trace: Trace) -> list[str]:
    """The title of each lane, as the page's timeline shows it."""
    on_gpu = np.zeros(len(trace.lanes) + 1, bool)
    on_gpu[trace.ints("lane")[trace.gpu_rows]] = True
    rows = trace.lanes.select("process", "thread", "process_name", "thread_name").iter_rows()
    return [_title(*row, on_gpu=bool(on_gpu[number])) for number, row in enumerate(rows)]


def _title(process: str, thread: str, process_name: str, thread_name: str, *, on_gpu: bool) -> str:
    name = thread_name or thread
    if not on_gpu:
        return f"{process_name + ' ' if process_name else ''}{process} · {name}"
    stream = name.strip() if re.search("stream", name, re.IGNORECASE) else f"stream {name}"
    return f"{process if re.match(r'GPU|rank [0-9]', process) else f'GPU {process}'} · {stream}"

"""Traces that `convert` wrote: events that viewers cannot nest, on tracks of their own, go back to their thread."""

from __future__ import annotations

import msgspec
import numpy as np

from warplens.model.assemble import EventColumns
from warplens.model.builder import TraceBuilder


class _Converted(msgspec.Struct):
    """What is read of the header's entry."""

    moved: list[tuple[int, int, int]] = []


def put_back_moved(builder: TraceBuilder, columns: EventColumns, header: object) -> None:
    """Give events the lane of the thread that they belong to; a header of any other form is ignored."""
    if header is None:
        return
    try:
        moved = msgspec.convert(header, _Converted).moved
    except msgspec.ValidationError:
        return
    lanes = dict(builder.lanes)
    lane_of = np.arange(len(builder.lanes.in_order), dtype=columns.lane.dtype)
    for process, track, thread in moved:
        if (process, track) in lanes and (process, thread) in lanes:
            lane_of[lanes[process, track]] = lanes[process, thread]
    columns.lane[:] = lane_of[columns.lane]

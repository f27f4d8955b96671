"""The critical path as columns of the page, which makes the table of it and draws it over the timeline."""

from __future__ import annotations

import numpy as np

from warplens.model.critical_path import COLUMNS, KINDS, PathSegments
from warplens.model.trace import Ints, Trace
from warplens.outputs.html.events import Kept
from warplens.outputs.html.pack import Packer
from warplens.outputs.html.records import PathColumn, PathHeader


def pack_path(path: PathSegments, trace: Trace, kept: Kept, packer: Packer) -> PathHeader:
    """Names, ops and shares follow from the events: five numbers per segment are enough."""
    ends = path.recorded_start_ns + path.recorded_ns
    return PathHeader(
        kinds=KINDS,
        columns=[PathColumn(column.name, column.unit, column.meaning) for column in COLUMNS],
        start=int(path.start_ns[0]) if len(path) else 0,
        kind=packer.add_ints(path.kind),
        row=packer.add_ints(_rows_on_page(path.row, trace, kept), delta=True),
        pause=packer.add_ints(path.recorded_start_ns - np.append(0, ends[:-1])),
        recorded=packer.add_ints(path.recorded_ns),
        # The cost of recording is a few numbers, over and over; the plain lengths themselves are not.
        cost=packer.add_ints(path.recorded_ns - path.time_ns),
    )


def _rows_on_page(rows: Ints, trace: Trace, kept: Kept) -> Ints:
    """The events on the page; of one that was left out, what is around it."""
    parent = trace.ints("parent")
    while len(missing := np.flatnonzero((rows >= 0) & (kept.row_of_event[rows] < 0))):
        rows = rows.copy()
        rows[missing] = parent[rows[missing]]
    return np.where(rows >= 0, kept.row_of_event[np.maximum(rows, 0)], -1)

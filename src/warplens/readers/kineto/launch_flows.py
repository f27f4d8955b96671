"""Arrows from launches to GPU work (`ac2g`), for files without correlation ids: both ends get a common id.

PyTorch writes both, and the ids say more: arrows count only where no event has an id, in files that another tool has
written or shortened.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from warplens.model.assemble import EventColumns
from warplens.model.builder import TraceBuilder
from warplens.model.event_records import ThreadId
from warplens.model.kinds import CODE, NONE
from warplens.model.trace import Bools
from warplens.readers.kineto.records import KinetoEvent
from warplens.readers.shared.microseconds import to_ns

LAUNCH_FLOW: Final = "ac2g"
MOST_OF_A_FILE: Final = 1 << 62
"""Larger ids are damage."""


def link_by_flows(flows: Sequence[KinetoEvent], builder: TraceBuilder, columns: EventColumns) -> None:
    """A launch and its GPU work get a correlation; without launches an op and its GPU work get an external id."""
    correlation, external = columns.whole_column("correlation"), columns.whole_column("external_id")
    if not flows or (correlation > 0).any():
        return
    sources, targets = ([flow for flow in flows if flow.ph == phase] for phase in ("s", "f"))
    ids = correlation
    calls = _events_around(sources, builder, columns, columns.kind == CODE["runtime"])
    if all(call == NONE for call in calls):
        ids = external
        calls = _events_around(sources, builder, columns, columns.kind == CODE["op"])
    common: dict[ThreadId, int] = {}
    first_free = min(max(int(ids.max()), 0), MOST_OF_A_FILE) + 1
    for new, (flow, call) in enumerate(zip(sources, calls, strict=True), first_free):
        if call != NONE:
            ids[call] = common[flow.id] = common.get(flow.id) or (int(ids[call]) if ids[call] > 0 else new)
    for flow, event in zip(targets, _events_around(targets, builder, columns, columns.is_gpu_work), strict=True):
        if event != NONE and flow.id in common:
            ids[event] = common[flow.id]


def _events_around(
    flows: Sequence[KinetoEvent], builder: TraceBuilder, columns: EventColumns, chosen: Bools
) -> list[int]:
    """For each end of an arrow the latest of the chosen events that has begun on its lane, unless it is over."""
    rows = np.flatnonzero(chosen)
    rows = rows[np.lexsort((-columns.dur_ns[rows], columns.start_ns[rows]))]
    start, end = columns.start_ns[rows], columns.start_ns[rows] + columns.dur_ns[rows]
    times = to_ns(np.array([flow.ts for flow in flows], np.float64)).ns
    lanes = np.array([builder.lanes[flow.pid, flow.tid] for flow in flows], np.int64)
    around = np.full(len(flows), NONE, np.int64)
    for lane in np.unique(lanes).tolist():
        own, ends_here = np.flatnonzero(columns.lane[rows] == lane), np.flatnonzero(lanes == lane)
        if len(own):
            latest = own[np.searchsorted(start[own], times[ends_here], "right") - 1]
            is_inside = (start[latest] <= times[ends_here]) & (times[ends_here] <= end[latest])
            around[ends_here] = np.where(is_inside, rows[latest], NONE)
    numbers: list[int] = around.tolist()
    return numbers

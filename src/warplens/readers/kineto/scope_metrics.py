"""What users said of their scopes: the log in a trace's header, tied to the scopes' own events.

Written by `warplens.scope` while PyTorch's profiler records: [thread, name, occurrence, {metric: value}], where the
occurrence counts the scopes of that name on that thread (see capture/scope_log.py).
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from warplens.model.kinds import CODE
from warplens.model.trace import SIDE_FRAMES, Trace
from warplens_run.base import bounded


def with_scope_metrics(trace: Trace, log: object) -> Trace:
    """The trace with what the log says; entries that fit no event, or are not valid, are omitted."""
    if not isinstance(log, list) or not log:
        return trace
    calls = _scopes(trace)
    rows = [
        (row, bounded.text(metric), value)
        for thread, name, occurrence, metrics in filter(_is_entry, log)
        for row in calls.get((bounded.text(thread), name), [])[occurrence : occurrence + 1]
        for metric, recorded in metrics.items()
        if (value := bounded.number(recorded)) is not None
    ]
    return replace(trace, metrics=pl.DataFrame(rows, schema=SIDE_FRAMES["metrics"], orient="row"))


def _is_entry(entry: object) -> bool:
    if not (isinstance(entry, list) and len(entry) == 4):
        return False
    thread, name, occurrence, metrics = entry
    is_place = isinstance(thread, int) and isinstance(name, str) and bounded.is_whole(occurrence, 0)
    return is_place and isinstance(metrics, dict)


def _scopes(trace: Trace) -> dict[tuple[str, str], list[int]]:
    """The annotations of each thread and name in the order of their starts, which is that of the rows."""
    scopes: dict[tuple[str, str], list[int]] = {}
    threads = trace.lanes["thread"].to_list()
    rows = trace.events.filter(pl.col("kind") == CODE["annotation"]).select("id", "lane", "name")
    for row, lane, name in rows.iter_rows():
        scopes.setdefault((threads[lane], trace.names[name]), []).append(row)
    return scopes

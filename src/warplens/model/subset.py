"""A trace of some of the events of another: rows are numbered anew, and everything that refers to rows follows."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from warplens.model.kinds import NONE
from warplens.model.trace import EVENT_COLUMNS, SIDE_FRAMES, Bools, Ints, Trace

EVENT_REFERENCES: Final = ("parent", "launch", "op", "forward")
REFERENCES: Final = {
    # side frame: its columns with rows of events, if these are more than `id`
    "flows": ("source", "target"),
    "frames": ("id", "parent"),
    "contexts": ("id", "frame"),
}
NOT_EVENTS: Final = ("lanes", "specs", "geometries", "memory", "steps")
"""Side frames that refer to no event."""


def with_references(trace: Trace, keep: Bools) -> Bools:
    """These events and all that they refer to: callers, launches, ops, forward ops, recorded frames."""
    closed: Bools = keep.copy()
    columns = [trace.ints(name) for name in EVENT_REFERENCES]
    if len(trace.contexts):
        frame = np.full(len(trace), NONE, np.int64)
        frame[trace.contexts["id"].to_numpy()] = trace.contexts["frame"].to_numpy()
        columns.append(frame)
    reached = np.flatnonzero(closed)
    while len(reached):
        ahead = np.unique(np.concatenate([column[reached] for column in columns]).astype(np.int64))
        ahead = ahead[ahead >= 0]
        reached = ahead[~closed[ahead]]
        closed[reached] = True
    return closed


def subset(trace: Trace, keep: Bools) -> Trace:
    """The trace of the events to keep, which have to include all that they refer to (see `with_references`)."""
    rows = np.flatnonzero(keep)
    number = np.full(len(trace) + 1, NONE, np.int64)  # the last one stands for -1
    number[rows] = np.arange(len(rows))
    events = trace.events[rows].with_columns(
        pl.Series("id", np.arange(len(rows)), dtype=EVENT_COLUMNS["id"]),
        *(pl.Series(name, number[trace.ints(name)[rows]], dtype=EVENT_COLUMNS[name]) for name in EVENT_REFERENCES),
    )
    frames: dict[str, pl.DataFrame] = {
        name: _side_frame(trace, name, number) for name in SIDE_FRAMES if name not in NOT_EVENTS
    }
    return replace(trace, events=events, **frames)  # type: ignore[arg-type]  # mypy takes the names for any field's


def _side_frame(trace: Trace, name: str, number: Ints) -> pl.DataFrame:
    """The rows whose first reference is kept; further references that are not become -1."""
    frame: pl.DataFrame = getattr(trace, name)
    columns = REFERENCES.get(name, ("id",))
    if not len(frame) or any(column not in frame.columns for column in columns):
        return frame
    moved = {column: number[frame[column].to_numpy().astype(np.int64)] for column in columns}
    needed = columns if name == "flows" else columns[:1]
    kept = np.logical_and.reduce([moved[column] >= 0 for column in needed])
    series = [pl.Series(column, values, dtype=pl.Int64).filter(pl.Series(kept)) for column, values in moved.items()]
    chosen = frame.filter(pl.Series(kept))
    return chosen.with_columns(column.cast(frame.schema[column.name]) for column in series)

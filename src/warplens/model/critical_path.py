"""`PathSegments`: the chain of segments that decides how long the steps of a trace take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from warplens.model.table import Column
from warplens.model.trace import Ints

KINDS: Final = {
    "host": "the host works towards its next call",
    "launch": "a launch call, up to the moment at which it takes effect",
    "latency": "from a launch to the start of its event on an idle stream",
    "work": "a kernel, a copy or a memset",
    "pause": "between two events of a stream",
    "wait": "between an event and one of another stream that waited for it",
    "sync": "from the end of GPU work to the return of the call that waited for it",
    "earlier": "before the first event of a stream: work from before the recording held it up",
    "unexplained": "a wait before a GPU event that nothing recorded explains",
}
KIND_NAMES: Final = tuple(KINDS)
COLUMNS = (
    Column("kind", f"what the time went into: {', '.join(KINDS)}", "", pl.String),
    Column("name", "GPU event, call, or innermost host event in the middle of the segment", "", pl.String),
    Column("start_ms", "start of the segment in the simulated plain run", "ms", pl.Float64),
    Column("time_us", "its length", "us", pl.Float64),
    Column("percent", "its share of the path", "%", pl.Float64),
    Column("op", "framework op that it belongs to", "", pl.String),
    Column("kernel_category", "category of the GPU event, else empty", "", pl.String),
    Column("step", "step of the GPU event, -1 if none", "", pl.Int64),
    Column("id", "the event that `name` names: a row of the table events, -1 if none", "", pl.Int64),
    Column("recorded_ms", "start of the segment as recorded, with the profiler's cost", "ms", pl.Float64),
    Column("recorded_us", "its length as recorded", "us", pl.Float64),
)
CALLER_COLUMNS = (
    Column("module", "nearest nn.Module around it, empty if none", "", pl.String),
    Column("python_line", "nearest Python function of the user's own (file:line), empty if none", "", pl.String),
)
"""What the table has besides; the page shows them for the event itself."""


@dataclass(frozen=True)
class PathSegments:
    """One entry per segment in order: when it is in the simulated plain run, and where it is in the recorded one."""

    kind: Ints
    """Place in `KIND_NAMES`."""
    start_ns: Ints
    time_ns: Ints
    row: Ints
    """The event of the trace: the GPU event, the call; of the host's time what it did halfway; -1 if none."""
    recorded_start_ns: Ints
    recorded_ns: Ints
    """The length as recorded."""

    def __len__(self) -> int:
        return len(self.kind)

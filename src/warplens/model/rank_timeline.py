"""`RankTimeline`: one trace as a file of timelines shows it, alone or among the ranks of a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from warplens.model.trace import Trace

CONVERTED: Final = "warplens_converted"
"""The key of a file's header that describes the conversion: `sources`, and `moved`, the further tracks of a thread for
events that do not nest, as process, thread and the thread that they belong to."""
ADDED: Final = "Warplens"
"""The process of tracks that belong to no other."""


@dataclass(frozen=True)
class SliceTrack:
    """A further track of a timeline: `slices` has start_ns, dur_ns and name; its other columns become arguments.

    An argument that is null, empty or -1 is omitted. `process` groups tracks, `shows` completes their category.
    """

    title: str
    shows: str
    slices: pl.DataFrame
    process: str = ADDED


@dataclass(frozen=True)
class RankTimeline:
    """A trace with what is known of its GPU events, and further tracks.

    `gpu` has one row per event of `trace.gpu_rows`, and its columns become arguments of these events. Of several
    timelines in one file, `prefix` begins the names of processes ("rank 3 · "), and `offset_ns` is added to all times:
    with it the clocks agree.
    """

    trace: Trace
    gpu: pl.DataFrame
    tracks: Sequence[SliceTrack] = ()
    prefix: str = ""
    offset_ns: int = 0


@dataclass(frozen=True)
class RankFlow:
    """An arrow between events of two timelines, each by its number in the file and the event's row in its trace."""

    source: int
    source_event: int
    target: int
    target_event: int
    name: str = field(default="collective")

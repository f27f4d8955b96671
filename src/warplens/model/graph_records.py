"""What joins the capture of a GPU graph with its replays, besides the two traces themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from warplens.model.event_records import LaunchGeometry
from warplens.model.kinds import NONE
from warplens.model.trace import Ints, Trace


class CapturedLaunch(NamedTuple):
    """What a captured launch says of its kernel; "" where that is not recorded, as in CUDA."""

    kernel: str = ""
    geometry: LaunchGeometry = LaunchGeometry()


@dataclass(frozen=True)
class CaptureTrace:
    """A linked trace that contains the captures of graphs."""

    trace: Trace
    launches: Mapping[int, CapturedLaunch] = field(default_factory=dict)
    """By correlation."""
    name: str = ""
    """Of its file, as the table shows it; "" for the trace of the replays itself."""


class CaptureRecord(NamedTuple):
    """A capture that the recorder saw, by the clock of the host (ns since 1970)."""

    number: int
    file: str
    start_ns: int
    end_ns: int
    graph_id: int = NONE


class ReplayRecord(NamedTuple):
    """A replay that the recorder saw: the number of its capture, -1 where that was before the recording."""

    number: int
    time_ns: int
    thread: str


@dataclass(frozen=True)
class CaptureIndex:
    """What the recorder of a bundle says of captures and replays; empty for traces of other origin."""

    captures: tuple[CaptureRecord, ...] = ()
    replays: tuple[ReplayRecord, ...] = ()


@dataclass(frozen=True)
class GraphNodes:
    """Numbers of graphs and nodes that kernels of the replays have, by their row; empty where none are recorded."""

    rows: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    graph: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    node: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

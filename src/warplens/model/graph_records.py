"""What joins the capture of a GPU graph with its replays, besides the two traces themselves."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from warplens.model.event_records import LaunchGeometry
from warplens.model.kinds import NONE
from warplens.model.trace import Ints, Trace


class CapturedLaunch(msgspec.Struct, frozen=True):
    """What a captured launch says of its kernel; "" where that is not recorded, as in CUDA."""

    kernel: str = ""
    geometry: LaunchGeometry = LaunchGeometry()


class CaptureTrace(msgspec.Struct, frozen=True):
    """A linked trace that contains the captures of graphs."""

    trace: Trace
    launches: Mapping[int, CapturedLaunch] = msgspec.field(default_factory=dict)
    """By correlation."""
    name: str = ""
    """Of its file, as the table shows it; "" for the trace of the replays itself."""


class CaptureRecord(msgspec.Struct, frozen=True):
    """A capture that the recorder saw, by the clock of the host (ns since 1970)."""

    number: int
    file: str
    start_ns: int
    end_ns: int
    graph_id: int = NONE


class ReplayRecord(msgspec.Struct, frozen=True):
    """A replay that the recorder saw: the number of its capture, -1 where that was before the recording."""

    number: int
    time_ns: int
    thread: str


class CaptureIndex(msgspec.Struct, frozen=True):
    """What the recorder of a bundle says of captures and replays; empty for traces of other origin."""

    captures: tuple[CaptureRecord, ...] = ()
    replays: tuple[ReplayRecord, ...] = ()


class GraphNodes(msgspec.Struct, frozen=True):
    """Numbers of graphs and nodes that kernels of the replays have, by their row; empty where none are recorded."""

    rows: Ints = msgspec.field(default_factory=lambda: np.zeros(0, np.int64))
    graph: Ints = msgspec.field(default_factory=lambda: np.zeros(0, np.int64))
    node: Ints = msgspec.field(default_factory=lambda: np.zeros(0, np.int64))

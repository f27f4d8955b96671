"""Events with their recorded callers, one by one, as the columns that `build` takes (XLA's and Proton's traces)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from warplens.model.builder import RawColumns
from warplens.model.kinds import CODE, NONE
from warplens.model.trace import SIDE_FRAMES, Ints
from warplens.readers.kineto.columns import Codes

INT_COLUMNS: Final = ("device", "stream", "correlation", "external_id", "geometry")
FRAMES_LANE: Final = ("recorded callers", 0)
"""Where callers lie that are named without saying when they ran."""


class Rows:
    """A row per event. Most events have few of the integer columns, so those are kept by row."""

    def __init__(self) -> None:
        self.kind: list[int] = []
        self.name: list[int] = []
        self.ts_us: list[float] = []
        self.dur_us: list[float] = []
        self.lane: list[int] = []
        self.ints: dict[str, dict[int, int]] = {column: {} for column in INT_COLUMNS}
        self.names, self.geometries = Codes(), Codes()
        self.lanes: list[tuple[Any, Any]] = []
        self.process_names: dict[Any, str] = {}
        self.thread_names: dict[tuple[Any, Any], str] = {}
        self.copies: list[tuple[int, int]] = []
        self.memory: list[tuple[float, Any, Any, str, int, int, int]] = []
        self.contexts: list[tuple[int, int]] = []
        self.metrics: list[tuple[int, str, float]] = []
        self.unnamed = 0
        self._frames: dict[tuple[int, str, str, str], int] = {}
        self._frames_lane = NONE

    def __len__(self) -> int:
        return len(self.kind)

    def add_lane(self, process: Any, thread: Any, process_name: str, thread_name: str) -> int:
        self.lanes.append((process, thread))
        self.process_names[process] = process_name
        self.thread_names[process, thread] = thread_name
        return len(self.lanes) - 1

    def add(self, kind: str, name: str, lane: int, ts_us: float, dur_us: float) -> int:
        if not name:
            self.unnamed += 1
            name = "(unnamed)"
        self.kind.append(CODE[kind])
        self.name.append(self.names[name])
        self.ts_us.append(ts_us)
        self.dur_us.append(dur_us)
        self.lane.append(lane)
        return len(self.kind) - 1

    def frame(self, parent: int, kind: str, name: str, ts_us: float, instance: str = "") -> int:
        """The caller of this name below another row; each is one row, or one per instance, however often asked for."""
        key = parent, kind, name, instance
        row = self._frames.get(key)
        if row is None:
            if self._frames_lane < 0:
                self._frames_lane = self.add_lane(*FRAMES_LANE, FRAMES_LANE[0], FRAMES_LANE[0])
            row = self._frames[key] = self.add(kind, name, self._frames_lane, ts_us, 0.0)
        return row

    def columns(self) -> RawColumns:
        sides: dict[str, list[Any]] = {
            "copies": self.copies,
            "geometries": list(self.geometries),
            "frames": [(row, parent) for (parent, *_), row in self._frames.items()],
            "contexts": self.contexts,
            "metrics": self.metrics,
        }
        return RawColumns(
            kind=np.array(self.kind, np.int64),
            ts_us=np.array(self.ts_us, np.float64),
            dur_us=np.array(self.dur_us, np.float64),
            lane=np.array(self.lane, np.int32),
            name=np.array(self.name, np.int32),
            names=list(self.names),
            lanes=self.lanes,
            ints={column: self._int_column(column) for column in INT_COLUMNS},
            sides={name: pl.DataFrame(rows, SIDE_FRAMES[name], orient="row") for name, rows in sides.items()},
            process_names=self.process_names,
            thread_names=self.thread_names,
            memory=self.memory,
        )

    def _int_column(self, column: str) -> Ints:
        values = np.full(len(self), NONE, np.int64)
        known = self.ints[column]
        values[list(known)] = list(known.values())
        return values

"""Events that come as columns, table by table → the columns that `build` takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from warplens.model.builder import RawColumns
from warplens.model.kinds import CODE, NONE
from warplens.model.trace import SIDE_FRAMES, Ints
from warplens.readers.kineto.columns import Codes

INT_COLUMNS = ("device", "stream", "correlation", "geometry")
GEOMETRY = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers", "shared")
EXACT_FLOAT = 2**53
MAX_DEVICE = 2**31
"""A larger number is damage, and would not fit in the trace."""


class Parts:
    """Collects events; times are integers in ns, from any moment on."""

    def __init__(self) -> None:
        self.names, self.lanes = Codes(), Codes()
        self.process_names: dict[Any, str] = {}
        self.thread_names: dict[tuple[Any, Any], str] = {}
        self.rows = 0
        self._columns: dict[str, list[Ints]] = {}
        self._geometries: list[pl.DataFrame] = []
        self._copies: list[pl.DataFrame] = []

    def add(self, kind: str, start: Ints, end: Ints, name: Ints, lane: Ints | int, **ints: Ints | int) -> None:
        """One more table of events of a kind; `ints` are some of `INT_COLUMNS`."""
        values = {"kind": CODE[kind], "start": start, "end": end, "name": name, "lane": lane}
        for column, each in {**dict.fromkeys(INT_COLUMNS, NONE), **values, **ints}.items():
            whole = np.broadcast_to(np.asarray(each, np.int64), start.shape)
            self._columns.setdefault(column, []).append(whole)
        self.rows += len(start)

    def add_copies(self, sizes: Ints) -> None:
        """How many bytes each event of the table to be added next moves."""
        rows = {"id": self.rows + np.arange(len(sizes)), "bytes": sizes}
        self._copies.append(pl.DataFrame(rows, schema=SIDE_FRAMES["copies"]).filter(pl.col("bytes") >= 0))

    def named(self, name_of: Callable[..., str], *columns: Ints) -> Ints:
        """Codes of names that depend on some columns; each different row is named once."""
        rows, codes = distinct(*columns)
        return np.array([self.names[name_of(*row)] for row in rows], np.int64)[codes]

    def laned(self, lane_of: Callable[..., tuple[Any, Any]], *columns: Ints) -> Ints:
        """Codes of (process, thread), likewise."""
        rows, codes = distinct(*columns)
        return np.array([self.lanes[lane_of(*row)] for row in rows], np.int64)[codes]

    def geometry(self, columns: dict[str, Ints]) -> Ints:
        """Codes of launch geometries, from the columns `GEOMETRY`."""
        rows, codes = distinct(*(columns[name] for name in GEOMETRY))
        shapes = [(str(list(row[:3])), str(list(row[3:6])), *row[6:], -1.0) for row in rows]
        before = sum(frame.height for frame in self._geometries)
        self._geometries.append(pl.DataFrame(shapes, schema=SIDE_FRAMES["geometries"], orient="row"))
        return codes + before

    def columns(self) -> RawColumns:
        whole = {name: np.concatenate(parts) for name, parts in self._columns.items()}
        start, end, device = whole.pop("start"), whole.pop("end"), whole["device"]
        whole["device"] = np.where((device >= 0) & (device < MAX_DEVICE), device, NONE)
        middle = len(start) // 2
        # Times since boot would lose their nanoseconds in a float. The median is near all that are not damaged.
        base = np.int64(np.partition(start, middle)[middle])
        return RawColumns(
            kind=whole.pop("kind"),
            ts_us=np.where(start == NONE, np.nan, _microseconds(start, base)),
            dur_us=_microseconds(end, start),
            lane=whole.pop("lane").astype(np.int32),
            name=whole.pop("name").astype(np.int32),
            names=list(self.names),
            lanes=list(self.lanes),
            ints=whole,
            sides={"geometries": _stacked("geometries", self._geometries), "copies": _stacked("copies", self._copies)},
            process_names=self.process_names,
            thread_names=self.thread_names,
        )


def distinct(*columns: Ints) -> tuple[list[tuple[int, ...]], Ints]:
    """The different rows, and for each row its place among those."""
    frame = pl.DataFrame({str(place): column for place, column in enumerate(columns)})
    rows = frame.unique(maintain_order=True)
    placed = frame.join(rows.with_row_index("place"), on=frame.columns, how="left", maintain_order="left")
    return rows.rows(), placed["place"].to_numpy().astype(np.int64)


def _microseconds(later: Ints, earlier: Ints | np.int64) -> Any:
    """Exact where the difference is; damaged times may lie so far apart that it would not fit in 64 bits."""
    with np.errstate(over="ignore"):
        exact = later - earlier
    rough = later.astype(np.float64) - np.asarray(earlier, np.float64)
    return np.where(np.abs(rough) < EXACT_FLOAT, exact, rough) / 1000


def _stacked(name: str, frames: list[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat([pl.DataFrame(schema=SIDE_FRAMES[name]), *frames])

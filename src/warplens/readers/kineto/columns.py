"""Events → columns: the per-event Python of reading, kept to a few list comprehensions per piece."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from warplens.readers.kineto.records import Args, Event

NO_ARGS = Args()
FLOW_PHASES = ("s", "f")

INT_COLUMNS: dict[str, tuple[str, ...]] = {
    # group: the integer fields of `args` that events of the group can carry
    "host": ("external_id", "sequence", "forward_thread"),
    "runtime": ("external_id", "correlation"),
    "gpu": ("external_id", "correlation", "device", "stream"),
    "plain": (),
}
CODED = {"name": "names", "lane": "lanes", "category": "categories", "spec": "specs", "geometry": "geometries"}
"""Columns that hold codes, and the tables that the codes belong to."""
ALL_INTS = ("external_id", "correlation", "device", "stream", "sequence", "forward_thread")


class Codes(dict[Any, int]):
    """Gives equal values the same small number, in order of appearance.

    A subscript with `__missing__` costs a third of `setdefault`, and this is the hottest line of reading.
    """

    def __missing__(self, value: Any) -> int:
        code = self[value] = len(self)
        return code

    def of(self, values: Iterable[Any]) -> npt.NDArray[np.int32]:
        return np.array([self[value] for value in values], np.int32)


class Threads(dict[Any, int]):
    """The lanes of one process by thread."""

    def __init__(self, process: Any, lanes: Codes) -> None:
        super().__init__()
        self.process = process
        self.lanes = lanes

    def __missing__(self, thread: Any) -> int:
        lane = self[thread] = self.lanes[self.process, thread]
        return lane


class Columns:
    """Collects the timed events of a file, group by group, as numpy columns."""

    def __init__(self, group_of: Callable[[str], str]) -> None:
        self.group_of = group_of
        self.names, self.lanes = Codes(), Codes()
        self.threads: dict[Any, Threads] = {}
        self.categories, self.specs, self.geometries = Codes(), Codes(), Codes()
        self.parts: list[dict[str, npt.NDArray[Any]]] = []
        self.rows = 0
        self.phases: Counter[str] = Counter()
        self.flow_opens: list[bool] = []
        self.flow_key: list[int] = []
        self.flow_ts: list[float] = []
        self.flow_lane: list[int] = []
        self.flow_keys = Codes()
        self.labels: list[Event] = []
        self.memory: list[Event] = []
        self.collectives: list[tuple[int, Args]] = []
        self.copies: list[tuple[int, int]] = []
        self.begin_end: list[Event] = []

    def add(self, events: list[Event]) -> None:
        timed: dict[str, list[Event]] = {}
        take: dict[str, Callable[[Event], None]] = {}
        others: list[Event] = []
        for event in events:
            if event.ph == "X":
                try:
                    take[event.cat](event)
                except KeyError:
                    timed[event.cat] = [event]
                    take[event.cat] = timed[event.cat].append
            else:
                others.append(event)
        self.phases["X"] += len(events) - len(others)
        for category, members in timed.items():
            self._add_category(category, members)
        self._add_others(others)

    def _add_category(self, category: str, events: list[Event]) -> None:
        group = self.group_of(category)
        names = self.names
        # Comprehensions over the events themselves: the interpreter reads a struct's field faster than attrgetter.
        part: dict[str, npt.NDArray[Any]] = {
            "ts": np.array([event.ts for event in events], np.float64),
            "dur": np.array([event.dur for event in events], np.float64),
            "name": np.array([names[event.name] for event in events], np.int32),
            "lane": np.array(self._lanes_of(events), np.int32),
            "category": np.full(len(events), self.categories[category], np.int32),
        }
        if INT_COLUMNS[group]:
            self._add_args(group, [event.args or NO_ARGS for event in events], part)
        self.parts.append(part)
        self.rows += len(events)

    def _lanes_of(self, events: list[Event]) -> list[int]:
        processes = {event.pid for event in events}
        if len(processes) > 1:
            lanes = self.lanes
            return [lanes[event.pid, event.tid] for event in events]
        # The usual case: with one process the thread alone is the key, and no pair needs to be made.
        (process,) = processes
        lane_of = self.threads.get(process) or self.threads.setdefault(process, Threads(process, self.lanes))
        return [lane_of[event.tid] for event in events]

    def _add_args(self, group: str, args: list[Args], part: dict[str, npt.NDArray[Any]]) -> None:
        for name in INT_COLUMNS[group]:
            part[name] = _ints(attrgetter(name), args)
        if group == "host":
            part["spec"] = self.specs.of(
                [b"\0".join((a.input_dims, a.input_types, a.input_strides, a.concrete_inputs)) for a in args]
            )
        if group == "gpu":
            part["geometry"] = self.geometries.of(map(_geometry, args))
            self.copies += [(self.rows + i, arg.bytes) for i, arg in enumerate(args) if arg.bytes >= 0]
        if group in ("host", "gpu"):
            self.collectives += [(self.rows + i, arg) for i, arg in enumerate(args) if arg.collective]

    def _add_others(self, events: list[Event]) -> None:
        self.phases.update([event.ph for event in events])
        for event in events:
            if event.ph in FLOW_PHASES:
                if event.cat == "fwdbwd":
                    self.flow_opens.append(event.ph == "s")
                    self.flow_key.append(self.flow_keys[event.id])
                    self.flow_ts.append(event.ts)
                    self.flow_lane.append(self.lanes[event.pid, event.tid])
            elif event.ph == "M":
                self.labels.append(event)
            elif event.name == "[memory]":
                self.memory.append(event)
            elif event.ph in ("B", "E"):
                self.begin_end.append(event)

    def compact(self) -> None:
        """One part instead of thousands, to be sent or kept."""
        dtypes = {name: values.dtype for part in self.parts for name, values in part.items()}
        self.parts = [{name: self.column(name, dtype) for name, dtype in dtypes.items()}] if dtypes else []
        self.threads = {}

    def append(self, later: Columns) -> None:
        """Add what other columns hold, as if their events came after these."""
        recoded = {
            name: np.array([getattr(self, table)[value] for value in getattr(later, table)], np.int32)
            for name, table in CODED.items()
        }
        for part in later.parts:
            self.parts.append({name: _recode(recoded.get(name), values) for name, values in part.items()})
        keys, lanes = [self.flow_keys[value] for value in later.flow_keys], recoded["lane"].tolist()
        self.flow_opens += later.flow_opens
        self.flow_key += [keys[key] for key in later.flow_key]
        self.flow_ts += later.flow_ts
        self.flow_lane += [lanes[lane] for lane in later.flow_lane]
        self.collectives += [(self.rows + row, args) for row, args in later.collectives]
        self.copies += [(self.rows + row, size) for row, size in later.copies]
        self.labels += later.labels
        self.memory += later.memory
        self.begin_end += later.begin_end
        self.phases.update(later.phases)
        self.rows += later.rows

    def column(self, name: str, dtype: npt.DTypeLike, absent: int = -1) -> npt.NDArray[Any]:
        """A whole column; rows of groups that do not carry it get `absent`."""
        if self.parts and all(name in part for part in self.parts):
            return np.concatenate([part[name] for part in self.parts]).astype(dtype, copy=False)
        whole = np.full(self.rows, absent, dtype)
        row = 0
        for part in self.parts:
            end = row + len(part["ts"])
            if name in part:
                whole[row:end] = part[name]
            row = end
        return whole


def _recode(codes: npt.NDArray[np.int32] | None, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if codes is None:
        return values
    # Absent ones (-1) stay so; an empty table has nothing else.
    recoded: npt.NDArray[np.int32] = np.append(codes, np.int32(-1))[values]
    return recoded


def _geometry(arg: Args) -> tuple[bytes, int, int, float]:
    return b"\0".join((arg.grid, arg.block)), arg.registers, arg.shared_memory, arg.occupancy


def _ints(field: Callable[[Args], int], args: list[Args]) -> npt.NDArray[np.int64]:
    try:
        return np.fromiter(map(field, args), np.int64, len(args))
    except OverflowError:  # ids beyond 64 bits cannot be matched anyway
        values = map(field, args)
        return np.array([value if -(2**63) <= value < 2**63 else -1 for value in values], dtype=np.int64)

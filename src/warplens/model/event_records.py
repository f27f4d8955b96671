"""Facts about events other than their times: the records that `TraceBuilder` takes."""

from __future__ import annotations

from typing import NamedTuple

from warplens.model.kinds import NONE

ThreadId = int | str | None
"""How a file names a process, a thread or an arrow."""
Lane = tuple[ThreadId, ThreadId]
"""Process and thread."""


class LaunchGeometry(NamedTuple):
    """How a kernel is launched; -1 and "" where that is not known."""

    grid: str = ""
    block: str = ""
    registers: int = NONE
    shared_memory_bytes: int = NONE
    occupancy_percent: float = float(NONE)


class CallSpec(NamedTuple):
    """What an op is called with, as lists in JSON."""

    input_dims: str = ""
    input_types: str = ""
    input_strides: str = ""
    concrete_inputs: str = ""


class Collective(NamedTuple):
    """What a collective moves, and among whom."""

    collective: str | None
    dtype: str | None
    in_elements: int
    out_elements: int
    group_size: int
    group: str | None
    ranks: str | None
    seq: int = NONE
    peer: int = NONE
    in_splits: str = ""
    out_splits: str = ""
    description: str = ""
    """Of the group, as the program describes it."""


class Allocation(NamedTuple):
    """Memory taken (or, with a negative size, given back) by a thread; totals are those afterwards."""

    start_ns: int | None
    process: ThreadId
    thread: ThreadId
    device: str
    bytes: int
    allocated_bytes: int = NONE
    reserved_bytes: int = NONE
    address: int = NONE


class Lanes(dict[Lane, int]):
    """Lane numbers by process and thread. `in_order` has each lane's process and thread."""

    def __init__(self) -> None:
        super().__init__()
        self.in_order: list[Lane] = []

    def __missing__(self, lane: Lane) -> int:
        number = self[lane] = self.add(lane)
        return number

    def add(self, lane: Lane) -> int:
        self.in_order.append(lane)
        return len(self.in_order) - 1

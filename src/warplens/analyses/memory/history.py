"""`MemoryHistory`: what was held when, on each device; the tables on memory are made from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from warplens.model.quality import Note

Ints = npt.NDArray[np.int64]

HELD: Final[dict[str, Any]] = {
    "address": pl.Int64,
    "bytes": pl.Int64,
    "requested_bytes": pl.Int64,
    # Numbers of events: held from after `begin` to before `end`. -1: since before the recording; none: to its end.
    "begin": pl.Int64,
    "end": pl.Int64,
    # Rows of the snapshot's stacks, -1 for none: of the allocation and of its end.
    "stack": pl.Int64,
    "end_stack": pl.Int64,
}
NEVER: Final = np.iinfo(np.int64).max
"""The `end` of what is still held when the recording ends."""


class Failure(NamedTuple):
    """An allocation that failed."""

    event: int
    requested: int
    device_free: int
    """What the device had left; -1 where it is not recorded."""
    stack: int


@dataclass(frozen=True)
class DeviceHistory:
    """One device. `times_ns`, `allocated` and `reserved` have a value per event: the totals are those after it."""

    device: str
    times_ns: Ints
    allocated: Ints
    reserved: Ints | None
    held: pl.DataFrame
    """A row per allocation, with the columns of `HELD`."""
    first_allocated: int = 0
    """Held when the recording began."""
    segments: pl.DataFrame | None = None
    """A row per segment, or page of an expandable one, that was there at some time: address, bytes, begin, end, kind,
    pool, stream, is_expandable; None where only sums are known."""
    notes: tuple[Note, ...] = field(default=())
    failures: tuple[Failure, ...] = ()

    @property
    def peak_event(self) -> int:
        """The event after which most was allocated; -1: the beginning."""
        if not len(self.allocated):
            return -1
        most = int(np.argmax(self.allocated))
        return most if self.allocated[most] > self.first_allocated else -1

    @property
    def peak_bytes(self) -> int:
        return max(self.first_allocated, int(self.allocated.max(initial=0)))

    def time_of(self, event: int) -> int:
        """When an event was, in ns; the beginning is that of the first."""
        return int(self.times_ns[max(event, 0)]) if len(self.times_ns) else 0

    def held_at(self, event: int) -> pl.DataFrame:
        """What is held after an event."""
        return self.held.filter((pl.col("begin") <= event) & (pl.col("end") > event))


@dataclass(frozen=True)
class MemoryHistory:
    devices: tuple[DeviceHistory, ...]
    stacks: Sequence[Sequence[int]] = ()
    frames: tuple[tuple[str, int, str], ...] = ()
    """File, line and function."""
    notes: tuple[Note, ...] = ()

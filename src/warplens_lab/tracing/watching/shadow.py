"""Shadow memory: who touched each element of a storage, so that races and uninitialised reads show.

Programs run one after another here and together on a GPU. So an element that two programs touch, one of them with a
plain store, is a race whatever the order in which they ran. Accesses are numbered; a program began at number `start`,
so an earlier number on an element belongs to another program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from warplens_lab.tracing.watching.patterns import Cells

LAST: Final = (1 << 31) - 1
Numbers = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Conflict:
    """Elements of one access that break a rule; `units` are their places, `earlier` the accesses they clash with."""

    kind: str
    units: npt.NDArray[np.int64]
    earlier: Numbers | None


class Area:
    """The units of a storage that an access touches; a unit is the smallest element of the storage's tensors."""

    def __init__(self, cells: Cells, first_unit: int, width: int) -> None:
        self.offsets: npt.NDArray[np.int64] | None = None
        if cells.offsets is not None:
            units = first_unit + cells.offsets * width
            self.offsets = units if width == 1 else (units[:, None] + np.arange(width)).reshape(-1)
            return
        self.first = first_unit + cells.start * width
        self.shape = cells.shape if width == 1 else (*cells.shape, width)
        self.strides = cells.strides if width == 1 else (*(stride * width for stride in cells.strides), 1)

    def of(self, memory: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Its part of `memory`: a view where the units are a grid, else a copy."""
        if self.offsets is not None:
            part: npt.NDArray[Any] = memory[self.offsets]
            return part
        if self.strides == (1,):
            line: npt.NDArray[Any] = memory[self.first : self.first + self.shape[0]]
            return line
        size = memory.itemsize
        steps = [stride * size for stride in self.strides]
        grid: npt.NDArray[Any] = np.ndarray(self.shape, memory.dtype, memory.data, self.first * size, steps)
        return grid

    def put(self, memory: npt.NDArray[Any], value: Any) -> None:
        if self.offsets is not None:
            memory[self.offsets] = value
        else:
            self.of(memory)[...] = value

    def units(self, chosen: Flags) -> npt.NDArray[np.int64]:
        """Positions of the chosen units; `chosen` has the shape that `of` gives."""
        if self.offsets is not None:
            selected: npt.NDArray[np.int64] = self.offsets[chosen]
            return selected
        positions = np.full(self.shape, self.first, np.int64)
        for axis, (size, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            steps = np.arange(size, dtype=np.int64) * stride
            positions += steps.reshape([-1 if dimension == axis else 1 for dimension in range(len(self.shape))])
        return positions[chosen]


class Shadow:
    """One storage's marks. Memory that is never marked costs nothing: pages of zeros come when they are written."""

    def __init__(self, units: int, undefined: Flags | None) -> None:
        self.size = units
        self.undefined = undefined
        self.last_writes: Numbers | None = None
        self.first_reads: Numbers | None = None
        """LAST minus the number of the first read, so that 0 is none and the greatest is the first."""
        self.first_atomics: Numbers | None = None
        """As of reads: that a program made an atomic itself does not hide another's before it."""
        self.unread: Flags | None = None
        """Written and not read since."""
        self.shared = np.zeros(units, bool)

    def load(self, area: Area, number: int, start: int) -> Iterator[Conflict]:
        yield from self._undefined(area)
        yield from self._written_before(area, start, "read_write_race")
        yield from self._first_before(area, start, "read_write_race", self.first_atomics)
        if self.first_reads is None:
            self.first_reads = np.zeros(self.size, np.int32)
        self._mark_first(area, self.first_reads, number, start)
        if self.unread is not None:
            area.put(self.unread, False)

    def store(self, area: Area, number: int, start: int) -> Iterator[Conflict]:
        yield from self._written_before(area, start, "write_write_race")
        yield from self._first_before(area, start, "write_write_race", self.first_atomics)
        yield from self._first_before(area, start, "read_write_race", self.first_reads)
        yield from self._overwritten(area, start)
        if self.last_writes is None:
            self.last_writes = np.zeros(self.size, np.int32)
        if self.unread is None:
            self.unread = np.zeros(self.size, bool)
        area.put(self.last_writes, number)
        area.put(self.unread, True)
        self._define(area)

    def atomic(self, area: Area, number: int, start: int) -> Iterator[Conflict]:
        yield from self._undefined(area)
        yield from self._written_before(area, start, "write_write_race")
        yield from self._first_before(area, start, "read_write_race", self.first_reads)
        if self.first_atomics is None:
            self.first_atomics = np.zeros(self.size, np.int32)
        self._mark_first(area, self.first_atomics, number, start)
        self._define(area)

    def flags(self) -> tuple[Flags, Flags]:
        """Units read and units written, by an atomic both."""
        atomic = _touched(self.first_atomics, self.size)
        return _touched(self.first_reads, self.size) | atomic, _touched(self.last_writes, self.size) | atomic

    def used_units(self) -> tuple[int, int, int, int]:
        """Units read, written, touched at all, and touched by more than one program."""
        read, written = self.flags()
        counts = (read, written, read | written, self.shared)
        read_units, written_units, unique, shared = (int(np.count_nonzero(flags)) for flags in counts)
        return read_units, written_units, unique, shared

    def _undefined(self, area: Area) -> Iterator[Conflict]:
        if self.undefined is not None:
            flags = area.of(self.undefined)
            if _any(flags):
                yield Conflict("uninitialised_read", area.units(flags), None)

    def _define(self, area: Area) -> None:
        if self.undefined is not None:
            area.put(self.undefined, False)

    def _written_before(self, area: Area, start: int, kind: str) -> Iterator[Conflict]:
        if self.last_writes is None:
            return
        numbers = area.of(self.last_writes)
        clash = (numbers > 0) & (numbers < start)
        if _any(clash):
            self._share(area, clash)
            yield Conflict(kind, area.units(clash), numbers[clash])

    def _overwritten(self, area: Area, start: int) -> Iterator[Conflict]:
        """What this program has stored itself and nobody has read."""
        if self.last_writes is None or self.unread is None:
            return
        numbers = area.of(self.last_writes)
        lost = (numbers >= start) & area.of(self.unread)
        if _any(lost):
            yield Conflict("overwritten_store", area.units(lost), numbers[lost])

    def _first_before(self, area: Area, start: int, kind: str, firsts: Numbers | None) -> Iterator[Conflict]:
        if firsts is None:
            return
        numbers = area.of(firsts)
        clash = numbers > LAST - start
        if _any(clash):
            self._share(area, clash)
            yield Conflict(kind, area.units(clash), LAST - numbers[clash])

    def _mark_first(self, area: Area, firsts: Numbers, number: int, start: int) -> None:
        numbers = area.of(firsts)
        self._share(area, numbers > LAST - start)
        if area.offsets is None:
            np.maximum(numbers, LAST - number, out=numbers)
            return
        untouched = numbers == 0
        if _any(untouched):
            firsts[area.offsets[untouched]] = LAST - number

    def _share(self, area: Area, flags: Flags) -> None:
        if area.offsets is not None:
            if _any(flags):
                self.shared[area.offsets[flags]] = True
        else:
            view = area.of(self.shared)
            np.logical_or(view, flags, out=view)


def _any(flags: Flags) -> bool:
    """As `flags.any()`, which takes ten times as long on a block of a few hundred."""
    return b"\1" in flags.tobytes()


def _touched(marks: Numbers | None, size: int) -> Flags:
    flags: Flags = np.zeros(size, bool) if marks is None else marks != 0
    return flags

"""One launch while it runs: counts every operation and, on request, keeps it."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

import numpy as np
import numpy.typing as npt

from warplens_lab.tracing.records import NO_TENSOR, STRICT_FAULTS, AccessTotals, Events, Fault, Mode, NumberError
from warplens_lab.tracing.watching.checks import Access, Checks
from warplens_lab.tracing.watching.faults import FaultList, KernelFault, lane_text, program_text
from warplens_lab.tracing.watching.memory import Memory
from warplens_lab.tracing.watching.orders import NO_ORDER, Orders
from warplens_lab.tracing.watching.patterns import Book, LaneBlock
from warplens_lab.tracing.watching.sectors import Waiting
from warplens_lab.tracing.watching.shadow import Conflict
from warplens_lab.tracing.watching.sites import Sites
from warplens_run.base.errors import UsageError

Bools = npt.NDArray[np.bool_]
Pointers = npt.NDArray[np.uint64]
MOST_LANES_OF_A_LOCK = 32
NO_VALUES = np.zeros(0)
"""Of an operation between loads and stores: keeping all of them would take many times the tensors' memory."""

FIELDS_OF_AN_EVENT = 8
FIELDS_OF_TOTALS = 8
MODES = ("count", "record")
ON_OUT_OF_BOUNDS = ("mask", "raise")
SHADOWS = (None, "fp64")
OVERFLOW = "overflow detected"
"""How the interpreter's own check of integer results begins."""


@dataclass(frozen=True)
class RecordingOptions:
    """How launches are recorded; `trace` explains each."""

    mode: Mode = "record"
    sample: float | None = None
    seed: int = 0
    checks: bool = True
    values: bool = False
    out_of_bounds: str = "mask"
    stop_at_fault: bool = False
    strict: bool = False
    shadow: str | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UsageError(f"mode {self.mode!r}: there are {' and '.join(MODES)}")
        if self.out_of_bounds not in ON_OUT_OF_BOUNDS:
            raise UsageError(f"out_of_bounds {self.out_of_bounds!r}: there are {' and '.join(ON_OUT_OF_BOUNDS)}")
        if self.shadow not in SHADOWS:
            raise UsageError(f"shadow {self.shadow!r}: there is {SHADOWS[1]}")
        sample = self.sample
        if sample is not None and (not sample > 0 or (sample > 1 and sample != int(sample))):
            raise UsageError(f"sample {sample}: a whole number of programs, or a share between 0 and 1")
        if self.values and self.mode != "record":
            raise UsageError("values are kept only with mode 'record'")


class Recorder:
    """Called by the taps. `active` is False while a program outside the sample runs."""

    def __init__(self, options: RecordingOptions, outermost: CodeType) -> None:
        self.options = options
        self.grid = (1, 1, 1)
        self.chosen: frozenset[int] | None = None
        self.active = False
        self.memory = Memory()
        self.sites = Sites(outermost)
        self.book = Book(keep=options.mode == "record")
        self.faults = FaultList()
        self.checks = Checks(self, stop_outside=options.out_of_bounds == "raise")
        self.elementwise_flop = 0
        self.is_combining = False
        """Whether a reduction runs, whose operations are its own."""
        self.ordered_by_atomics = 0
        self.has_strays = False
        """Whether an access's pointers came from no argument, or from several: its tensor is only guessed."""
        self.values: list[tuple[str, npt.NDArray[Any]]] = []
        self.numbers: tuple[NumberError, ...] = ()
        """With a shadow: the errors of the outputs, and whether they grew most in a type of 16 bits or less."""
        self.narrow_growth = False
        self.switched_off = False
        """Whether the mask of the last access switched lanes off."""
        self.undefined: Bools | None = None
        """Lanes of the last load whose memory nothing has written."""
        self._totals: dict[tuple[int, str, int], list[int]] = {}
        self._waiting: dict[tuple[int, str, int], Waiting] = {}
        self._events = array("q")
        self._ops: dict[str, int] = {}
        self._shapes: dict[tuple[int, ...], int] = {}
        self._program = (0, 0, 0)
        self._program_number = 0
        self._number = 0
        self._start = 1
        self._starts: list[int] = []
        self._programs: list[tuple[int, int, int]] = []
        self._sites_of = array("i")
        self._ops_of = array("i")
        self._released: list[dict[int, int]] = []
        """For each program: its last releasing atomic on each address, of those that may be a lock."""
        self._acquired: set[int] = set()
        """Where the present program has made an acquiring one."""

    def begin_program(self, x: int, y: int, z: int) -> None:
        self._program_number = (x * self.grid[1] + y) * self.grid[2] + z
        self.active = self.chosen is None or self._program_number in self.chosen
        self._program = (x, y, z)
        if self.active:
            self._start = self._number + 1
            self._starts.append(self._start)
            self._programs.append(self._program)
            self._released.append({})
            self._acquired.clear()

    @property
    def traced_programs(self) -> int:
        return len(self._programs)

    @property
    def program(self) -> tuple[int, int, int]:
        return self._program

    def access(
        self,
        op: str,
        pointers: Pointers,
        mask: Bools,
        itemsize: int,
        tag: int | None,
        flop_per_lane: int = 0,
        orders: Orders = NO_ORDER,
        values: npt.NDArray[Any] | None = None,
    ) -> Bools | None:
        """Counts one load, store or atomic; gives the mask without lanes out of bounds where there are any.

        `values` are what a store stores.
        """
        site = self.sites.running()
        self.has_strays |= tag is None
        if mask.shape != pointers.shape:
            mask = np.broadcast_to(mask, pointers.shape)
        first = pointers.item(0) if pointers.size else 0
        block, pattern, mask_id = self.book.block(pointers, mask, itemsize)
        active = block.mask.active
        self.switched_off, self.undefined = not block.mask.whole, None
        tensor, storage = self.memory.owner(tag, first + block.cells.low * itemsize)
        safe = None
        checked = storage if self.options.checks else None
        access = None if checked is None else Access(site, op, tensor, checked, pointers, mask, itemsize, values)
        watched = access is not None and active > 0
        if storage is not None and access is not None and watched and not storage.holds(first, block.cells, itemsize):
            safe = self.checks.drop_outside(access, tag)
            if safe is not None:
                block, pattern, mask_id = self.book.block(pointers, safe, itemsize)
                active = block.mask.active
                mask = safe
                access = replace(access, mask=safe)
            watched = active > 0 and storage.holds(first, block.cells, itemsize)
        key = (site, op, tensor)
        sectors = self._sectors(key, block, pointers, mask, storage.start if storage is not None else 0)
        self._count(key, block, sectors, flop_per_lane)
        base = (first - storage.start) // itemsize if storage is not None else first
        self._keep(op, site, tensor, base, pattern, mask_id, -1)
        if access is not None and watched:
            self.undefined = self.checks.mark(access, block, self._number, self._start)
            self._remember_lock(block, first, orders)
        elif access is not None and not active and safe is None:
            self.checks.tile(access)
        return safe

    def compute(self, op: str, shape: tuple[int, ...], flop: int) -> None:
        """Counts an operation that touches no memory."""
        site = self.sites.running()
        row = self._totals.setdefault((site, op, NO_TENSOR), [0] * FIELDS_OF_TOTALS)
        row[0] += 1
        row[7] += flop
        number = self._shapes.setdefault(shape, len(self._shapes))
        self._keep(op, site, NO_TENSOR, 0, -1, -1, number)

    def elementwise(self, op: str, shape: tuple[int, ...], flop: int) -> None:
        """Counts floating work on each element, an operation of its own unless a reduction does it."""
        self.elementwise_flop += flop
        if not self.is_combining:
            self.compute(op, shape, flop)
            self.keep_value("", NO_VALUES)

    def keep_value(self, dtype: Any, data: npt.NDArray[Any]) -> None:
        if self.options.values:
            self.values.append((str(dtype), np.array(data)))

    def broken_assertion(self, message: str, holds: Bools) -> None:
        """An assertion of the running statement. An overflow may be intended, so it is only reported."""
        kind = "integer_overflow" if OVERFLOW in message else "assertion"
        lane = tuple(int(index) for index in np.argwhere(~holds)[0])
        text = f"{program_text(self._program)}, lane {lane_text(lane)}: {message or 'the assertion does not hold'}"
        site, broken = self.sites.running(), int(np.count_nonzero(~holds))
        fault = Fault(kind, site, "assert", "", self._program, -1, lane, text, broken)
        self.report(fault, stop=kind == "assertion")

    def stop_at_last_fault(self) -> None:
        fault = self.faults.all()[-1]
        raise KernelFault(fault, self.sites.site(fault.site))

    def totals_so_far(self, op: str) -> list[AccessTotals]:
        return [AccessTotals(*key, *row) for key, row in self._totals.items() if key[1] == op]

    def totals(self) -> tuple[AccessTotals, ...]:
        for key, waiting in self._waiting.items():
            touched, fewest = waiting.counted()
            self._totals[key][5] += touched
            self._totals[key][6] += fewest
        return tuple(AccessTotals(*key, *row) for key, row in self._totals.items())

    def events(self) -> Events | None:
        if self.options.mode != "record":
            return None
        columns = np.array(self._events, np.int64).reshape(-1, FIELDS_OF_AN_EVENT).T
        program, op, site, tensor, base, pattern, mask, shape = (np.ascontiguousarray(column) for column in columns)
        return Events(tuple(self._ops), tuple(self._shapes), program, op, site, tensor, base, pattern, mask, shape)

    def _count(self, key: tuple[int, str, int], block: LaneBlock, sectors: tuple[int, int], flop_per_lane: int) -> None:
        lanes, active, itemsize = block.lanes, block.mask.active, block.pattern.itemsize
        row = self._totals.setdefault(key, [0] * FIELDS_OF_TOTALS)
        row[0] += 1
        row[1] += lanes
        row[2] += active
        row[3] += lanes * itemsize
        row[4] += active * itemsize
        row[5] += sectors[0]
        row[6] += sectors[1]
        row[7] += active * flop_per_lane

    def _sectors(
        self, key: tuple[int, str, int], block: LaneBlock, pointers: Pointers, mask: Bools, start: int
    ) -> tuple[int, int]:
        """Counted from the storage's start, because on a GPU every allocation begins on a sector."""
        if block.pattern.strides is not None:
            return block.sectors(pointers.item(0) - start if pointers.size else 0)
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = Waiting(block.pattern.itemsize, start)
        return waiting.add(pointers, None if block.mask.whole else mask)

    def _keep(self, op: str, site: int, tensor: int, base: int, pattern: int, mask: int, shape: int) -> None:
        self._number += 1
        number = self._ops.setdefault(op, len(self._ops))
        self._sites_of.append(site)
        self._ops_of.append(number)
        if self.options.mode == "record":
            self._events.extend((self._program_number, number, site, tensor, base, pattern, mask, shape))

    def report(self, fault: Fault, *, stop: bool = False) -> None:
        self.faults.add(fault)
        stops = self.options.stop_at_fault and (self.options.strict or fault.kind not in STRICT_FAULTS)
        if stop or stops:
            raise KernelFault(fault, self.sites.site(fault.site))

    def access_at(self, number: int) -> tuple[tuple[int, int, int], int, str]:
        """Program, statement and operation of an access by its number."""
        program = self._programs[bisect_right(self._starts, number) - 1]
        return program, self._sites_of[number - 1], tuple(self._ops)[self._ops_of[number - 1]]

    def unordered(self, conflict: Conflict, site: int) -> tuple[Any, Any]:
        """Units of a conflict that count, and the accesses they clash with.

        A program's own store counts where the same statement made it, another program's access where no atomic puts it
        before this one.
        """
        earlier: Any = conflict.earlier
        numbers = np.unique(earlier)
        if conflict.kind == "overwritten_store":
            counting = [number for number in numbers if self._sites_of[int(number) - 1] == site]
        else:
            counting = [number for number in numbers if not self._ordered(int(number))]
            self.ordered_by_atomics += int(not counting)
        chosen = np.isin(earlier, counting)
        return conflict.units[chosen], earlier[chosen]

    def _remember_lock(self, block: LaneBlock, first: int, orders: Orders) -> None:
        """Atomics on a few addresses may be a lock or a counter that orders programs; relaxed ones order nothing."""
        if orders is NO_ORDER or block.mask.active > MOST_LANES_OF_A_LOCK:
            return
        offsets = block.pattern.relative()[block.mask.lanes()]
        for offset in offsets.tolist():
            address = first + offset * block.pattern.itemsize
            if orders.releases:
                self._released[-1][address] = self._number
            if orders.acquires:
                self._acquired.add(address)

    def _ordered(self, number: int) -> bool:
        """Whether that access's program then released an address that this one has acquired before the present access.

        That is how a lock or a counter of arrivals orders two programs.
        """
        if not self._acquired:
            return False
        released = self._released[bisect_right(self._starts, number) - 1]
        return any(released.get(address, 0) >= number for address in self._acquired)

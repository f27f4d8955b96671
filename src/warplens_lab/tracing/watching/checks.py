"""What is wrong with an access: outside its tensor, undefined, in a race, colliding with itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from warplens_lab.tracing.records import NO_TENSOR, Fault
from warplens_lab.tracing.watching.dependence import depends_on_data
from warplens_lab.tracing.watching.faults import (
    FaultList,
    Spot,
    out_of_bounds_message,
    program_text,
    race_message,
    uninitialised_message,
    verb,
)
from warplens_lab.tracing.watching.memory import Memory, TensorStorage
from warplens_lab.tracing.watching.patterns import Book, LaneBlock
from warplens_lab.tracing.watching.places import coordinates, index_text, place_of_lane, size_text
from warplens_lab.tracing.watching.remedies import (
    ADVANCE,
    FEWER,
    INITIALISE,
    ONE_LANE,
    ONE_OWNER,
    Lane,
    bounds_remedy,
    kernel_locals,
)
from warplens_lab.tracing.watching.shadow import Area, Conflict
from warplens_lab.tracing.watching.sites import Sites
from warplens_lab.tracing.watching.stored_values import Stored

Bools = npt.NDArray[np.bool_]
Pointers = npt.NDArray[np.uint64]
OVERWRITTEN = "overwritten_store"
SAME_VALUE = "same_value_race"


@dataclass(frozen=True)
class Access:
    """A load, store or atomic on one storage; `values` are what a store stores."""

    site: int
    op: str
    tensor: int
    storage: TensorStorage
    pointers: Pointers
    mask: Bools
    itemsize: int
    values: npt.NDArray[Any] | None = None

    @property
    def stored(self) -> Stored | None:
        return None if self.values is None or self.op != "store" else Stored(self.pointers, self.mask, self.values)


class Reporter(Protocol):
    """What the checks ask of the launch that is recorded, and where they report."""

    memory: Memory
    sites: Sites
    book: Book
    faults: FaultList

    @property
    def program(self) -> tuple[int, int, int]: ...

    def report(self, fault: Fault, *, stop: bool = False) -> None: ...

    def access_at(self, number: int) -> tuple[tuple[int, int, int], int, str]: ...

    def unordered(self, conflict: Conflict, site: int) -> tuple[Any, Any]: ...


class Checks:
    """Looks at accesses as they happen, and reports to the recorder."""

    def __init__(self, recorder: Reporter, *, stop_outside: bool) -> None:
        self.recorder = recorder
        self.memory = recorder.memory
        self.stop_outside = stop_outside

    def drop_outside(self, access: Access, tag: int | None) -> Bools | None:
        """Reports the lanes outside the storage and gives the mask without them."""
        if tag is None:
            return None  # the pointer's origin is unknown: its lanes may belong to different tensors
        pointers, mask, storage, itemsize = access.pointers, access.mask, access.storage, access.itemsize
        outside = mask & ((pointers < storage.start) | (pointers > storage.end - itemsize))
        if not outside.any():
            return None
        lane = tuple(int(axis_index) for axis_index in np.argwhere(outside)[0])
        spot, info = self.spot(access.tensor, pointers, lane, itemsize), self.memory.tensors[access.tensor]
        limit = (storage.end - self.memory.start(access.tensor)) // itemsize
        size = size_text(info) if len(spot.place) > 1 else f"{limit} elements"
        message = out_of_bounds_message(self.recorder.program, access.op, spot, size, lane)
        remedy = ""
        if not self.recorder.faults.has("out_of_bounds", access.site, spot.tensor):
            first = self._element(access.tensor, pointers.item(0), itemsize)
            at = Lane(first, lane, self.recorder.book.pattern(pointers, itemsize))
            statement = self.recorder.sites.site(access.site).statement
            remedy = bounds_remedy(info, spot.index, at, kernel_locals(), statement)
        fault = self._fault("out_of_bounds", access, spot, message, int(outside.sum()), remedy)
        self.recorder.report(replace(fault, lane=lane), stop=self.stop_outside)
        safe: Bools = mask & ~outside
        return safe

    def mark(self, access: Access, block: LaneBlock, number: int, start: int) -> Bools | None:
        """Marks what is touched; gives the lanes of a load whose memory nothing has written, where there are any."""
        storage, itemsize, op = access.storage, access.itemsize, access.op
        first = access.pointers.item(0)
        stored = access.stored
        if stored is not None and block.collides:
            self._lanes_collide(access, stored)
        area = Area(block.cells, (first - storage.start) // storage.unit, itemsize // storage.unit)
        marking = {"load": storage.shadow.load, "store": storage.shadow.store}.get(op, storage.shadow.atomic)
        undefined = None
        for conflict in marking(area, number, start):
            if conflict.earlier is not None:
                self._clash(access, conflict, stored)
            elif op == "load":
                undefined = self._undefined_lanes(access)  # a fault only where it is used
            else:
                self._read_undefined(access, conflict)
        return undefined

    def tile(self, access: Access) -> None:
        """A block without an active lane: whether one of its lanes is in the tensor's memory at all."""
        pointers, storage = access.pointers, access.storage
        if not pointers.size or (pointers.min() < storage.end and pointers.max() >= storage.start):
            return
        if depends_on_data(self.recorder.sites.site(access.site)):
            return  # loaded values switch it off, and the address is of no account
        spot = self.spot(access.tensor, pointers, (0,) * pointers.ndim, access.itemsize)
        program = program_text(self.recorder.program)
        message = f"{program} {verb(access.op)} a block from {spot.text} on, which is wholly outside"
        self.recorder.report(self._fault("tile_outside", access, spot, message, pointers.size, FEWER))

    def spot(self, tensor: int, pointers: Pointers, lane: tuple[int, ...], itemsize: int) -> Spot:
        """The element that a lane points at."""
        if tensor == NO_TENSOR:
            return Spot(self.memory.name(tensor), int(pointers[lane]), (), self.memory.name(tensor))
        index = self._element(tensor, int(pointers[lane]), itemsize)
        first = self._element(tensor, pointers.item(0), itemsize)
        pattern = self.recorder.book.pattern(pointers, itemsize)
        return self._described(tensor, index, place_of_lane(self.memory.tensors[tensor], first, lane, pattern))

    def _described(self, tensor: int, index: int, place: tuple[int, ...] = ()) -> Spot:
        info = self.memory.tensors[tensor]
        return Spot(info.name, index, place or coordinates(info, index), index_text(info, index, place))

    def _element(self, tensor: int, address: int, itemsize: int) -> int:
        return (address - self.memory.start(tensor)) // itemsize

    def _fault(self, kind: str, access: Access, spot: Spot, message: str, elements: int, remedy: str) -> Fault:
        program = self.recorder.program
        fault = Fault(kind, access.site, access.op, spot.tensor, program, spot.index, (), message, elements)
        return replace(fault, place=spot.place, remedy=remedy)

    def _read_undefined(self, access: Access, conflict: Conflict) -> None:
        spot, elements = self._first_of(conflict.units, access)
        message = uninitialised_message(self.recorder.program, access.op, spot)
        remedy = INITIALISE.format(spot.tensor, self.recorder.sites.line(access.site))
        self.recorder.report(self._fault(conflict.kind, access, spot, message, elements, remedy))

    def _first_of(self, units: Any, access: Access) -> tuple[Spot, int]:
        """The element of the first unit, and how many elements the units are."""
        storage, itemsize = access.storage, access.itemsize
        index = self._element(access.tensor, storage.start + int(units[0]) * storage.unit, itemsize)
        return self._described(access.tensor, index), -(-len(units) // (itemsize // storage.unit))

    def _clash(self, access: Access, conflict: Conflict, stored: Stored | None) -> None:
        """Elements that the access touches after another: of another program, or of this one."""
        units, earlier = self.recorder.unordered(conflict, access.site)
        if not len(units):
            return
        kind = conflict.kind
        if stored is not None and kind in (OVERWRITTEN, "write_write_race"):
            changing = np.isin(units, stored.changing(units, access.storage.start, access.storage.unit))
            if changing.any():
                units, earlier = units[changing], earlier[changing]
            elif kind == OVERWRITTEN:
                return
            elif self.recorder.access_at(int(earlier[0]))[2] == "store":
                kind = SAME_VALUE
        spot, elements = self._first_of(units, access)
        program = self.recorder.program
        other, other_site, other_op = self.recorder.access_at(int(earlier[0]))
        if kind == OVERWRITTEN:
            message = (
                f"{program_text(program)} stores {spot.text} again, with another value, and nothing read the first"
            )
            self.recorder.report(self._fault(kind, access, spot, message, elements, ADVANCE))
            return
        message = race_message(program, access.op, spot, other, other_op, self.recorder.sites.line(other_site))
        message += "; both store the same value" if kind == SAME_VALUE else ""
        fault = self._fault(kind, access, spot, message, elements, ONE_OWNER)
        self.recorder.report(replace(fault, other_program=other, other_site=other_site))

    def _lanes_collide(self, access: Access, stored: Stored) -> None:
        clash = stored.colliding()
        if clash is None:
            return
        spot = self._described(access.tensor, self._element(access.tensor, clash[0], access.itemsize))
        program = program_text(self.recorder.program)
        message = f"{program} stores {spot.text} from several lanes, with different values"
        self.recorder.report(self._fault("lanes_collide", access, spot, message, clash[1], ONE_LANE))

    def _undefined_lanes(self, access: Access) -> Bools:
        """Lanes of a load that read memory which nothing has written."""
        storage, mask = access.storage, access.mask
        flags = storage.shadow.undefined
        lanes = np.zeros(access.pointers.shape, bool)
        if flags is None:
            return lanes
        units = (access.pointers[mask].astype(np.int64) - storage.start) // storage.unit
        undefined = flags[units]
        for later in range(1, access.itemsize // storage.unit):
            undefined = undefined | flags[units + later]
        lanes[mask] = undefined
        return lanes

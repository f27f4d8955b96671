"""What a trace of Triton kernels holds: frozen records, one `TracedLaunch` per launch, kept apart.

FLOPs, as counted here
    dot          2 × M × N × K per matrix product, whatever the element type (scaled products too).
    reduce       a reduction of n values to one is n − 1 combines, a scan of n values too; a combine costs the floating
                 operations in it, at least one. Integer reductions cost none. An atomic add of a floating value costs
                 one per active lane.
    elementwise  one per element of the result for every floating add, subtract, multiply, divide, remainder, minimum,
                 maximum, negation, absolute value, rounding and elementary function (exp, log, sqrt, …), two for a
                 fused multiply–add. Comparisons, selections, casts and integer work cost none.
They are what the programs execute, lanes that a mask later drops included: a padded tile costs its full size.

Bytes
    attempted    every lane of the access × element size.
    true         the lanes whose mask is set, inside the tensor. An atomic counts each lane once.
    unique       each byte of a tensor once, however often it is touched.
    shared       those touched by more than one program.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from warplens_lab.scenes.kernel_scene import AccessTotals as AccessTotals
from warplens_lab.scenes.kernel_scene import Events as Events
from warplens_lab.scenes.kernel_scene import Fault as Fault
from warplens_lab.scenes.kernel_scene import LaunchRecord, Mask, Pattern
from warplens_lab.scenes.kernel_scene import NumberError as NumberError
from warplens_lab.scenes.kernel_scene import Place as Place
from warplens_lab.scenes.kernel_scene import Reuse as Reuse
from warplens_lab.scenes.kernel_scene import Site as Site
from warplens_lab.scenes.kernel_scene import TensorInfo as TensorInfo

Array = npt.NDArray[np.generic]
Mode = Literal["count", "record"]

SECTOR_BYTES: Final = 32
WARP_LANES: Final = 32
NO_TENSOR: Final = -1
FAULT_KINDS: Final = {
    "out_of_bounds": "an address outside the memory of the tensor the pointer came from",
    "uninitialised_read": "a value that nothing has written since torch.empty made the tensor, and that reaches a "
    "store, an atomic, an address or a branch",
    "masked_lane_used": "a lane that a load's mask switched off without other=, whose undefined value reaches a store, "
    "an atomic, an address or a branch",
    "write_write_race": "an element stored by two programs without an atomic",
    "read_write_race": "an element stored by one program and read by another",
    "assertion": "a tl.device_assert that does not hold",
    "lanes_collide": "lanes of one store that write different values to one element",
    "integer_overflow": "an integer result that its type cannot hold",
    "same_value_race": "an element stored by two programs, both times with the same value",
    "overwritten_store": "a statement that stores to an element twice in one program, with different values and no "
    "read between them",
    "unread_input": "elements of an input that no program of any launch reads",
    "unwritten_output": "elements of an output that no program of any launch writes",
    "tile_outside": "an access whose whole block is outside the tensor, so that its mask switches all of it off",
    "lost_bits": "an output whose median error against the fp64 shadow is more than its type and work explain",
}
STRICT_FAULTS: Final = frozenset(
    ("same_value_race", "overwritten_store", "unread_input", "unwritten_output", "tile_outside", "lost_bits")
)
"""Notes that `--strict` makes faults."""
MAY_BE_INTENDED: Final = STRICT_FAULTS | {"integer_overflow"}
"""Reported, but not a failure: a hash wraps around on purpose, a masked lane may hold anything."""


def is_failure(fault: Fault, *, strict: bool = False) -> bool:
    return fault.kind not in MAY_BE_INTENDED or (strict and fault.kind in STRICT_FAULTS)


@dataclass(frozen=True)
class KeptValues:
    """Values kept on demand: one array per event (what was loaded, stored, reduced or multiplied; empty for elementwise
    operations), each tensor before and after.

    bfloat16 and float8 are kept as their bits; `values.decoded` makes numbers of them.
    """

    events: tuple[tuple[str, Array], ...]
    before: tuple[Array, ...]
    after: tuple[Array, ...]


@dataclass(frozen=True, kw_only=True)
class TracedLaunch(LaunchRecord):
    """One launch: what every traced program did."""

    called_from: tuple[Place, ...]
    tensors: tuple[TensorInfo, ...]
    elementwise_flop: int
    ordered_by_atomics: int = 0
    patterns: tuple[Pattern, ...] = ()
    masks: tuple[Mask, ...] = ()
    events: Events | None = None
    values: KeptValues | None = None

    @property
    def programs(self) -> int:
        x, y, z = self.grid
        return x * y * z

    @property
    def loaded_bytes(self) -> int:
        return sum(row.true_bytes for row in self.of("load"))

    @property
    def stored_bytes(self) -> int:
        return sum(row.true_bytes for row in self.of("store"))

    @property
    def atomic_bytes(self) -> int:
        return sum(row.true_bytes for row in self.accesses if row.op.startswith("atomic"))

    @property
    def true_bytes(self) -> int:
        return sum(row.true_bytes for row in self.accesses)

    @property
    def attempted_bytes(self) -> int:
        return sum(row.attempted_bytes for row in self.accesses)

    @property
    def unique_bytes(self) -> int | None:
        """None where nothing was checked, because nothing was marked then."""
        return sum(row.unique_bytes for row in self.reuse) if self.reuse else None

    @property
    def shared_bytes(self) -> int | None:
        return sum(row.shared_bytes for row in self.reuse) if self.reuse else None

    @property
    def dot_flop(self) -> int:
        return sum(row.flop for row in self.accesses if row.op.startswith("dot"))

    @property
    def reduce_flop(self) -> int:
        return sum(row.flop for row in self.accesses if row.op.startswith(("reduce_", "scan_", "atomic_")))

    @property
    def flop(self) -> int:
        return self.dot_flop + self.reduce_flop + self.elementwise_flop

    @property
    def flop_per_byte(self) -> float | None:
        """Arithmetic intensity as if no access hit a cache."""
        return self.flop / self.true_bytes if self.true_bytes else None

    @property
    def flop_per_unique_byte(self) -> float | None:
        """Arithmetic intensity as if every repeated access hit a cache: the most it can be."""
        return self.flop / self.unique_bytes if self.unique_bytes else None

    @property
    def masked_loads_percent(self) -> float | None:
        """Lanes of loads that a mask switches off, of all lanes of loads."""
        return _masked_percent(self.of("load"))

    @property
    def masked_stores_percent(self) -> float | None:
        """The same of stores; atomics are neither."""
        return _masked_percent(self.of("store"))

    @property
    def active_lanes_percent(self) -> float | None:
        """Lanes of loads, stores and atomics whose mask is set, of all of them."""
        rows = [row for row in self.accesses if row.tensor != NO_TENSOR or row.lanes]
        lanes = sum(row.lanes for row in rows)
        return 100 * sum(row.active_lanes for row in rows) / lanes if lanes else None

    @property
    def sector_percent(self) -> float | None:
        """Sectors that would do, of those touched: 100 is fully coalesced."""
        touched = sum(row.sectors for row in self.accesses)
        return 100 * sum(row.minimum_sectors for row in self.accesses) / touched if touched else None

    def of(self, op: str) -> Iterable[AccessTotals]:
        return (row for row in self.accesses if row.op == op)

    def program_ids(self, program: int) -> tuple[int, int, int]:
        """Coordinates of a program number as `Events.program` has it."""
        _, y, z = self.grid
        return program // (y * z), program // z % y, program % z


def is_elementwise(op: str) -> bool:
    """Whether an operation is one on each element, which touches no memory and combines nothing."""
    return op not in ("load", "store") and not op.startswith(("atomic_", "reduce_", "scan_", "dot"))


def _masked_percent(accesses: Iterable[AccessTotals]) -> float | None:
    rows = list(accesses)
    lanes = sum(row.lanes for row in rows)
    return 100 * (lanes - sum(row.active_lanes for row in rows)) / lanes if lanes else None


@dataclass(frozen=True, repr=False)
class KernelTrace:
    """All launches of a traced run, in order."""

    mode: Mode
    triton: str
    seed: int
    sample: float | None
    launches: tuple[TracedLaunch, ...]

    def __repr__(self) -> str:
        """One line: all records of a run would fill screens."""
        return f"<KernelTrace of {len(self.launches)} launches, {len(self.faults)} faults>"

    @property
    def faults(self) -> tuple[tuple[TracedLaunch, Fault], ...]:
        return tuple((launch, fault) for launch in self.launches for fault in launch.faults)

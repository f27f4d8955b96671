"""The records of traced kernel launches: what a trace holds, and what a page adds to it.

A page shows the records of the trace itself. Only what is cut to fit (`SceneTensor`, `SceneEvents`) or worked out for
it (`LaunchFacts`) is a record of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.generic]
"""Integers or floating numbers as people read them, not bits of a type that NumPy lacks."""
ProgramId = tuple[int, int, int]
Place = tuple[str, int, str]
"""File, line and function."""


@dataclass(frozen=True)
class TensorInfo:
    """A tensor argument; strides and offset in elements. Arguments with one `storage` share memory."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    storage: int
    storage_bytes: int
    itemsize: int


@dataclass(frozen=True)
class Site:
    """A statement of the kernel; `path` leads from the kernel's own line to this one, through device functions."""

    file: str
    line: int
    function: str
    statement: str
    path: tuple[Place, ...]


@dataclass(frozen=True)
class AccessTotals:
    """What one statement did to one tensor in one launch; `tensor` is -1 for what only computes.

    Sectors are those of a GPU's memory: 32 bytes, counted per warp of 32 lanes. Lanes are taken in the order of the
    dimension with the smallest stride, one element each, as the compiler lays out a coalesced access; where offsets
    are not a regular grid, in the order of the block's elements.
    """

    site: int
    op: str
    tensor: int
    accesses: int = 0
    lanes: int = 0
    active_lanes: int = 0
    attempted_bytes: int = 0
    true_bytes: int = 0
    sectors: int = 0
    minimum_sectors: int = 0
    flop: int = 0


@dataclass(frozen=True)
class Fault:
    """One mistake of one statement, at its first occurrence; `elements` and `programs` say how often it happened.

    `index` is the element's place counted from the tensor's first element, `place` its indices by dimension, where
    the strides give them; `lane` is its place in the block. `remedy` says what to change.
    """

    kind: str
    site: int
    op: str
    tensor: str
    program: ProgramId
    index: int
    lane: tuple[int, ...]
    message: str
    elements: int = 1
    programs: int = 1
    other_program: ProgramId | None = None
    other_site: int | None = None
    place: tuple[int, ...] = ()
    remedy: str = ""


@dataclass(frozen=True)
class NumberError:
    """How far the elements that a launch wrote to one tensor are from an fp64 shadow that ran beside it.

    Errors are in units in the last place (ulps) of the tensor's type; `place` is the element with the largest. `site`
    is the statement at which the error grew most (-1: none), `growth_percent` its part of all growth. `judged_ulps`
    is the median in ulps of the coarsest type among this tensor and the inputs.
    """

    tensor: str
    dtype: str
    elements: int
    largest_ulps: float
    median_ulps: float
    judged_dtype: str
    judged_ulps: float
    place: tuple[int, ...]
    value: float
    shadow: float
    site: int
    growth_percent: float


@dataclass(frozen=True)
class Reuse:
    """How the memory of one storage was used; the names are the arguments that share it."""

    tensors: tuple[str, ...]
    read_bytes: int
    written_bytes: int
    unique_bytes: int
    shared_bytes: int


@dataclass(frozen=True)
class Events:
    """Every operation of every traced program in the order it ran, one per row.

    `program` is x·ny·nz + y·nz + z; `op` indexes `ops`; `base` is the first lane's element, counted from the start of
    the storage; `pattern` and `mask` index the launch's lists (-1 for what only computes); `shape` indexes `shapes`,
    a dot's (batch…, M, N, K), a reduction's input or an elementwise operation's result.
    """

    ops: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    program: Ints
    op: Ints
    site: Ints
    tensor: Ints
    base: Ints
    pattern: Ints
    mask: Ints
    shape: Ints

    def __len__(self) -> int:
        return len(self.program)


@dataclass(frozen=True)
class PatternFacts:
    """A pattern of offsets without its array. `strides` are those of a grid; None where offsets are one by one."""

    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None


@dataclass(frozen=True)
class Pattern(PatternFacts):
    """Offsets of a block's lanes from its first lane, in elements: a grid (`strides`) or one by one (`offsets`)."""

    offsets: Ints | None = None

    def relative(self) -> Ints:
        """Every lane's offset, in the shape of the block."""
        if self.strides is None:
            assert self.offsets is not None
            return self.offsets.reshape(self.shape)
        total = np.zeros(self.shape, np.int64)
        for axis, (size, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            steps = np.arange(size, dtype=np.int64) * stride
            total += steps.reshape([-1 if other == axis else 1 for other in range(len(self.shape))])
        return total


@dataclass(frozen=True)
class MaskFacts:
    """A mask without its bits; `active` is the number of active lanes."""

    shape: tuple[int, ...]
    active: int
    box: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True)
class Mask(MaskFacts):
    """Which lanes are active: all (`box` and `bits` None), a box of them ([low, high) per dimension), or bit by bit."""

    bits: bytes | None = None

    @property
    def whole(self) -> bool:
        return self.box is None and self.bits is None

    def lanes(self) -> npt.NDArray[np.bool_]:
        if self.bits is not None:
            size = int(np.prod(self.shape, dtype=np.int64))
            unpacked = np.unpackbits(np.frombuffer(self.bits, np.uint8), count=size)
            return unpacked.astype(bool).reshape(self.shape)
        if self.box is None:
            return np.ones(self.shape, bool)
        chosen = np.zeros(self.shape, bool)
        chosen[tuple(slice(low, high) for low, high in self.box)] = True
        return chosen


@dataclass(frozen=True, kw_only=True)
class LaunchRecord:
    """What a trace and a page say alike of a launch. With a sample, all numbers are of the traced programs only."""

    index: int
    kernel: str
    file: str
    line: int
    grid: ProgramId
    traced_programs: int
    constants: tuple[tuple[str, str], ...]
    sites: tuple[Site, ...]
    accesses: tuple[AccessTotals, ...]
    reuse: tuple[Reuse, ...]
    faults: tuple[Fault, ...]
    numbers: tuple[NumberError, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SceneSource:
    """The text of one function of the kernel, from `line` on."""

    file: str
    line: int
    text: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TensorFacts(TensorInfo):
    """A tensor on a page: `written` where the launch changed its memory."""

    written: bool


@dataclass(frozen=True, kw_only=True)
class SceneTensor(TensorFacts):
    """With its values, where there is room for them; `after` is None as well where nothing changed it."""

    before: Numbers | None = None
    after: Numbers | None = None


@dataclass(frozen=True, kw_only=True)
class SceneEvents(Events):
    """Operations and the values that are kept of them; `value` numbers these (-1: none)."""

    value: Ints
    values: tuple[Numbers, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LaunchFacts(LaunchRecord):
    """A launch on a page."""

    called_from: str
    """File and line of the launch; empty where unknown."""
    totals: dict[str, float | None]
    """By name: bytes, FLOPs, shares in percent, intensities; None where unknown."""
    operands: tuple[tuple[tuple[int, ...], ...], ...]
    """Per statement: of a matrix product, the statements that load its two factors, where known."""
    sources: tuple[SceneSource, ...]


@dataclass(frozen=True, kw_only=True)
class SceneLaunch(LaunchFacts):
    """With the arrays of its tensors and operations."""

    tensors: tuple[SceneTensor, ...]
    patterns: tuple[Pattern, ...] = ()
    masks: tuple[Mask, ...] = ()
    events: SceneEvents | None = None


@dataclass(frozen=True)
class KernelScene:
    """Launches to show, in order."""

    title: str
    triton: str
    mode: str
    sampling: str
    """How programs were chosen, in words; empty where all were traced."""
    launches: tuple[SceneLaunch, ...]
    notes: tuple[str, ...] = ()
    fault_kinds: dict[str, str] = field(default_factory=dict)
    """What each kind of fault means."""

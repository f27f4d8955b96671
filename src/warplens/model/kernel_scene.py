"""What a page draws of traced kernel launches: plain records and arrays, whoever made them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.generic]
"""Integers or floating numbers as people read them, not bits of a type that NumPy lacks."""
ProgramId = tuple[int, int, int]


@dataclass(frozen=True)
class SceneTensor:
    """A tensor argument; strides and offset in elements. Tensors with one `storage` share memory."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    storage: int
    itemsize: int
    written: bool
    before: Numbers | None = None
    after: Numbers | None = None
    """None as well where nothing changed it."""


@dataclass(frozen=True)
class Pattern:
    """Offsets of a block's lanes from its first lane, in elements: a grid (`strides`) or one by one (`offsets`)."""

    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
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
class Mask:
    """Which lanes are active: all (`box` and `bits` None), a box of them ([low, high) per dimension), or bit by bit."""

    shape: tuple[int, ...]
    active: int
    box: tuple[tuple[int, int], ...] | None = None
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


@dataclass(frozen=True)
class SceneSite:
    """A statement. Of a matrix product, `operands` are the statements that load its two factors, where known."""

    file: str
    line: int
    function: str
    statement: str
    path: tuple[tuple[str, int, str], ...]
    operands: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class SceneSource:
    """The text of one function of the kernel, from `line` on."""

    file: str
    line: int
    text: tuple[str, ...]


@dataclass(frozen=True)
class SceneAccess:
    """What one statement did to one tensor (-1: to none) in all traced programs."""

    site: int
    op: str
    tensor: int
    accesses: int
    lanes: int
    active_lanes: int
    true_bytes: int
    sectors: int
    minimum_sectors: int
    flop: int


@dataclass(frozen=True)
class SceneReuse:
    """Memory that one or more arguments share, and how it was used."""

    tensors: tuple[str, ...]
    loaded_bytes: int
    read_bytes: int
    written_bytes: int
    unique_bytes: int
    shared_bytes: int


@dataclass(frozen=True)
class SceneFault:
    kind: str
    meaning: str
    site: int
    tensor: str
    program: ProgramId
    index: int
    message: str
    elements: int
    programs: int
    other_program: ProgramId | None = None


@dataclass(frozen=True)
class SceneEvents:
    """Every operation of every traced program, one per row; `value` numbers the kept values (-1: none)."""

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
    value: Ints
    values: tuple[Numbers, ...] = ()


@dataclass(frozen=True)
class SceneLaunch:
    """One launch; its totals are of the traced programs."""

    index: int
    kernel: str
    file: str
    line: int
    called_from: str
    grid: ProgramId
    traced_programs: int
    constants: tuple[tuple[str, str], ...]
    totals: tuple[tuple[str, float | None], ...]
    """By name: bytes, FLOPs, shares in percent, intensities; None where it is not known."""
    tensors: tuple[SceneTensor, ...]
    sites: tuple[SceneSite, ...]
    sources: tuple[SceneSource, ...]
    accesses: tuple[SceneAccess, ...]
    reuse: tuple[SceneReuse, ...]
    faults: tuple[SceneFault, ...]
    patterns: tuple[Pattern, ...] = ()
    masks: tuple[Mask, ...] = ()
    events: SceneEvents | None = None
    notes: tuple[str, ...] = ()


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

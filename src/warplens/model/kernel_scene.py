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
class ScenePattern:
    """Offsets of a block's lanes from its first one: a grid of steps, or one by one."""

    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    offsets: Ints | None = None


@dataclass(frozen=True)
class SceneMask:
    """Active lanes: all (neither `box` nor `bits`), [low, high) per dimension, or one bit each, highest first."""

    active: int
    box: tuple[tuple[int, int], ...] | None = None
    bits: bytes | None = None


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
    patterns: tuple[ScenePattern, ...] = ()
    masks: tuple[SceneMask, ...] = ()
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

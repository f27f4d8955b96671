"""Bank conflicts of shared memory: a model of the banks, for any way in which a tile lies in it.

A wavefront moves up to 128 bytes, four to each bank. Lanes that need different words of the same bank wait for
each other: a conflict of N means N passes more than one. Lanes that need the same word share it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warplens_lab.layouts.bases import Bases, Ints
from warplens_lab.layouts.memory import MATRIX_ROW_BYTES, Offsets

BANKS = 32
WORD_BYTES = 4
WIDEST_BITS = 128
MATRIX_ROWS = 8
"""`ldmatrix` reads eight rows of sixteen bytes at a time."""
MATRIX_TILE = 64
"""Rows and columns of a tile within which the places where a matrix begins repeat."""
NOBODY = -1


@dataclass(frozen=True)
class WarpAccess:
    """What warps read or write of a tile, before it is known where the tile's elements lie.

    `elements` has coordinates: instructions × lanes × elements of a lane × dimensions, -1 where a lane does nothing.
    """

    name: str
    elements: Ints
    warps: Ints
    """The warp of each instruction."""
    is_matrix: bool = False
    """`ldmatrix`: a lane's elements must be adjacent."""
    registers: Bases | None = None
    """The register layout that it follows: which of a lane's elements go together depends on the memory."""


@dataclass(frozen=True)
class Wavefronts:
    """An access to a tile in memory, instruction by instruction and pass by pass."""

    elements: Ints
    """Instructions × lanes × elements that a lane moves at once × dimensions."""
    starts: Ints
    """Instructions × lanes: the byte where each begins, -1 where it does nothing."""
    lane_bytes: int
    warps: Ints
    words: Ints
    """Instructions × groups of lanes × banks: different words of each bank."""

    @property
    def lanes_together(self) -> int:
        """Lanes that one wavefront serves where no two of them conflict."""
        lanes, groups = int(self.starts.shape[1]), int(self.words.shape[1])
        return -(-lanes // max(groups, 1))

    @property
    def turns(self) -> Ints:
        """Instructions × groups: passes over the banks, 0 for lanes that do nothing."""
        most: Ints = self.words.max(axis=-1, initial=0)
        return most

    @property
    def passes(self) -> int:
        return int(self.turns.sum())

    @property
    def wavefronts(self) -> int:
        """The passes if no two lanes conflicted."""
        return int((self.turns > 0).sum())

    @property
    def conflicts(self) -> int:
        """The most extra passes of one wavefront."""
        return max(int(self.turns.max(initial=1)) - 1, 0)


def by_registers(bases: Bases, name: str = "") -> WarpAccess:
    """All that the threads of a block hold; registers that hold the same take one access."""
    own = Bases(tuple(vector for vector in bases.register if any(vector)), bases.lane, bases.warp)
    coordinates = own.coordinates()
    warps = np.arange(coordinates.shape[2], dtype=np.int64)
    return WarpAccess(name, coordinates.transpose(2, 1, 0, 3), warps, registers=own)


def by_matrices(shape: Sequence[int], order: Sequence[int], element_bits: int, name: str = "matrix") -> WarpAccess:
    """`ldmatrix`: eight rows of sixteen bytes each, at every place where a tile may begin."""
    across = max(MATRIX_ROW_BYTES * 8 // element_bits, 1)
    fast, slow = order[0], order[1]
    rows = np.arange(0, min(shape[slow], MATRIX_TILE) - MATRIX_ROWS + 1, MATRIX_ROWS)
    columns = np.arange(0, min(shape[fast], MATRIX_TILE) - across + 1, across)
    begins = np.array([(row, column) for row in rows for column in columns], np.int64).reshape(-1, 2)
    elements = np.zeros((len(begins), MATRIX_ROWS, across, len(shape)), np.int64)
    elements[..., slow] = begins[:, None, None, 0] + np.arange(MATRIX_ROWS)[None, :, None]
    elements[..., fast] = begins[:, None, None, 1] + np.arange(across)[None, None, :]
    return WarpAccess(name, elements, np.zeros(len(begins), np.int64), is_matrix=True)


def wavefronts(access: WarpAccess, offsets: Offsets, element_bits: int, banks: int = BANKS) -> Wavefronts | None:
    """The passes of an access; None where the memory does not allow it: a row of `ldmatrix` that is in pieces."""
    elements = _in_memory_order(access, offsets)
    places = offsets(elements)
    together = _adjacent(places, elements[..., 0] >= 0, element_bits)
    if access.is_matrix and together < elements.shape[2]:
        return None
    elements, places = _split(elements, together), _split(places, together)[..., 0]
    is_active = elements[:, :, 0, 0] >= 0
    starts = np.where(is_active, places * element_bits // 8, NOBODY)
    lane_bytes = max(together * element_bits // 8, 1)
    repeated = len(elements) // max(len(access.warps), 1)
    words = words_by_bank(starts, lane_bytes, banks)
    return Wavefronts(elements, starts, lane_bytes, np.repeat(access.warps, repeated), words)


def _in_memory_order(access: WarpAccess, offsets: Offsets) -> Ints:
    """A lane's registers in the order in which they lie in memory, as the compiler groups them."""
    if access.registers is None:
        return access.elements
    bases = access.registers
    in_order = sorted(bases.register, key=lambda vector: _offset(offsets, vector))
    return by_registers(Bases(tuple(in_order), bases.lane, bases.warp)).elements


def _adjacent(places: Ints, is_active: NDArray[np.bool_], element_bits: int) -> int:
    """How many elements of every lane are adjacent and aligned, up to 128 bits: what one instruction moves."""
    count = 1
    while 2 * count <= places.shape[2] and places.shape[2] % (2 * count) == 0:
        wider = 2 * count
        groups = places.reshape(*places.shape[:2], -1, wider)
        begins = groups[..., :1]
        is_row = (groups == begins + np.arange(wider)) & (begins % wider == 0)
        if wider * element_bits > WIDEST_BITS or not (is_row.reshape(places.shape) | ~is_active).all():
            break
        count = wider
    return count


def _split(values: Ints, together: int) -> Ints:
    """Instructions × lanes × elements … into one instruction for every `together` elements."""
    instructions, lanes, elements = values.shape[:3]
    parts = values.reshape(instructions, lanes, elements // together, together, *values.shape[3:])
    return np.swapaxes(parts, 1, 2).reshape(-1, lanes, together, *values.shape[3:])


def words_by_bank(starts: Ints, lane_bytes: int, banks: int) -> Ints:
    """Different words of each bank that each group of lanes needs: instructions × groups × banks."""
    instructions, lanes = starts.shape
    together = min(max(banks * WORD_BYTES // max(lane_bytes, WORD_BYTES), 1), lanes)
    groups = -(-lanes // together)
    reached = starts[:, :, None] + np.arange(0, lane_bytes, WORD_BYTES)
    words = np.where(starts[:, :, None] >= 0, reached // WORD_BYTES, NOBODY)
    wave = np.arange(instructions)[:, None] * groups + np.arange(lanes) // together
    waves = np.broadcast_to(wave[:, :, None], words.shape)[words >= 0]
    present = words[words >= 0]
    span = int(present.max(initial=0)) + 1
    distinct = np.unique(waves * span + present)
    slots = distinct // span * banks + distinct % span % banks
    return np.bincount(slots, minlength=instructions * groups * banks).reshape(instructions, groups, banks)


def vector_elements(offsets: Offsets, bases: Bases, element_bits: int) -> int:
    """How many elements of a thread are adjacent in shared memory for every lane, up to 128 bits."""
    elements = _in_memory_order(by_registers(bases), offsets)
    return _adjacent(offsets(elements), elements[..., 0] >= 0, element_bits)


def _offset(offsets: Offsets, vector: Sequence[int]) -> int:
    return int(offsets(np.array([vector], dtype=np.int64))[0])


def conflicts(offsets: Offsets, bases: Bases, element_bits: int, banks: int = BANKS) -> int:
    """The most extra passes that one wavefront of a load or store of shared memory takes."""
    found = wavefronts(by_registers(bases), offsets, element_bits, banks)
    return found.conflicts if found is not None else 0


def matrix_conflicts(offsets: Offsets, shape: Sequence[int], order: Sequence[int], element_bits: int) -> int | None:
    """The extra passes of `ldmatrix`; None where its rows are not adjacent in memory."""
    found = wavefronts(by_matrices(shape, order, element_bits), offsets, element_bits)
    return found.conflicts if found is not None else None

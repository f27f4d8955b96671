"""Bank conflicts of shared arrays: what each lane's address says, and what padded or swizzled rows would give."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from warplens_lab.cuda.lanes import Ints
from warplens_lab.cuda.memory import SHARED, MemoryAccess, matrices
from warplens_lab.facts.records import SharedAccess, SourcePlace
from warplens_lab.layouts.banks import BANKS, NOBODY, WORD_BYTES, words_by_bank

MOST_PADDING: Final = 8
"""Elements after each row; more are not tried."""
_MATRIX_LANES: Final = 8
UNKNOWN_ARRAY: Final = "shared memory"


@dataclass(frozen=True)
class SharedArray:
    """A shared array; `shape` is empty where the source's text does not say it."""

    name: str
    size_bytes: int
    shape: tuple[int, ...]

    @property
    def element_bytes(self) -> int:
        return self.size_bytes // int(np.prod(self.shape)) if self.shape else 0

    @property
    def row_bytes(self) -> int:
        return self.shape[-1] * self.element_bytes if len(self.shape) > 1 else 0

    def text(self) -> str:
        sides = "".join(f"[{side}]" for side in self.shape)
        return f"{self.name}{sides}"


def shared_arrays(sizes: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, SharedArray]:
    """By the compiler's name; a shape counts where it fits the array's size."""
    arrays = {}
    for compiled, size in sizes.items():
        name = plain_name(compiled)
        shape = shapes.get(name, ())
        elements = int(np.prod(shape)) if shape else 0
        fits = bool(elements) and size % elements == 0 and size > 0
        arrays[compiled] = SharedArray(name, size, shape if fits else ())
    return arrays


def plain_name(compiled: str) -> str:
    """
    >>> plain_name("_ZZ9transposePKfPfiE4tile"), plain_name("_ZZN2ns4copyEPfE3buf_0"), plain_name("dynamic")
    ('tile', 'buf', 'dynamic')
    """
    text = re.sub(r"_\d+$", "", compiled)
    if compiled.startswith("_Z"):
        for match in re.finditer(r"(?=(?<!\d)(\d{1,6})([A-Za-z_]\w{0,1000})$)", text):
            if int(match[1]) == len(match[2]):
                return match[2]
    return compiled


def shared_accesses(
    accesses: Sequence[MemoryAccess], arrays: Mapping[str, SharedArray], symbols: Mapping[str, str]
) -> tuple[SharedAccess, ...]:
    """One record per line, kind, array and width; `symbols` names the array behind an unknown of an address."""
    groups: dict[tuple[SourcePlace, str, str, int], list[MemoryAccess]] = {}
    for access in accesses:
        if access.space == SHARED and access.chain:
            groups.setdefault((access.chain[0], access.kind, _array(access, symbols), access.bits), []).append(access)
    return tuple(_access(key, groups[key], arrays.get(key[2])) for key in sorted(groups))


def _array(access: MemoryAccess, symbols: Mapping[str, str]) -> str:
    return next((symbols[name] for name, factor in access.address.terms if name in symbols and factor == 1), "")


def _access(
    key: tuple[SourcePlace, str, str, int], group: Sequence[MemoryAccess], array: SharedArray | None
) -> SharedAccess:
    place, kind, compiled, bits = key
    known = [access for access in group if access.address.is_known]
    row = array.row_bytes if array else 0
    element = array.element_bytes if array and array.shape else group[0].element_bits // 8
    turns = [_turns(access, lambda lanes: lanes) for access in known]
    plain = max(map(_extra, turns), default=None)
    padding, padded = _best_padding(known, row, element) if plain else (0, plain)
    return SharedAccess(
        place=place,
        kind=kind,
        layout=array.text() if array else plain_name(compiled) or UNKNOWN_ARRAY,
        shape=array.shape if array else (),
        element_bits=8 * element,
        vector_bits=bits,
        conflicts=plain,
        conflicts_unswizzled=plain,
        conflicts_padded=padded,
        padding=padding,
        conflicts_swizzled=_worst(known, _swizzled(row, bits // 8)) if plain and row else plain if not plain else None,
        in_loop=any(access.in_loop for access in group),
        allocated=array.shape if array else (),
        wavefronts=sum(int(passes.sum()) for passes in turns) if turns else None,
        wavefronts_needed=sum(int((passes > 0).sum()) for passes in turns) if turns else None,
    )


Moved = Callable[[Ints], Ints]
"""Offsets of lanes in an array → offsets in another layout of it."""


def _best_padding(group: Sequence[MemoryAccess], row: int, element: int) -> tuple[int, int | None]:
    """Elements to leave free after each row, the fewest that help most; none where no row is known."""
    if not row or not element:
        return 0, None
    counts = {pad: _worst(group, _padded(row, pad * element)) for pad in range(1, MOST_PADDING + 1)}
    known = {pad: count for pad, count in counts.items() if count is not None}
    best = min(known, key=lambda pad: (known[pad], pad), default=0)
    return best, known.get(best)


def _padded(row: int, padding: int) -> Moved:
    return lambda lanes: lanes + lanes // row * padding


def _swizzled(row: int, step: int) -> Moved:
    """Groups as wide as an access change places by an exclusive-or with the row's number."""
    if not row:
        return lambda lanes: lanes
    groups = max(row // step, 1)
    phases = 1 << (groups.bit_length() - 1)

    def moved(lanes: Ints) -> Ints:
        number, column = lanes // row, lanes % row
        return number * row + ((column // step) ^ (number % phases)) * step + column % step

    return moved


def _worst(group: Sequence[MemoryAccess], moved: Moved) -> int | None:
    """The most extra passes of any warp; None where no address is known."""
    return max((_extra(_turns(access, moved)) for access in group), default=None)


def _extra(turns: Ints) -> int:
    return int(turns.max(initial=1)) - 1


def _turns(access: MemoryAccess, moved: Moved) -> Ints:
    """Passes over the banks: warps × groups of lanes that one wavefront could serve; 0 where no lane is active."""
    lane_bytes = access.lanes_bytes
    active = access.active.copy()
    if access.kind.endswith("matrix"):
        active[:, _MATRIX_LANES * matrices(access.statement) :] = False
    # What is added to all lanes moves banks round, but a part of a word may move lanes into other words.
    is_whole = access.address.divided_by(WORD_BYTES) or lane_bytes >= WORD_BYTES
    shifts = (0,) if is_whole else tuple(range(0, WORD_BYTES, max(lane_bytes, 1)))
    addresses = moved(access.address.known)
    row = BANKS * WORD_BYTES
    addresses = addresses - min(int(addresses.min()) // row * row, 0)
    starts = (np.where(active, addresses + shift, NOBODY) for shift in shifts)
    shifted = [words_by_bank(begins, lane_bytes, BANKS).max(axis=-1, initial=0) for begins in starts]
    return max(shifted, key=lambda turns: (int(turns.max(initial=0)), int(turns.sum())))

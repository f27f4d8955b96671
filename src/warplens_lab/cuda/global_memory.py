"""Accesses of global memory by source line: widths, runs of neighbours, and sectors that a warp touches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from warplens_lab.cuda.lanes import Terms
from warplens_lab.cuda.memory import GLOBAL, MemoryAccess
from warplens_lab.cuda.source import CudaParameter
from warplens_lab.facts.locations import Frames
from warplens_lab.facts.records import Access

WIDEST_BITS: Final = 128
WORD_BITS: Final = 32
SECTOR_BYTES: Final = 32


def global_accesses(
    accesses: Sequence[MemoryAccess], parameters: Sequence[CudaParameter], threads: int
) -> tuple[Access, ...]:
    """One record per line, kind and pointer."""
    pointers = [parameter.name for parameter in parameters if parameter.is_pointer]
    groups: dict[tuple[Frames, str, str], list[MemoryAccess]] = {}
    for access in accesses:
        if access.space == GLOBAL and access.chain:
            argument = "|".join(name for name in pointers if name in access.address.sources)
            groups.setdefault((access.chain, access.kind, argument), []).append(access)
    return tuple(_access(key, groups[key], threads) for key in sorted(groups))


def _access(key: tuple[Frames, str, str], group: Sequence[MemoryAccess], threads: int) -> Access:
    chain, kind, argument = key
    widths = Counter(access.bits for access in group)
    width = max(widths, key=lambda bits: (widths[bits], bits))
    known = [access for access in group if access.address.is_known]
    counts = [sectors(access) for access in group if access.address.is_known or access.address.apart is not None]
    touched, needed = max(counts, key=lambda count: count[0] / max(count[1], 1), default=(None, None))
    return Access(
        place=chain[0],
        kind=kind,
        argument=argument,
        element=f"b{group[0].element_bits}",
        element_bits=group[0].element_bits,
        shape=(threads,),
        is_masked=any(not access.active.all() for access in group),
        is_indirect=any(access.address.reason == "data" for access in group),
        in_loop=any(access.in_loop for access in group),
        width_bits=width,
        narrowest_bits=min(widths),
        best_bits=max(width, _best_bits(known)) if kind in ("load", "store") else width,
        instructions=len(group),
        depends_on=tuple(sorted({name for access in group for name in access.address.sources})),
        undivided=(),
        undivided_address=(),
        callers=chain[1:],
        sectors=touched,
        sectors_needed=needed,
    )


def _best_bits(group: Sequence[MemoryAccess]) -> int:
    """What one instruction could move: neighbours that a thread accesses one by one, or that fill a word."""
    best = 0
    runs: dict[tuple[int, int, Terms, int, bytes], set[int]] = {}
    for access in group:
        address = access.address
        if not access.active.any():
            continue
        first = int(address.known[0, 0])
        apart = address.known - first
        key = (access.block, access.bits, address.terms, int(np.gcd.reduce(apart, axis=None)), apart.tobytes())
        runs.setdefault(key, set()).add(first)
        steps = np.diff(address.known, axis=1)
        if access.bits < WORD_BITS and bool((steps == access.lanes_bytes).all()):
            best = max(best, WORD_BITS)
    for (_, bits, _, stride, _), offsets in runs.items():
        best = max(best, _longest(sorted(offsets), bits // 8, stride) * bits)
    return min(best, WIDEST_BITS)


def _longest(offsets: Sequence[int], step: int, apart: int) -> int:
    """Neighbours in the longest run, as a power of two: so many a vector can have.

    All lanes are multiples of `apart` bytes from each other. Where that is no multiple of the vector's size, as with
    x[i] and x[i + 1] of thread i, some lanes' vectors would not be aligned.

    >>> _longest([0, 4, 8, 12, 16, 64], 4, 32), _longest([0, 128], 4, 0), _longest([0, 4], 4, 4), _longest([0, 4], 4, 0)
    (4, 1, 1, 2)
    """
    longest = run = 1
    for before, after in pairwise(offsets):
        run = run + 1 if after - before == step else 1
        longest = max(longest, run)
    count = 1 << (longest.bit_length() - 1)
    while count > 1 and apart % (count * step):
        count //= 2
    return count


def sectors(access: MemoryAccess) -> tuple[int, int]:
    """Sectors that a warp's access touches and that its bytes would fill, of the warp with the worst ratio.

    A pointer's own address, and what is added to all lanes of a warp, counts as a multiple of a sector, and what lanes
    are multiplied by, a stride that is not known, as larger than what is added.
    """
    worst = (0, 0)
    address = access.address
    offsets = address.known if address.offsets is None else address.offsets
    rows = np.zeros_like(offsets) if address.apart is None else address.apart
    for row, offset, active in zip(rows, offsets, access.active, strict=True):
        # Lanes that a branch leaves out count as well: the cause is the branch, not where they would access.
        lanes = set(zip(row.tolist(), offset.tolist(), strict=True))
        if not active.any():
            continue
        last = access.lanes_bytes - 1
        touched = {(far, near // SECTOR_BYTES) for far, begin in lanes for near in (begin, begin + last)}
        needed = -(-len(lanes) * access.lanes_bytes // SECTOR_BYTES)
        worst = max(worst, (len(touched), needed), key=lambda count: count[0] / max(count[1], 1))
    return worst

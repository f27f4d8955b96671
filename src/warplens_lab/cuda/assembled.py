"""Accesses as the assembler leaves them: of neighbours it makes one wide access, where it knows the alignment."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from warplens_lab.cuda.memory import GLOBAL, SHARED, MemoryAccess
from warplens_lab.facts.machine import Instruction

_WIDE = re.compile(r"\.(64|128)\b")
_CLASSES: Final = {
    "LDS": (SHARED, "load"),
    "STS": (SHARED, "store"),
    "LDG": (GLOBAL, "load"),
    "LD": (GLOBAL, "load"),
    "STG": (GLOBAL, "store"),
    "ST": (GLOBAL, "store"),
}
Line = tuple[str, int, str, str]
"""File, line, space and kind."""


def as_assembled(accesses: Sequence[MemoryAccess], machine: Sequence[Instruction]) -> list[MemoryAccess]:
    """Neighbours together where the machine code of their line has accesses that wide."""
    widest = _widest(machine)
    groups: dict[object, list[MemoryAccess]] = {}
    for at, access in enumerate(accesses):
        place = access.chain[0] if access.chain else None
        bits = widest.get((place.file, place.line, access.space, access.kind), 0) if place else 0
        address = access.address
        if bits <= access.bits or not address.is_known:
            groups[at] = [access]
            continue
        shape = (address.known - address.known[0, 0]).tobytes()
        groups.setdefault((place, access.kind, access.block, access.bits, bits, address.terms, shape), []).append(
            access
        )
    return [access for key, group in groups.items() for access in _joined(key, group)]


def _widest(machine: Sequence[Instruction]) -> dict[Line, int]:
    widest: dict[Line, int] = {}
    for instruction in machine:
        kind = _CLASSES.get(instruction.name.partition(".")[0])
        match = _WIDE.search(instruction.name)
        place = instruction.place
        if kind and match and place is not None:
            line = (place.file, place.line, *kind)
            widest[line] = max(widest.get(line, 0), int(match[1]))
    return widest


def _joined(key: object, group: Sequence[MemoryAccess]) -> list[MemoryAccess]:
    """One access for as many neighbours as the wide one holds, from a multiple of its size on."""
    if not isinstance(key, tuple):
        return list(group)
    own, wide = group[0].bits // 8, int(key[4]) // 8
    by_offset = {int(access.address.known[0, 0]): access for access in group}
    joined: list[MemoryAccess] = []
    done: set[int] = set()
    for offset, access in sorted(by_offset.items()):
        parts = range(offset, offset + wide, own)
        if offset % wide == 0 and all(part in by_offset for part in parts):
            done.update(parts)
            joined.append(replace(access, bits=8 * wide))
        elif offset not in done:
            joined.append(access)
    return joined

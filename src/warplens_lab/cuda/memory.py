"""Every load, store, copy and atomic of a kernel's PTX: where it goes, how wide it is, and each lane's address."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from warplens_lab.cuda.activity import Activity, Mask
from warplens_lab.cuda.evaluating import Evaluation
from warplens_lab.cuda.lanes import Value
from warplens_lab.cuda.operands import immediate
from warplens_lab.cuda.ptx import Statement
from warplens_lab.facts.locations import Frames, users_place

GLOBAL: Final = "global"
SHARED: Final = "shared"
_KINDS: Final = {
    "ld": "load",
    "ldu": "load",
    "st": "store",
    "atom": "atomic",
    "red": "atomic",
    "ldmatrix": "load matrix",
    "stmatrix": "store matrix",
}
_OTHER_SPACES: Final = (".param", ".local", ".const")
_TYPE = re.compile(r"\.(?:[bufs]|bf|tf)(8|16|32|64|128)(x2)?\b")
_VECTOR = re.compile(r"\.v(\d)\b")
_MATRICES = re.compile(r"\.x(\d)\b")
MATRIX_ROW_BITS: Final = 128


@dataclass(frozen=True)
class MemoryAccess:
    statement: Statement
    block: int
    space: str
    kind: str
    element_bits: int
    bits: int
    """That a lane moves."""
    address: Value
    active: Mask
    in_loop: bool

    @property
    def chain(self) -> Frames:
        """The user's line and the calls that lead to it."""
        frames = self.statement.frames
        first = users_place(frames)
        return () if first is None else tuple(frames[frames.index(first) :])

    @property
    def lanes_bytes(self) -> int:
        return self.bits // 8


def memory_accesses(evaluation: Evaluation, activity: Activity) -> Iterator[MemoryAccess]:
    flow = evaluation.flow
    for block in flow.order:
        for statement in flow.blocks[block].statements:
            for space, kind, bits, vector, operand in _parts(statement):
                yield MemoryAccess(
                    statement,
                    block,
                    space,
                    kind,
                    bits,
                    bits * vector,
                    evaluation.address(operand, block, statement),
                    activity.of(block, statement),
                    flow.in_loop(block),
                )


def _parts(statement: Statement) -> Iterator[tuple[str, str, int, int, str]]:
    """Space, kind, bits of an element, elements and address operand; two of them for a copy."""
    base, name = statement.base, statement.name
    addresses = [operand for operand in statement.operands if operand.startswith("[")]
    if name.startswith("cp.async.") and ".bulk" not in name and len(addresses) == 2:
        bits = 8 * (immediate(statement.operands[2].strip()) or 0)
        yield SHARED, "async copy", bits, 1, addresses[0]
        yield GLOBAL, "async copy", bits, 1, addresses[1]
        return
    if base not in _KINDS or not addresses or any(space in name for space in _OTHER_SPACES):
        return
    space = SHARED if ".shared" in name else GLOBAL
    if base in ("ldmatrix", "stmatrix"):
        yield SHARED, _KINDS[base], MATRIX_ROW_BITS, 1, addresses[0]
        return
    match, vector = _TYPE.search(name), _VECTOR.search(name)
    bits = int(match[1]) * (2 if match[2] else 1) if match else 0
    if bits:
        yield space, _KINDS[base], bits, int(vector[1]) if vector else 1, addresses[0]


def matrices(statement: Statement) -> int:
    match = _MATRICES.search(statement.name)
    return int(match[1]) if match else 1

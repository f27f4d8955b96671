"""Which PTX statements are barriers of the threads of a block, and which operands say the number and the threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from warplens_lab.cuda.ptx import Statement
from warplens_lab.facts.locations import users_place
from warplens_lab.facts.records import SourcePlace

SYNC: Final = "sync"
ARRIVE: Final = "arrive"
REDUCE: Final = "reduce"
_KINDS: Final = {"sync": SYNC, "arrive": ARRIVE, "red": REDUCE}
_OTHERS: Final = ("warp", "cluster")
"""Barriers of the lanes of a warp and of the blocks of a cluster."""


@dataclass(frozen=True)
class BarrierSite:
    kind: str
    number: str
    """An operand; "" where there is none."""
    threads: str
    """An operand; "" for all threads of the block."""
    place: SourcePlace
    """In the kernel: of a helper that holds the barrier, the call, which says whose barrier it is."""


def barrier_site(statement: Statement) -> BarrierSite | None:
    """None for any other statement, and for one without a line."""
    words = statement.name.split(".")
    if words[0] not in ("bar", "barrier") or any(word in words for word in _OTHERS):
        return None
    kind = next((_KINDS[word] for word in words[1:] if word in _KINDS), None)
    if kind is None or users_place(statement.frames) is None:
        return None
    operands = statement.operands[1:] if kind == REDUCE else statement.operands
    # What a reduction counts is no number of threads.
    number, threads = (*(operand for operand in operands if not operand.startswith(("%p", "!"))), "", "")[:2]
    outermost = statement.frames[-1]
    return BarrierSite(kind, number, threads, SourcePlace(outermost.file, outermost.line))

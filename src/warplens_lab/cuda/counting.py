"""Counters of loops that each lane begins at its own number: `for (i = threadIdx.x; i < 512; i += 32)`.

Lanes of a warp that take equal steps leave such a loop together where the bound lies between two turns for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Final

import numpy as np

from warplens_lab.cuda.lanes import Ints, Value

_MIRRORED: Final = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "lo": "hi", "hi": "lo", "ls": "hs", "hs": "ls"}
_BELOW: Final = ("lt", "lo", "ge", "hs")
_UP_TO: Final = ("le", "ls", "gt", "hi")
_UNSIGNED: Final = ("lo", "ls", "hi", "hs")


class Counters:
    """By the unknown that stands for a counter in the first lane: where lanes begin, and what divides all its steps."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Ints, int]] = {}

    def note(self, counter: Value, values: Sequence[Value]) -> None:
        """Of a register that holds these values in turn: one known beginning, and itself plus a number else."""
        name = counter.terms[0][0]
        beginnings = [value.known for value in values if value.is_concrete]
        others = [value for value in values if not value.is_concrete]
        self._known.pop(name, None)
        if not beginnings or any(not np.array_equal(other, beginnings[0]) for other in beginnings):
            return
        if any(value.terms != ((name, 1),) for value in others):
            return
        step = gcd(*(int(value.known[0, 0]) for value in others))
        if step:
            self._known[name] = (beginnings[0], step)

    def agree(self, name: str, operands: Sequence[Value]) -> bool:
        """Whether a comparison with a known number has one answer for all lanes of a warp, in every turn."""
        relation = name.split(".")[1]
        counted, bound = operands[:2]
        if counted.is_concrete:
            counted, bound, relation = bound, counted, _MIRRORED.get(relation, relation)
        if not (counted.is_known and bound.is_concrete and len(counted.terms) == 1 and counted.terms[0][1] == 1):
            return False
        if counted.terms[0][0] not in self._known:
            return False
        begin, step = self._known[counted.terms[0][0]]
        first = begin[:, :1] + counted.known
        if (relation in _UNSIGNED or ".u" in name) and min(int(first.min()), int(bound.known.min())) < 0:
            return False
        turn = _turn(relation, bound.known - first, step)
        return turn is not None and bool((turn == turn[:, :1]).all())


def _turn(relation: str, distance: Ints, step: int) -> Ints | None:
    """The turn from which on the answer is another; of equality the one in which it holds, -1 for never."""
    if relation in _BELOW:
        return -(-distance // step)
    if relation in _UP_TO:
        return distance // step + 1
    if relation in ("eq", "ne"):
        return np.where(distance % step == 0, distance // step, -1)
    return None

"""Which lanes of which warps get to each block of a kernel, as far as conditions on the thread's number decide it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warplens_lab.cuda.evaluating import Evaluation
from warplens_lab.cuda.flow import EXIT
from warplens_lab.cuda.ptx import Statement

Mask = npt.NDArray[np.bool_]


class Activity:
    """Conditions that depend on arguments or data let every lane through on both ways."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation
        flow = evaluation.flow
        nothing = np.zeros(evaluation.shape, np.bool_)
        self._masks: dict[int, Mask] = dict.fromkeys(flow.order, nothing)
        if flow.order:
            self._masks[flow.order[0]] = ~nothing
        changed = True
        while changed:
            changed = False
            for block in flow.order:
                for successor, mask in self._passed(block):
                    if successor != EXIT and (mask & ~self._masks[successor]).any():
                        self._masks[successor] = self._masks[successor] | mask
                        changed = True

    def _passed(self, block: int) -> list[tuple[int, Mask]]:
        own = self._evaluation.flow.blocks[block]
        mask = self._masks[block]
        jump = own.condition
        condition = self._evaluation.branches.get(block)
        if jump is None or not jump.guard or condition is None or not condition.is_concrete:
            return [(successor, mask) for successor in own.successors]
        jumps = (condition.known != 0) != jump.is_negated
        target, following = own.successors
        return [(target, mask & jumps), (following, mask & ~jumps)]

    def of(self, block: int, statement: Statement | None = None) -> Mask:
        mask = self._masks[block]
        if statement is None or not statement.guard:
            return mask
        guard = self._evaluation.value(statement.guard, block)
        return mask & ((guard.known != 0) != statement.is_negated) if guard.is_concrete else mask

    def warps(self, block: int) -> tuple[int, ...]:
        return tuple(int(warp) for warp in np.flatnonzero(self._masks[block].any(axis=1)))

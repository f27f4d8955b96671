"""Kernels of a replay ↔ launches of a capture: both are in the order of the stream, but either may have some more.

Where both have the same nodes, the n-th belongs to the n-th. Else the best alignment is found: names that are recorded
must be equal; a launch without a name (CUDA) takes a kernel of its kind, preferably of a family that its ops can
launch. What is left over belongs to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from warplens.model.kinds import NONE
from warplens.model.trace import Bools, Ints

NEVER: Final = -(10**6)
SAME_NAME, SAME_FAMILY, POSSIBLE, ODD = 4, 3, 1, -1
"""What a pair is worth: a name that is equal, a family that fits, one that says nothing, one that does not fit."""
MOST_CELLS: Final = 1 << 24
"""Of the table of partial alignments: four thousand launches against as many kernels."""
MOST_ODD: Final = 0.1
"""Share of the kernels of a known family that may not fit their ops where all else fits one to one."""


@dataclass(frozen=True)
class Nodes:
    """A sequence of launches or kernels: their kinds, names (-1: not recorded) and families."""

    kinds: Ints
    names: Ints
    families: Ints
    """Of a kernel the bit of its family, of a launch those that its ops can launch; 0 where that says nothing."""

    def __len__(self) -> int:
        return len(self.kinds)

    def part(self, first: int, last: int) -> Nodes:
        return Nodes(self.kinds[first:last], self.names[first:last], self.families[first:last])


class Alignment(NamedTuple):
    launch_of: Ints
    """For each kernel the number of its launch, -1 for none."""
    odd: int
    """Pairs whose families do not fit."""
    informative: int
    """Pairs with equal names or known families."""


def align(launches: Nodes, kernels: Nodes) -> Alignment | None:
    """None where both are too long, and too different, to be aligned."""
    if len(launches) == len(kernels):
        worth = _worth(launches, kernels)
        known = _is_informative(launches, kernels)
        if (worth > NEVER).all() and (worth == ODD).sum() <= MOST_ODD * max(1, known.sum()):
            return Alignment(np.arange(len(kernels)), int((worth == ODD).sum()), int(known.sum()))
    return _aligned(launches, kernels)


def _worth(launches: Nodes, kernels: Nodes) -> Ints:
    """What each pair is worth, of sequences of one length or of one launch with many kernels."""
    named = launches.names >= 0
    by_name = np.where(launches.names == kernels.names, SAME_NAME, NEVER)
    says_something = (launches.families != 0) & (kernels.families != 0)
    fits = (launches.families & kernels.families) != 0
    by_family = np.where(says_something, np.where(fits, SAME_FAMILY, ODD), POSSIBLE)
    return np.where(launches.kinds != kernels.kinds, NEVER, np.where(named, by_name, by_family))


def _is_informative(launches: Nodes, kernels: Nodes) -> Bools:
    known: Bools = (launches.names >= 0) | ((launches.families != 0) & (kernels.families != 0))
    return known


def _aligned(launches: Nodes, kernels: Nodes) -> Alignment | None:
    """Equal beginnings and ends need no table."""
    shorter = min(len(launches), len(kernels))
    same = _worth(launches.part(0, shorter), kernels.part(0, shorter)) == SAME_NAME
    head = int(np.argmin(np.append(same, False)))
    rest = shorter - head
    ends = len(launches), len(kernels)
    same = _worth(launches.part(ends[0] - rest, ends[0]), kernels.part(ends[1] - rest, ends[1])) == SAME_NAME
    tail = int(np.argmin(np.append(same[::-1], False)))
    middle = launches.part(head, ends[0] - tail), kernels.part(head, ends[1] - tail)
    if len(middle[0]) * len(middle[1]) > MOST_CELLS:
        return None
    inner = _by_table(*middle)
    launch_of = np.concatenate(
        [np.arange(head), np.where(inner >= 0, inner + head, NONE), np.arange(ends[0] - tail, ends[0])]
    )
    pairs = np.flatnonzero(launch_of >= 0)
    chosen = [Nodes(nodes.kinds[rows], nodes.names[rows], nodes.families[rows])
              for nodes, rows in ((launches, launch_of[pairs]), (kernels, pairs))]  # fmt: skip
    odd = int((_worth(*chosen) == ODD).sum())
    return Alignment(launch_of, odd, int(_is_informative(*chosen).sum()))


def _by_table(launches: Nodes, kernels: Nodes) -> Ints:
    """The alignment that is worth most, by dynamic programming: what is left out costs nothing."""
    best = np.zeros((len(launches) + 1, len(kernels) + 1), np.int32)
    for number in range(len(launches)):
        worth = _worth(launches.part(number, number + 1), kernels)
        taken = best[number, :-1] + worth
        # Without costs for what is left out, the best up to a kernel is the running maximum.
        np.maximum.accumulate(np.maximum(best[number, 1:], taken), out=best[number + 1, 1:])
    launch_of = np.full(len(kernels), NONE, np.int64)
    row, column = len(launches), len(kernels)
    while row and column:
        value = best[row, column]
        if value == best[row - 1, column]:
            row -= 1
        elif value == best[row, column - 1]:
            column -= 1
        else:
            row, column = row - 1, column - 1
            launch_of[column] = row
    return launch_of

"""Kernels of a replay ↔ launches of a capture: both are in the order of the stream, but either may have some more.

Where both have the same nodes, the n-th belongs to the n-th. Else the best alignment is found: names that are recorded
must be equal; a launch without a name (CUDA) takes a kernel of its kind, preferably of a family that its ops can
launch. What is left over belongs to nothing. Most of a first alignment is right, so it shows which kernels each op
usually launches; a second and a third one go by that too, and put right what stood beside the nodes that differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from warplens.model.kinds import NONE
from warplens.model.trace import Bools, Ints
from warplens.passes.graphs.likely import likely_pairs

NEVER: Final = -(10**6)
SAME_NAME, SAME_FAMILY, POSSIBLE, ODD = 4, 3, 1, -1
"""What a pair is worth: a name that is equal, a family that fits, one that says nothing, one that does not fit."""
MOST_CELLS: Final = 1 << 24
"""Of the table of partial alignments. Sequences of four thousand have a whole one; of longer ones it is the part
around the diagonal."""
LEAST_REACH: Final = 64
"""How far from the diagonal a table must reach at least, beyond what the sequences differ in length."""
USUAL: Final = 4
"""What a pair is worth besides, where the op launches nothing else."""
LIKELY: Final = 2
"""The same, where the kernel's name has the words of the op's."""
ROUNDS: Final = 3
MOST_ODD: Final = 0.1
"""Share of the kernels of a known family that may not fit their ops where all else fits one to one."""


class Nodes(msgspec.Struct, frozen=True):
    """A sequence of launches or kernels: their kinds, names (-1: not recorded) and families."""

    kinds: Ints
    names: Ints
    families: Ints
    """Of a kernel the bit of its family, of a launch those that its ops can launch; 0 where that says nothing."""
    words: Ints
    """What tells nodes apart that have no name: of a kernel its name, of a launch its op and its place in that."""
    texts: Mapping[int, str]
    """The name of the kernel or op of each word."""

    def __len__(self) -> int:
        return len(self.kinds)

    def part(self, first: int, last: int) -> Nodes:
        return self.at(slice(first, last))

    def at(self, places: Ints | slice) -> Nodes:
        return Nodes(self.kinds[places], self.names[places], self.families[places], self.words[places], self.texts)


class Alignment(msgspec.Struct, frozen=True):
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
    inner = _in_rounds(launches.part(head, ends[0] - tail), kernels.part(head, ends[1] - tail))
    if inner is None:
        return None
    launch_of = np.concatenate(
        [np.arange(head), np.where(inner >= 0, inner + head, NONE), np.arange(ends[0] - tail, ends[0])]
    )
    pairs = np.flatnonzero(launch_of >= 0)
    chosen = launches.at(launch_of[pairs]), kernels.at(pairs)
    return Alignment(launch_of, int((_worth(*chosen) == ODD).sum()), int(_is_informative(*chosen).sum()))


def _in_rounds(launches: Nodes, kernels: Nodes) -> Ints | None:
    """The best alignment, and the best with what it shows, until nothing changes."""
    reach = _reach(len(launches), len(kernels))
    if reach is None:
        return None
    words, of_launch = np.unique(launches.words, return_inverse=True)
    names, of_kernel = np.unique(kernels.words, return_inverse=True)
    likely = LIKELY * likely_pairs(
        [launches.texts[word] for word in words.tolist()], [kernels.texts[name] for name in names.tolist()]
    ).astype(np.int32)
    usual = likely
    found: Ints | None = None
    for _ in range(ROUNDS if (launches.names < 0).any() else 1):
        before, found = found, _by_table(launches, kernels, usual[of_launch], of_kernel, reach)
        if before is not None and np.array_equal(before, found):
            break
        pairs = np.flatnonzero(found >= 0)
        usual = likely + _usual(of_launch[found[pairs]], of_kernel[pairs], likely.shape)
    return found


def _usual(launched: Ints, ran: Ints, shape: tuple[int, ...]) -> npt.NDArray[np.int32]:
    """What each pair of op and kernel is worth, by how often it is among all pairs of either; once is an accident."""
    count = np.zeros(shape, np.int64)
    np.add.at(count, (launched, ran), 1)
    whole = np.minimum(count.sum(axis=1, keepdims=True), count.sum(axis=0, keepdims=True))
    worth: npt.NDArray[np.int32] = np.rint(USUAL * np.maximum(0, count - 1) / np.maximum(1, whole)).astype(np.int32)
    return worth


def _reach(launches: int, kernels: int) -> int | None:
    """How many kernels before and after the diagonal are looked at; None where those would be too few."""
    if launches * kernels <= MOST_CELLS:
        return kernels
    reach = MOST_CELLS // (2 * launches)
    return reach if reach >= LEAST_REACH + abs(launches - kernels) else None


def _by_table(launches: Nodes, kernels: Nodes, usual: npt.NDArray[np.int32], of_kernel: Ints, reach: int) -> Ints:
    """The alignment that is worth most, by dynamic programming: what is left out costs nothing.

    `best[row, place]` is of the first `row` launches and the first `first[row] + place` kernels.
    """
    count, size = len(launches), len(kernels)
    diagonal = np.arange(count + 1) * size // max(1, count)
    first, last = np.maximum(0, diagonal - reach), np.minimum(size, diagonal + reach)
    best = np.zeros((count + 1, int((last - first).max(initial=0)) + 1), np.int32)
    for row in range(count):
        begin, end = int(first[row + 1]), int(last[row + 1])
        above = best[row, begin - first[row] :]
        # Beyond the part that the row above has, its last value goes on.
        above = np.append(above[: end - begin + 1], np.full(max(0, end - begin + 1 - len(above)), above[-1]))
        looked_at = kernels.part(begin, end)
        worth = _worth(launches.part(row, row + 1), looked_at) + usual[row, of_kernel[begin:end]]
        own = above.copy()
        own[1:] = np.maximum(own[1:], above[:-1] + worth)
        # Without costs for what is left out, the best up to a kernel is the running maximum.
        best[row + 1, : len(own)] = np.maximum.accumulate(own)
        best[row + 1, len(own) :] = best[row + 1, len(own) - 1]
    return _way_back(best, first, last)


def _way_back(best: npt.NDArray[np.int32], first: Ints, last: Ints) -> Ints:
    launch_of = np.full(int(last[-1]), NONE, np.int64)
    row, column = len(first) - 1, int(last[-1])
    while row:
        column = min(column, int(last[row]))
        place, above = column - int(first[row]), column - int(first[row - 1])
        value = best[row, place]
        if value == best[row - 1, min(above, best.shape[1] - 1)]:
            row -= 1
        elif not place:
            break
        elif value == best[row, place - 1]:
            column -= 1
        else:
            row, column = row - 1, column - 1
            launch_of[column] = row
    return launch_of

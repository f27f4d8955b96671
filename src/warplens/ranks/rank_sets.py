"""Sets of ranks that belong together, from how far their moments are apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from warplens.analyses.graph.records import Floats
from warplens.model.trace import Bools, Ints

CLOSE_NS: Final = 2_000.0
"""Ends that differ by less may belong together."""
USUAL: Final = 4.0
"""So many times the usual distance of a rank to its nearest one is still close."""
LEAST_NS: Final = 500.0
NEAREST: Final = 1.5
"""Ranks whose distance is so many times that to their nearest one are surely together; those beyond it are apart."""
TOGETHER, HELD = 0.5, 0.1
"""Ends that differ by so much less than starts do are held together by a meeting."""
MANY: Final = 8
"""With fewer calls, two groups that run side by side cannot be told from one."""
NEXT: Final = 1.25
"""The second rank that a message may have come from has to be so many times as far away as the first."""


SURELY, HARDLY = 3.0, 2.5
"""Standard errors from which on a difference is one, and up to which it is none."""
SURELY_OF_FEW: Final = 4.0
"""The former, of fewer than twice `MANY` calls."""
MOST_MORE: Final = 10_000.0
"""In ns: one odd call counts no more than this."""


@dataclass(frozen=True)
class RankSets:
    """A number per rank: ranks with the same number belong together."""

    sure: Ints
    """Ranks that are surely together."""
    wide: Ints
    """Ranks that may be."""
    is_split: bool
    """Whether the sure sets are clearly apart."""

    @property
    def is_clear(self) -> bool:
        return self.is_split or len(np.unique(self.sure)) == len(np.unique(self.wide))

    @property
    def best(self) -> Ints:
        return self.sure if self.is_split else self.wide


def together(apart: Floats, begun: Floats, most: float, calls: int) -> RankSets:
    """Sets by how differently ends (`apart`) and starts (`begun`) of two ranks move on from call to call, in ns."""
    nearest = _nearest(apart)
    reach = NEAREST * np.maximum(np.maximum.outer(nearest, nearest), LEAST_NS)
    is_held = apart <= TOGETHER * begun
    sure = _components((apart <= np.minimum(reach, most)) & is_held)
    return RankSets(sure, _wide(apart, begun, most), _is_even(sure, apart) and calls >= MANY)


def apart_by_clocks(apart: Floats, begun: Floats, most: float) -> RankSets:
    """Sets by the distances of ends themselves: those of other groups are elsewhere in time."""
    wide = _wide(apart, begun, most)
    return RankSets(wide, wide, _is_even(wide, apart))


def pairs(apart: Floats, sends: Bools) -> RankSets:
    """Of each message's sender the receiver that is nearest, where each is the other's nearest by far.

    >>> apart = np.array([[0, 9, 1, 2], [9, 0, 2, 1], [1, 2, 0, 9], [2, 1, 9, 0.0]])
    >>> pairs(apart, np.array([True, True, False, False])).best.tolist()
    [0, 1, 0, 1]
    """
    across = np.where(sends[:, None] != sends[None, :], apart, np.inf)
    first = across.argmin(axis=1)
    nearest, following = np.sort(across, axis=1)[:, :2].T
    is_sure = np.isfinite(nearest) & (following >= NEXT * nearest)
    own = np.arange(len(apart))
    is_pair = is_sure & is_sure[first] & (first[first] == own)
    number = np.where(is_pair, np.minimum(own, first), own)
    return RankSets(number, number, bool(is_pair.sum() > 2))


def crossing(wide: RankSets, inner: Ints, ends: Floats) -> RankSets:
    """Sets that may be several in step with each other: those that take one rank of each inner set.

    Ranks that just met, as inner ones did, end whatever they do next at nearly the same time, though in other groups.
    Then ends differ a little more from one such group to the other than within each of them. Where that is not sure, no
    set is.
    """
    number = wide.best.copy()
    for each in np.unique(number).tolist():
        own = np.flatnonzero(number == each)
        members = [own[inner[own] == value] for value in np.unique(inner[own]).tolist()]
        sizes = {len(member) for member in members}
        if len(members) < 2 or len(sizes) > 1 or sizes == {1}:
            continue
        crossed = np.array(members)
        surely = _more_apart(ends[crossed])
        calls = ends.shape[1]
        if calls >= MANY and surely >= (SURELY if calls >= 2 * MANY else SURELY_OF_FEW):
            number[crossed] = crossed[0]
        elif surely > HARDLY:
            return RankSets(np.arange(len(number)), wide.wide, is_split=False)
    return wide if np.array_equal(number, wide.best) else RankSets(number, number, is_split=True)


def _more_apart(ends: Floats) -> float:
    """How many standard errors ranks of different columns are farther apart than those of one; rows are inner sets."""
    first, second = np.triu_indices(len(ends), 1)
    apart = np.abs(ends[first][:, :, None] - ends[second][:, None, :])
    is_same = np.eye(ends.shape[1], dtype=bool)
    more = apart[:, ~is_same].mean(axis=(0, 1)) - apart[:, is_same].mean(axis=(0, 1))
    more = np.clip(more[~np.isnan(more)], -MOST_MORE, MOST_MORE)
    if len(more) < 2:
        return 0.0
    return float(more.mean() / max(1e-9, more.std(ddof=1) / np.sqrt(len(more))))


def _nearest(apart: Floats) -> Floats:
    """Of each rank, the distance to the one nearest to it."""
    nearest: Floats = np.where(np.eye(len(apart), dtype=bool), np.inf, apart).min(axis=1)
    return nearest


def _wide(apart: Floats, begun: Floats, most: float) -> Ints:
    nearest = _nearest(apart)
    is_near = np.isfinite(nearest)
    usual = float(np.median(nearest[is_near])) if is_near.any() else 0.0
    close = min(max(CLOSE_NS, USUAL * usual), most)
    return _components((apart <= close) | ((apart <= most) & (apart <= HELD * begun)))


def _is_even(number: Ints, apart: Floats) -> bool:
    """Whether sets have one size and are farther from each other than ranks are from their nearest."""
    sizes = np.unique(number, return_counts=True)[1]
    nearest = _nearest(apart)
    across = apart[number[:, None] != number[None, :]]
    widest = max(LEAST_NS, float(nearest[np.isfinite(nearest)].max(initial=0.0)))
    is_even = len(sizes) > 1 and sizes.min() > 1 and sizes.min() == sizes.max()
    return bool(is_even and float(across.min()) >= NEAREST * widest)


def _components(is_together: Bools) -> Ints:
    component = np.arange(len(is_together))
    while True:
        lowest: Ints = np.where(is_together, component, len(is_together)).min(axis=1)
        if np.array_equal(lowest, component):
            return component
        component = lowest

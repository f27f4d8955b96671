"""Which ranks met in calls that do not record their group: those that left them together.

Ranks of one collective end within microseconds of each other, whatever their clocks say: from one call to the next
their ends move on by the same time. Of ranks in other groups this differs by what their work differs in. Where all
ranks meet in one kind of call, its ends also align the clocks, and the ends of other kinds are compared as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.graph.records import Floats
from warplens.model.kinds import NONE
from warplens.model.trace import Bools, Ints
from warplens.ranks.kinds import SEND
from warplens.ranks.rank_sets import RankSets, apart_by_clocks, crossing, pairs, together

MOST_NS: Final = 20_000.0
MOST_SHARE: Final = 0.05
"""Of a call's duration, which ends of large messages may differ by."""
FEW: Final = 4
"""With fewer calls of a kind, the recorded clocks have to agree."""
SAMPLED: Final = 64
REFERENCE_NS: Final = 5_000.0
"""Ends that all ranks leave within so much, from step to step, are those of one meeting; clocks drift by some of it."""


@dataclass(frozen=True)
class _Clocks:
    """What each rank's clock is ahead of the others' at a moment: offset + rate × moment."""

    origin_ns: int
    offset: Floats
    rate: Floats

    def corrected(self, rank: Ints, moment: Floats) -> Floats:
        return moment - (self.offset[rank] + self.rate[rank] * moment)


@dataclass(frozen=True)
class _Kind:
    """The calls of one kind and size, and the sets of ranks that their ends fall into."""

    calls: pl.DataFrame
    ranks: Ints
    rank: Ints
    match: Ints
    ends: Floats
    """Of each rank (rows) and match (columns), in the order of time."""
    most_ns: float
    has_clocks: bool
    """Whether ends are compared as they are, and not from call to call."""
    apart_ns: float
    """The median distance of two ranks."""
    sets: RankSets


def by_their_ends(frame: pl.DataFrame, unnamed: pl.Expr) -> pl.DataFrame:
    """`frame` with the matches of `unnamed` calls split into the sets of ranks whose ends agree; others lose theirs.

    A kind whose sets are not clear is taken as calls of all ranks, unless other kinds have shown that there are groups.
    """
    chosen = frame.with_row_index("row").filter(unnamed & (pl.col("match") >= 0))
    if chosen.is_empty():
        return frame
    parts = chosen.partition_by("group_key", "signature", maintain_order=True)
    kinds = [_kind(calls) for calls in parts]
    meeting = _meeting_of_all(kinds, chosen["rank"].n_unique())
    if meeting is not None:
        clocks = _common_clocks(kinds[meeting])
        kinds = _crossed([_kind(calls, clocks) for calls in parts], meeting)
    has_groups = any(kind.sets.is_split for kind in kinds)
    match = frame["match"].to_numpy().copy()
    following = int(match.max()) + 1
    for kind in kinds:
        part = _parted(kind, kind.sets.best)
        if has_groups and not kind.sets.is_clear:
            part[:] = NONE
        rows, old = kind.calls["row"].to_numpy(), kind.calls["match"].to_numpy()
        call = np.unique(np.column_stack([old, part]), axis=0, return_inverse=True)[1].ravel()
        sizes = np.bincount(call)
        match[rows] = np.where((part >= 0) & (sizes[call] > 1), following + call, NONE)
        following += len(sizes)
    return frame.with_columns(pl.Series("match", match))


def _kind(calls: pl.DataFrame, clocks: _Clocks | None = None) -> _Kind:
    ranks, rank = np.unique(calls["rank"].to_numpy(), return_inverse=True)
    matches, match = np.unique(calls["match"].to_numpy(), return_inverse=True)
    origin = int(calls["end_ns"].min()) if clocks is None else clocks.origin_ns  # type: ignore[arg-type]
    moments = np.full((2, len(ranks), len(matches)), np.nan)
    for row, name in enumerate(("end_ns", "start_ns")):
        moment = (calls[name].to_numpy() - origin).astype(float)
        moments[row, rank, match] = moment if clocks is None else clocks.corrected(ranks[rank], moment)
    order = np.argsort(np.nanmedian(moments[0], axis=0), kind="stable")
    ends, starts = moments[:, :, order]
    most = max(MOST_NS, MOST_SHARE * float(np.nanmedian(ends - starts)))
    has_clocks = clocks is not None or len(matches) < FEW
    if has_clocks:
        apart, begun = _distances(ends), _distances(starts)
    else:
        picked = np.linspace(0, len(matches) - 2, min(SAMPLED, len(matches) - 1)).astype(int)
        apart, begun = (_distances(each[:, picked + 1] - each[:, picked]) for each in (ends, starts))
    column = np.argsort(order, kind="stable")[match]
    sets = _sets(calls, rank, apart, begun, most, has_clocks=clocks is not None)
    return _Kind(calls, ranks, rank, column, ends, most, has_clocks, float(np.median(apart)), sets)


def _sets(calls: pl.DataFrame, rank: Ints, apart: Floats, begun: Floats, most: float, *, has_clocks: bool) -> RankSets:
    is_send = calls["kind"].to_numpy() == SEND
    if is_send.any():
        sends = np.zeros(len(apart), bool)
        sends[rank[is_send]] = True
        return pairs(apart, sends)
    if has_clocks:
        return apart_by_clocks(apart, begun, most)
    return together(apart, begun, most, calls["match"].n_unique())


def _crossed(kinds: Sequence[_Kind], meeting: int) -> list[_Kind]:
    """With sets that cross those of other kinds apart, but for the meeting that the clocks were taken from.

    What is left of its ends is what clocks of one machine have in common, and shows no groups.
    """
    whole = len(kinds[meeting].ranks)
    split = [kind.sets.best for kind in kinds if kind.sets.is_split and len(kind.ranks) == whole]
    inner = list({each.tobytes(): each for each in split}.values())
    crossed = []
    for number, kind in enumerate(kinds):
        sets = kind.sets
        for own in inner:
            if number != meeting and len(kind.ranks) == whole and sets.is_clear:
                sets = crossing(sets, own, kind.ends)
        crossed.append(replace(kind, sets=sets))
    return crossed


def _meeting_of_all(kinds: Sequence[_Kind], ranks: int) -> int | None:
    """The kind of call whose ends agree best of those that all ranks make; None where none agree well enough."""
    shared = [
        number
        for number, kind in enumerate(kinds)
        if len(kind.ranks) == ranks
        and not kind.has_clocks
        and not np.isnan(kind.ends).any()
        and kind.apart_ns <= REFERENCE_NS
    ]
    return min(shared, key=lambda number: kinds[number].apart_ns, default=None)


def _common_clocks(meeting: _Kind) -> _Clocks:
    middle = np.median(meeting.ends, axis=0)
    rate, offset = np.polyfit(middle, (meeting.ends - middle).T, 1)
    rank = np.zeros((2, int(meeting.ranks.max()) + 1))
    rank[:, meeting.ranks] = offset, rate
    return _Clocks(int(meeting.calls["end_ns"].min()), *rank)  # type: ignore[arg-type]


def _parted(kind: _Kind, part: Ints) -> Ints:
    """Of each call the number of the set of ranks that it is one of; -1 where its end does not agree with theirs."""
    agrees = _agrees(kind.ends, part, kind.most_ns, has_clocks=kind.has_clocks)
    parted: Ints = np.where(agrees[kind.rank, kind.match], part[kind.rank], NONE)
    return parted


def _distances(moments: Floats) -> Floats:
    """Median distance of each two rows; infinite where they share no column."""
    distances = np.full((len(moments), len(moments)), np.inf)
    for row, own in enumerate(moments):
        apart = np.abs(moments - own)
        is_known = ~np.isnan(apart).all(axis=1)
        distances[row, is_known] = np.nanmedian(apart[is_known], axis=1)
    return distances


def _agrees(ends: Floats, part: Ints, most: float, *, has_clocks: bool) -> Bools:
    """Whether the end of each call (rank, match) is near those of its set, apart from what clocks differ by."""
    agrees = np.zeros(ends.shape, bool)
    for number in np.unique(part).tolist():
        own = ends[part == number]
        if len(own) < 2:
            continue
        known = ~np.isnan(own).all(axis=0)
        rest = np.full(own.shape, np.nan)
        rest[:, known] = own[:, known] - np.nanmedian(own[:, known], axis=0)
        if not has_clocks:
            rest -= _drifting(rest)
        agrees[part == number] = np.abs(rest) <= 2 * most
    return agrees


def _drifting(rest: Floats) -> Floats:
    """A clock's offset at each call: the median of those around it."""
    width = 9
    padded = np.pad(rest, ((0, 0), (width // 2, width // 2)), constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, width, axis=1)
    filled = np.where(np.isnan(windows).all(axis=2, keepdims=True), 0.0, windows)
    drifting: Floats = np.nanmedian(filled, axis=2)
    return drifting

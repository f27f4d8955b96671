"""Which ranks met in calls that do not record their group: those that left them together.

Ranks of one collective end within microseconds of each other, whatever their clocks say: from one call to the next
their ends move on by the same time. Of ranks in other groups this differs by what their work differs in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.graph.records import Floats
from warplens.model.kinds import NONE
from warplens.model.trace import Bools, Ints

CLOSE_NS: Final = 2_000.0
"""Ends that differ by less may belong together."""
USUAL: Final = 4.0
"""So many times the usual distance of a rank to its nearest one is still close."""
LEAST_NS: Final = 500.0
NEAREST: Final = 1.5
"""Ranks whose distance is so many times that to their nearest one are surely together; those beyond it are apart."""
MOST_NS: Final = 20_000.0
MOST_SHARE: Final = 0.05
"""Of a call's duration, which ends of large messages may differ by."""
TOGETHER, HELD = 0.5, 0.1
"""Ends that differ by so much less than starts do are held together by a meeting."""
FEW: Final = 4
"""With fewer calls of a kind, the recorded clocks have to agree."""
MANY: Final = 8
"""With fewer calls, two groups that run side by side cannot be told from one."""
SAMPLED: Final = 64


@dataclass(frozen=True)
class _Kind:
    """The calls of one kind and size, and the sets of ranks (a number per rank) that their ends fall into."""

    calls: pl.DataFrame
    rank: Ints
    match: Ints
    ends: Floats
    """Of each rank (rows) and match (columns), in the order of time."""
    most_ns: float
    sure: Ints
    """Ranks that are surely together."""
    wide: Ints
    """Ranks that may be."""
    is_split: bool
    """Whether the sure sets are clearly apart."""

    @property
    def is_clear(self) -> bool:
        return self.is_split or len(np.unique(self.sure)) == len(np.unique(self.wide))


def by_their_ends(frame: pl.DataFrame, unnamed: pl.Expr) -> pl.DataFrame:
    """`frame` with the matches of `unnamed` calls split into the sets of ranks whose ends agree; others lose theirs.

    A kind whose sets are not clear is taken as calls of all ranks, unless other kinds have shown that there are groups.
    """
    chosen = frame.with_row_index("row").filter(unnamed & (pl.col("match") >= 0))
    if chosen.is_empty():
        return frame
    kinds = [_kind(calls) for calls in chosen.partition_by("group_key", "signature", maintain_order=True)]
    has_groups = any(kind.is_split for kind in kinds)
    match = frame["match"].to_numpy().copy()
    following = int(match.max()) + 1
    for kind in kinds:
        part = _parted(kind, kind.sure if kind.is_split else kind.wide)
        if has_groups and not kind.is_clear:
            part[:] = NONE
        rows, old = kind.calls["row"].to_numpy(), kind.calls["match"].to_numpy()
        pairs = np.unique(np.column_stack([old, part]), axis=0, return_inverse=True)[1].ravel()
        sizes = np.bincount(pairs)
        match[rows] = np.where((part >= 0) & (sizes[pairs] > 1), following + pairs, NONE)
        following += len(sizes)
    return frame.with_columns(pl.Series("match", match))


def _kind(calls: pl.DataFrame) -> _Kind:
    ranks, rank = np.unique(calls["rank"].to_numpy(), return_inverse=True)
    matches, match = np.unique(calls["match"].to_numpy(), return_inverse=True)
    origin = int(calls["end_ns"].min())  # type: ignore[arg-type]
    ends, starts = np.full((2, len(ranks), len(matches)), np.nan)
    ends[rank, match] = calls["end_ns"].to_numpy() - origin
    starts[rank, match] = calls["start_ns"].to_numpy() - origin
    order = np.argsort(np.nanmedian(ends, axis=0), kind="stable")
    ends, starts = ends[:, order], starts[:, order]
    most = max(MOST_NS, MOST_SHARE * float(np.nanmedian(ends - starts)))
    if len(matches) < FEW:
        apart, begun = _distances(ends), _distances(starts)
    else:
        picked = np.linspace(0, len(matches) - 2, min(SAMPLED, len(matches) - 1)).astype(int)
        apart, begun = (_distances(each[:, picked + 1] - each[:, picked]) for each in (ends, starts))
    place = np.argsort(order, kind="stable")[match]
    return _Kind(calls, rank, place, ends, most, *_sets(apart, begun, most, len(matches)))


def _sets(apart: Floats, begun: Floats, most: float, calls: int) -> tuple[Ints, Ints, bool]:
    """The sets of ranks that are surely and perhaps together, and whether the former are clearly apart."""
    nearest = np.where(np.eye(len(apart), dtype=bool), np.inf, apart).min(axis=1)
    is_near = np.isfinite(nearest)
    usual = float(np.median(nearest[is_near])) if is_near.any() else 0.0
    reach = NEAREST * np.maximum(np.maximum.outer(nearest, nearest), LEAST_NS)
    is_held = apart <= TOGETHER * begun
    sure = _components((apart <= np.minimum(reach, most)) & is_held)
    close = min(max(CLOSE_NS, USUAL * usual), most)
    wide = _components((apart <= close) | ((apart <= most) & (apart <= HELD * begun)))
    sizes = np.unique(sure, return_counts=True)[1]
    across = apart[sure[:, None] != sure[None, :]]
    gap = float(across.min()) / max(LEAST_NS, float(nearest[is_near].max(initial=0.0))) if len(across) else 0.0
    is_even = len(sizes) > 1 and sizes.min() > 1 and sizes.min() == sizes.max()
    return sure, wide, bool(is_even and gap >= NEAREST and calls >= MANY)


def _parted(kind: _Kind, part: Ints) -> Ints:
    """Of each call the number of the set of ranks that it is one of; -1 where its end does not agree with theirs."""
    agrees = _agrees(kind.ends, part, kind.most_ns, has_clocks=kind.ends.shape[1] < FEW)
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


def _components(together: Bools) -> Ints:
    component = np.arange(len(together))
    while True:
        lowest: Ints = np.where(together, component, len(together)).min(axis=1)
        if np.array_equal(lowest, component):
            return component
        component = lowest


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

"""One clock for all ranks: offsets and drift from the ends of small collectives, which all ranks leave together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.graph.records import Floats
from warplens.model.trace import Ints
from warplens.ranks.clock_fit import fitted
from warplens.ranks.kinds import RECEIVE, SEND, SYNCHRONISING

SMALL_SHARE: Final = 0.5
"""Of the collectives: the shorter ones, whose ranks end closest to each other."""
LEAST, MOST = 200, 4_000
"""At least so many of them, if there are, and at most."""
OF_EACH_GROUP: Final = 8
"""The shortest of each group count in any case: only they may join its ranks."""
CLEARLY: Final = 3.0
"""Offsets count where the ranks of all collectives then end so many times closer to each other."""
KINDS: Final = (*SYNCHRONISING, SEND, RECEIVE)


@dataclass(frozen=True)
class Clocks:
    """Of each rank: its clock minus the job's, at the job's middle, how fast that grows, and what remains."""

    offset_ns: Floats
    drift: Floats
    """In ns per ns."""
    middle_ns: int
    spread_ns: Floats
    """Median distance of the ends of small collectives from those of the other ranks; NaN where there are none."""
    component: Ints
    """Ranks with the same number are on one clock: collectives join them."""

    def corrected(self, rank: Ints, moment_ns: Ints) -> Ints:
        """Moments of ranks' own clocks on the job's clock."""
        since = (moment_ns - self.middle_ns).astype(np.float64)
        wrong = self.offset_ns[rank] + self.drift[rank] * since
        corrected: Ints = moment_ns - np.round(wrong).astype(np.int64)
        return corrected

    def offset_at(self, moment_ns: int) -> Floats:
        """How far each clock is off at a moment."""
        return self.offset_ns + self.drift * (moment_ns - self.middle_ns)

    @property
    def is_common(self) -> bool:
        """Whether all ranks are on one clock."""
        return len(np.unique(self.component)) <= 1


def align(calls: pl.DataFrame, hosts: Sequence[int]) -> Clocks:
    """From matched calls (rank, match, group_key, kind, start_ns, end_ns); `hosts` has the machine of each rank."""
    host = np.array(hosts, np.int64)
    count = int(host.max(initial=-1)) + 1
    middle = int(calls["end_ns"].median() or 0)  # type: ignore[arg-type]
    component = _components(*_joined_by(calls.filter(pl.col("match") >= 0), host), count)
    unknown = np.full(len(host), np.nan)
    as_recorded = Clocks(np.zeros(len(host)), np.zeros(len(host)), middle, unknown, component[host])
    chosen = _small(calls)
    if chosen.is_empty():
        return as_recorded
    own, match = _joined_by(chosen, host)
    end = (chosen["end_ns"].to_numpy() - middle).astype(np.float64)
    offset, drift = fitted(own, match, end, count)
    aligned = replace(as_recorded, offset_ns=offset[host], drift=drift[host])
    # Ends that differ for other reasons (a GPU that ranks take turns on) differ in another way for other collectives.
    is_better = CLEARLY * np.mean(_distances(aligned, calls)) < np.mean(_distances(as_recorded, calls))
    clocks = aligned if is_better else as_recorded
    distance = _medians(_distances(clocks, chosen), chosen["rank"].to_numpy(), len(host))
    return replace(clocks, spread_ns=distance)


def _joined_by(calls: pl.DataFrame, host: Ints) -> tuple[Ints, Ints]:
    """Of each call its machine and the number of its match, from 0 on."""
    match: Ints = np.unique(calls["match"].to_numpy(), return_inverse=True)[1].ravel()
    own: Ints = host[calls["rank"].to_numpy()]
    return own, match


def _distances(clocks: Clocks, calls: pl.DataFrame) -> Floats:
    """How far from each other the ranks of matched calls end, on these clocks."""
    matched = calls.filter((pl.col("match") >= 0) & pl.col("kind").is_in(list(KINDS)))
    matches, match = np.unique(matched["match"].to_numpy(), return_inverse=True)
    end = clocks.corrected(matched["rank"].to_numpy(), matched["end_ns"].to_numpy())
    rest = (end - clocks.middle_ns).astype(np.float64)
    distances: Floats = np.abs(rest - _medians(rest, match, len(matches))[match])
    return distances


def _small(calls: pl.DataFrame) -> pl.DataFrame:
    """The ends that tell clocks: those of the shortest calls that no rank leaves before all have begun."""
    matched = calls.filter((pl.col("match") >= 0) & pl.col("kind").is_in(list(KINDS)))
    length = pl.col("end_ns") - pl.col("start_ns")
    least = matched.group_by("match").agg(length.min().alias("least_ns"), pl.col("group_key").first())
    least = least.sort("least_ns", "match").with_row_index("place")
    of_group = pl.int_range(pl.len()).over("group_key")
    most = min(MOST, max(LEAST, int(SMALL_SHARE * len(least))))
    kept = least.filter((pl.col("place") < most) | (of_group < OF_EACH_GROUP)).select("match")
    return matched.join(kept, on="match", how="semi", maintain_order="left")


def _medians(values: Floats, group: Ints, count: int) -> Floats:
    """The median of each group's values; NaN for one without any."""
    order = np.lexsort((values, group))
    sizes = np.bincount(group, minlength=count)
    first = np.cumsum(sizes) - sizes
    low, high = first + np.maximum(sizes - 1, 0) // 2, first + sizes // 2
    ordered = np.append(values[order], np.nan)
    medians: Floats = np.where(
        sizes > 0, (ordered[np.minimum(low, len(values))] + ordered[np.minimum(high, len(values))]) / 2, np.nan
    )
    return medians


def _components(own: Ints, match: Ints, count: int) -> Ints:
    """Hosts that collectives join, directly or through others, have the same number."""
    component = np.arange(count)
    while True:
        least = np.full(int(match.max(initial=-1)) + 1, count, np.int64)
        np.minimum.at(least, match, component[own])
        lowest = component.copy()
        np.minimum.at(lowest, own, least[match])
        if np.array_equal(lowest, component):
            return component
        component = lowest

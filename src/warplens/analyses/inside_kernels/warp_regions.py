"""`warp_regions`: what each warp of an instrumented kernel does, and what the others do meanwhile.

Warps of one CTA run on one multiprocessor and share its clock, so their regions can be laid over each other. They work
in groups of four that do the same: the others are those of other groups, or all where a CTA has no more than four.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec.structs import replace

from warplens.analyses.inside_kernels.regions import CLOCK, FORMAT, covered_ns, region_events
from warplens.analyses.workspace import Workspace
from warplens.model.table import Column, Table
from warplens.model.trace import Ints
from warplens.passes.nest import nest_lane

GROUP: Final = 4
"""Warps that a matrix product of a warp group takes."""
MOST_CTAS: Final = 64
"""CTAs of a kernel whose warps are compared: they do the same work, and a comparison takes up to 10 ms."""
NAMED: Final = 3
NOTHING: Final = "(between regions)"
WARP: Final = re.compile(r"\D*(\d{1,9})")
Floats = npt.NDArray[np.float64]
COLUMNS: Final = (
    Column("kernel", "the kernel that was instrumented", "", pl.String),
    Column("warp", "number of the warp in its CTA", "", pl.Int64),
    Column("region", "name of the region", "", pl.String),
    Column("count", "passes of this warp through it, over all CTAs", "", pl.Int64),
    Column("total_us", "sum of their durations, regions inside included", "us", pl.Float64),
    Column("percent", "share of the warp's spans, from its first region to its last", "%", pl.Float64),
    Column(
        "same_percent",
        "share of that time in which another warp was in the same region: 0 where they take turns",
        "%",
        pl.Float64,
    ),
    Column("meanwhile", "the region in which the other warps spent most of that time", "", pl.String),
    Column("meanwhile_percent", "share of their time spent there", "%", pl.Float64),
    Column("others", "the largest shares of the other warps' time", "", pl.String),
)
ROWS: Final = "one row per instrumented kernel, warp and region"
MEANING: Final = (
    "the other warps are those of the same CTA outside the warp's own group of four, or all others where a CTA has at "
    "most four; of nested regions the innermost counts for them"
)


class _Cta(msgspec.Struct, frozen=True):
    """The warps of one CTA in one launch. `inside` has one entry per warp, region and stretch of time."""

    kernel: str
    warps: list[int]
    stretches: Floats
    """Their lengths, in ns."""
    inside: npt.NDArray[np.bool_]
    innermost: Ints
    """Per warp and stretch the region, -1 for none."""


def warp_regions(work: Workspace) -> Table:
    if work.trace.meta.format != FORMAT:
        return Table.from_rows("warp_regions", ROWS, COLUMNS, ())
    events = _numbered(region_events(work.trace), work)
    names = sorted(set(events["region"].to_list()))
    shares: dict[tuple[str, int, int], list[Floats]] = {}
    skipped: set[str] = set()
    for cta in _ctas(events, names, skipped):
        for key, sums in _beside(cta, len(names)):
            shares.setdefault(key, []).append(sums)
    summed = {key: np.sum(parts, axis=0) for key, parts in shares.items()}
    rows = [_with_others(WarpRegion(*total), names, summed) for total in _totals(events).iter_rows()]
    notes = [MEANING] if rows else []
    if rows and "assumed_clock_mhz" in work.trace.meta.facts:
        notes.append(CLOCK)
    if skipped:
        notes.append(f"warps are compared in the first {MOST_CTAS} CTAs of {', '.join(sorted(skipped))}")
    return Table.from_rows("warp_regions", ROWS, COLUMNS, rows, *notes)


def _numbered(events: pl.DataFrame, work: Workspace) -> pl.DataFrame:
    """The events with the number of their warp, and of their CTA in one launch."""
    lanes = work.trace.lanes
    warps = [int(match[1]) if (match := WARP.fullmatch(thread)) else -1 for thread in lanes["thread"].to_list()]
    return events.with_columns(
        pl.Series("warp", warps, dtype=pl.Int64).gather(events["lane"]).alias("warp"),
        lanes["process"].gather(events["lane"]).alias("process"),
    ).sort("kernel", "process", "launch", "lane", "start_ns", "end_ns", descending=[False] * 5 + [True])


def _totals(events: pl.DataFrame) -> pl.DataFrame:
    spans = (
        events.group_by("kernel", "warp", "lane", "launch")
        .agg((pl.col("end_ns").max() - pl.col("start_ns").min()).alias("span_ns"))
        .group_by("kernel", "warp")
        .agg(pl.col("span_ns").sum())
    )
    return (
        events.with_columns(covered_ns())
        .group_by("kernel", "warp", "region")
        .agg(pl.len().alias("count"), (pl.col("dur_ns").sum() / 1000).alias("total_us"), pl.col("covered_ns").sum())
        .join(spans, on=["kernel", "warp"], how="left")
        .with_columns((pl.col("covered_ns") * 100 / pl.col("span_ns").clip(1)).alias("percent"))
        .sort("kernel", "warp", "total_us", "region", descending=[False, False, True, False])
        .select("kernel", "warp", "region", "count", "total_us", "percent")
    )


def _ctas(events: pl.DataFrame, names: list[str], skipped: set[str]) -> Iterator[_Cta]:
    number = {name: code for code, name in enumerate(names)}
    seen: dict[str, int] = {}
    for own in events.partition_by("kernel", "process", "launch", maintain_order=True):
        kernel = str(own["kernel"][0])
        seen[kernel] = seen.get(kernel, 0) + 1
        if seen[kernel] > MOST_CTAS:
            skipped.add(kernel)
        elif own["warp"].n_unique() > 1:
            yield _cta(kernel, own, np.array([number[name] for name in own["region"].to_list()], np.int64))


def _cta(kernel: str, events: pl.DataFrame, region: Ints) -> _Cta:
    start, end, warp = (events[name].to_numpy().astype(np.int64) for name in ("start_ns", "end_ns", "warp"))
    moments = np.unique(np.concatenate([start, end]))
    middles = moments[:-1]  # an event covers a stretch where it has begun at its first moment and is not over
    warps = sorted(set(warp.tolist()))
    inside = np.zeros((len(warps), int(region.max(initial=0)) + 1, len(middles)), bool)
    innermost = np.full((len(warps), len(middles)), -1, np.int64)
    for at, number in enumerate(warps):
        own = np.flatnonzero(warp == number)
        first, last = np.searchsorted(moments, start[own]), np.searchsorted(moments, end[own])
        for code in np.unique(region[own]).tolist():
            chosen = region[own] == code
            edges = np.bincount(first[chosen], minlength=len(moments)) - np.bincount(
                last[chosen], minlength=len(moments)
            )
            inside[at, code] = np.cumsum(edges)[:-1] > 0
        innermost[at] = _innermost(start[own], end[own], region[own], middles)
    return _Cta(kernel, warps, np.diff(moments).astype(np.float64), inside, innermost)


def _innermost(start: Ints, end: Ints, region: Ints, moments: Ints) -> Ints:
    """The region that a warp is in from each moment on, -1 for none; events come sorted by start, outermost first."""
    parent = nest_lane(start, end, np.zeros(len(start), bool)).parent
    row = np.searchsorted(start, moments, side="right") - 1
    while True:
        over = (row >= 0) & (end[row] <= moments)
        if not over.any():
            return np.where(row >= 0, region[row], -1)
        row = np.where(over, parent[row], row)


def _beside(cta: _Cta, regions: int) -> Iterator[tuple[tuple[str, int, int], Floats]]:
    """Per warp and region: ns in it, ns of these with another warp in the same region, and ns of the others by region.

    The last entry is what the others spent between regions.
    """
    for at, warp in enumerate(cta.warps):
        others = [
            other for other, number in enumerate(cta.warps) if other != at and _is_other(warp, number, len(cta.warps))
        ]
        if not others:
            continue
        states = np.zeros((regions + 1, len(cta.stretches)))
        for other in others:
            states[cta.innermost[other], np.arange(len(cta.stretches))] += cta.stretches / len(others)
        for code in np.flatnonzero(cta.inside[at].any(axis=1)).tolist():
            own = cta.inside[at, code]
            same = own & cta.inside[others, code].any(axis=0)
            ns = (cta.stretches[own].sum(), cta.stretches[same].sum())
            yield (cta.kernel, warp, code), np.array([*ns, *states[:, own].sum(axis=1)])


def _is_other(warp: int, other: int, count: int) -> bool:
    return count <= GROUP or warp // GROUP != other // GROUP


class WarpRegion(msgspec.Struct, frozen=True):
    """What one warp did in one region; of the other warps, where there are any, what they did in that time."""

    kernel: str
    warp: int
    region: str
    count: int
    total_us: float
    percent: float
    same_percent: float | None = None
    meanwhile: str | None = None
    meanwhile_percent: float | None = None
    others: str | None = None


def _with_others(region: WarpRegion, names: list[str], summed: dict[tuple[str, int, int], Floats]) -> WarpRegion:
    sums = summed.get((region.kernel, region.warp, names.index(region.region)))
    if sums is None or not sums[0]:
        return region
    shares = dict(zip([*names, NOTHING], (100 * sums[2:] / sums[0]).tolist(), strict=True))
    largest = sorted((name for name in shares if shares[name] >= 0.5), key=lambda name: -shares[name])[:NAMED]
    return replace(
        region,
        same_percent=100 * float(sums[1] / sums[0]),
        meanwhile=largest[0] if largest else None,
        meanwhile_percent=shares[largest[0]] if largest else None,
        others=", ".join(f"{name} {shares[name]:.0f} %" for name in largest),
    )

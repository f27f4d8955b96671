"""`fragmentation`: what the allocator has reserved and cannot use, by pool."""

from __future__ import annotations

import numpy as np
import polars as pl

from warplens.analyses.memory.history import DeviceHistory
from warplens.analyses.memory.memory_work import MemoryWork
from warplens.analyses.memory.peak import used_of_segments
from warplens.model.table import Column, Table

COLUMNS = (
    Column("device", "GPU number", "", pl.String),
    Column("moment", "peak (most is allocated) or end (of the recording)", "", pl.String),
    Column("pool", "small or large blocks, with the number of a private pool such as a graph's", "", pl.String),
    Column("stream", "GPU stream whose blocks these are", "", pl.Int64),
    Column("segments", "pieces of reserved memory", "", pl.Int64),
    Column("reserved_bytes", "their size", "bytes", pl.Int64),
    Column("used_bytes", "allocated", "bytes", pl.Int64),
    Column("rounding_bytes", "allocated beyond what was asked for", "bytes", pl.Int64),
    Column("cache_bytes", "free, in segments without any block in use", "bytes", pl.Int64),
    Column("lost_bytes", "free, in segments that are in use: fragmentation", "bytes", pl.Int64),
    Column(
        "largest_free_bytes",
        "the largest free piece, of segments with or without blocks in use: larger requests take new memory",
        "bytes",
        pl.Int64,
    ),
    Column(
        "is_expandable", "of an expandable segment: pieces are its pages, which are given back alone", "", pl.Boolean
    ),
)


def fragmentation(work: MemoryWork) -> Table:
    rows = [
        row
        for device in work.devices
        if device.history.segments is not None
        for moment, event in _moments(device.history).items()
        for row in _rows(device.history, moment, event)
    ]
    notes = () if rows else ("no memory snapshot: a profiler's events have no segments",)
    return Table.from_rows("fragmentation", "one row per pool, at the peak and at the end", COLUMNS, rows, *notes)


def _moments(history: DeviceHistory) -> dict[str, int]:
    return {"peak": history.peak_event, "end": len(history.times_ns) - 1} if len(history.times_ns) else {"end": -1}


def _rows(history: DeviceHistory, moment: str, event: int) -> list[tuple[object, ...]]:
    assert history.segments is not None
    exists = (pl.col("begin") <= event) & (pl.col("end") > event)
    used = pl.Series("used", used_of_segments(history, event))
    segments = history.segments.with_columns(used).filter(exists).sort("address")
    held = history.held_at(event).sort("address")
    holes = _largest_holes(segments, held)
    # The snapshot names the pool of segments that are there at its end; of others the size tells.
    kind = (
        pl.when(pl.col("kind") != "")
        .then("kind")
        .when(pl.col("bytes") <= 2 << 20)
        .then(pl.lit("small"))
        .otherwise(pl.lit("large"))
    )
    pool = kind + pl.when(pl.col("pool") != "").then(" of pool " + pl.col("pool")).otherwise(pl.lit(""))
    place = _segment_of(segments, held)
    extra = np.zeros(len(segments), np.int64)
    np.add.at(extra, place[place >= 0], (held["bytes"] - held["requested_bytes"]).to_numpy()[place >= 0])
    free = pl.col("bytes") - pl.col("used")
    frame = (
        segments.with_columns(pool.alias("name"), pl.Series("hole", holes), pl.Series("extra", extra))
        .group_by("name", "stream", "is_expandable")
        .agg(
            pl.len().cast(pl.Int64),
            pl.col("bytes").sum(),
            pl.col("used").sum(),
            pl.col("extra").sum(),
            free.filter(pl.col("used") == 0).sum().alias("cache"),
            free.filter(pl.col("used") > 0).sum().alias("lost"),
            pl.col("hole").max(),
        )
        .sort("bytes", "name", "stream", "is_expandable", descending=[True, False, False, False])
        .select(pl.exclude("is_expandable"), "is_expandable")
    )
    return [(history.device, moment, *row) for row in frame.iter_rows()]


def largest_free(history: DeviceHistory, event: int) -> int:
    """The largest free piece of a segment after an event."""
    if history.segments is None:
        return 0
    exists = (pl.col("begin") <= event) & (pl.col("end") > event)
    return max(_largest_holes(history.segments.filter(exists).sort("address"), history.held_at(event)), default=0)


def _segment_of(segments: pl.DataFrame, held: pl.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The row of each block's segment, -1 where none is known."""
    starts, address = segments["address"].to_numpy(), held["address"].to_numpy()
    place = np.searchsorted(starts, address, side="right") - 1
    if not len(starts):
        return place.astype(np.int64)
    inside = (place >= 0) & (
        address < starts[np.maximum(place, 0)] + segments["bytes"].to_numpy()[np.maximum(place, 0)]
    )
    return np.where(inside, place, -1).astype(np.int64)


def _largest_holes(segments: pl.DataFrame, held: pl.DataFrame) -> list[int]:
    """The largest free piece of each segment; of pages that touch, that of all of them."""
    held = held.sort("address")
    blocks: dict[int, list[tuple[int, int]]] = {}
    number = _ranges(segments)
    ranges = segments.with_columns(number).group_by("range", maintain_order=True).agg(
        pl.col("address").first(), pl.col("bytes").sum()
    )  # fmt: skip
    place = _segment_of(ranges, held).tolist()
    for row, address, size in zip(place, held["address"].to_list(), held["bytes"].to_list(), strict=True):
        blocks.setdefault(row, []).append((address, size))
    holes = []
    for row, (start, size) in enumerate(ranges.select("address", "bytes").iter_rows()):
        at, largest = start, 0
        for address, taken in [*blocks.get(row, ()), (start + size, 0)]:
            largest = max(largest, address - at)
            at = max(at, address + taken)
        holes.append(largest)
    return [holes[row] for row in number]


def _ranges(segments: pl.DataFrame) -> pl.Series:
    """Which range each segment belongs to, in the order of addresses; blocks reach over pages of one range."""
    before = pl.col("address").shift(1) + pl.col("bytes").shift(1)
    is_next = pl.col("is_expandable") & pl.col("is_expandable").shift(1) & (pl.col("address") == before)
    same = [pl.col(name) == pl.col(name).shift(1) for name in ("kind", "pool", "stream")]
    is_new = ~pl.all_horizontal(is_next, *same).fill_null(False)
    return segments.select((is_new.cast(pl.Int64).cum_sum() - 1).alias("range")).to_series()

"""`memory_peak`: who holds the memory at the moment when most is allocated, and what the allocator keeps beside it."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import polars as pl

from warplens.analyses.memory.by_module import naming_notes
from warplens.analyses.memory.categories import BEFORE, UNKNOWN
from warplens.analyses.memory.history import DeviceHistory
from warplens.analyses.memory.memory_work import Holders, MemoryWork, running_total
from warplens.model.table import Column, Table

CACHE: Final = "cache"
FRAGMENTATION: Final = "fragmentation"
BESIDE: Final = {
    CACHE: "segments without any block in use, which the allocator keeps and could give back",
    FRAGMENTATION: "free parts of segments in use, which only requests that fit can use",
}
PLACE: Final = ("category", "name", "module", "line", "op", "is_loss", "how")
MOST_REMOVED: Final = 30
"""Holders, the largest first, without which the peak is computed: of each the whole history is summed."""
COLUMNS = (
    Column("device", "GPU number", "", pl.String),
    Column("category", "what for; `warplens explain memory_peak` defines each", "", pl.String),
    Column("name", "the tensor's name, where the capture recorded it", "", pl.String),
    Column("module", "module that allocated it, or whose parameter it is", "", pl.String),
    Column("line", "the user's line that allocated it", "", pl.String),
    Column("op", "op that allocated it", "", pl.String),
    Column("count", "allocations", "", pl.Int64),
    Column("bytes", "held at the peak", "bytes", pl.Int64),
    Column("percent", "share of the memory reserved at the peak", "%", pl.Float64),
    Column("largest_bytes", "the largest of them", "bytes", pl.Int64),
    Column(
        "saves_bytes",
        "how much lower the peak would be if it were never held; for the 30 largest holders only",
        "bytes",
        pl.Int64,
    ),
    Column("is_loss", "allocated by a loss function", "", pl.Boolean),
    Column("how", "how the category was decided", "", pl.String),
    Column("start_ms", "when the peak is", "ms", pl.Float64),
)


class Beside(NamedTuple):
    """Reserved memory that is not allocated."""

    cache: int
    fragmentation: int


def memory_peak(work: MemoryWork) -> Table:
    frames = [_device_rows(device) for device in work.devices]
    frame = pl.concat([pl.DataFrame(schema={column.name: column.dtype for column in COLUMNS}), *frames])
    meaning = "one row per holder of memory at a device's peak"
    return Table.from_frame("memory_peak", meaning, COLUMNS, frame, *naming_notes(work))


def _device_rows(device: Holders) -> pl.DataFrame:
    history = device.history
    event = history.peak_event
    held = device.held.filter((pl.col("begin") <= event) & (pl.col("end") > event))
    groups = held.group_by(PLACE).agg(
        pl.len().cast(pl.Int64).alias("count"), pl.col("bytes").sum(), pl.col("bytes").max().alias("largest_bytes")
    )
    groups = groups.sort("bytes", *PLACE, descending=[True] + [False] * len(PLACE))
    saves = pl.Series("saves_bytes", _saved(device, groups), dtype=pl.Int64)
    rows = groups.with_columns(saves).select(*PLACE, "count", "bytes", "largest_bytes", "saves_bytes").rows()
    rest = history.peak_bytes - int(held["bytes"].sum())
    if rest:
        category = BEFORE if rest > 0 else UNKNOWN
        rows.append(
            (category, "", "", "", "", False, "not recorded: the rest of the allocator's total", 0, rest, rest, None)
        )
    for name, size in zip(BESIDE, beside_at(history, event), strict=True):
        if size:
            rows.append((name, "", "", "", "", False, BESIDE[name], 0, size, size, None))
    sizes = dict.fromkeys(("count", "bytes", "largest_bytes", "saves_bytes"), pl.Int64)
    schema = {**dict.fromkeys(PLACE, pl.String), "is_loss": pl.Boolean, **sizes}
    frame = pl.DataFrame(rows, schema=schema, orient="row").sort(
        "bytes", *PLACE, descending=[True] + [False] * len(PLACE)
    )
    whole = int(frame["bytes"].sum())
    return frame.select(
        pl.lit(history.device).alias("device"),
        *PLACE[:5],
        "count",
        "bytes",
        (pl.col("bytes") * (100.0 / whole if whole else 0.0)).alias("percent"),
        "largest_bytes",
        "saves_bytes",
        "is_loss",
        "how",
        pl.lit(history.time_of(event) / 1e6).alias("start_ms"),
    )


def _saved(device: Holders, groups: pl.DataFrame) -> list[int | None]:
    """How much lower the peak of the whole history is without each holder."""
    history = device.history
    events = len(history.times_ns)
    saved: list[int | None] = [None] * len(groups)
    largest = groups.select(PLACE).head(MOST_REMOVED)
    parts = device.held.join(largest, on=PLACE, how="semi", nulls_equal=True).partition_by(PLACE, as_dict=True)
    for row, key in enumerate(largest.iter_rows()):
        part = parts[key]
        before = int(part.filter(pl.col("begin") < 0)["bytes"].sum())
        held = running_total(part, events)
        rest = max(history.first_allocated - before, int((history.allocated - held).max(initial=0)))
        saved[row] = history.peak_bytes - rest
    return saved


def beside_at(history: DeviceHistory, event: int) -> Beside:
    """After an event; where only sums are recorded, all of it counts as cache."""
    segments = history.segments
    if segments is None:
        reserved = history.reserved
        total = int(reserved[max(event, 0)]) if reserved is not None and len(reserved) else 0
        return Beside(max(0, total - history.peak_bytes) if total else 0, 0)
    used = used_of_segments(history, event)
    sizes = segments["bytes"].to_numpy()
    exists = (segments["begin"].to_numpy() <= event) & (segments["end"].to_numpy() > event)
    free = np.maximum(sizes - used, 0)
    return Beside(int(free[exists & (used == 0)].sum()), int(free[exists & (used > 0)].sum()))


def used_of_segments(history: DeviceHistory, event: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Bytes of each segment that are allocated after an event."""
    segments = history.segments
    assert segments is not None
    used = np.zeros(len(segments), np.int64)
    exists = np.flatnonzero((segments["begin"].to_numpy() <= event) & (segments["end"].to_numpy() > event))
    order = exists[np.argsort(segments["address"].to_numpy()[exists], kind="stable")]
    held = history.held_at(event)
    if not len(order) or not len(held):
        return used
    starts, sizes = segments["address"].to_numpy()[order], segments["bytes"].to_numpy()[order]
    for address, size in held.select("address", "bytes").iter_rows():
        place = int(np.searchsorted(starts, address, side="right")) - 1
        while size > 0 and 0 <= place < len(order):  # a block may span several pieces of an expandable segment
            inside = min(size, int(starts[place] + sizes[place]) - address)
            if inside <= 0:
                break
            used[order[place]] += inside
            address, size, place = address + inside, size - inside, place + 1
    return used

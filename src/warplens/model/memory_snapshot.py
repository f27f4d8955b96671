"""`MemorySnapshot`: the state and history of a caching allocator, frozen and columnar.

Addresses and sizes are bytes, times microseconds since 1970 (-1: not recorded), devices numbers of GPUs. `stack` is a
row of `stacks`, whose lists are rows of `frames`, innermost first; -1 where no stack was recorded. The address of an
`oom` event is the device's free memory, -1 where it is not recorded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from warplens.model.quality import Quality
from warplens_run.base.units import plural

ACTIONS: Final = (
    "other", "alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map",
    "segment_unmap", "oom", "snapshot",
)  # fmt: skip
"""What an allocator does; an event's `action` is a place in this list."""
ACTION: Final = {name: code for code, name in enumerate(ACTIONS)}
ALLOCATED: Final = "active_allocated"
INACTIVE: Final = "inactive"
"""States of a block; any other is memory that waits until another stream has done with it."""
SEGMENTS: Final[dict[str, Any]] = {
    "device": pl.Int32,
    "address": pl.Int64,
    "bytes": pl.Int64,
    "stream": pl.Int64,
    "kind": pl.String,
    "pool": pl.String,
    "is_expandable": pl.Boolean,
}
BLOCKS: Final[dict[str, Any]] = {
    "segment": pl.Int32,
    "device": pl.Int32,
    "address": pl.Int64,
    "bytes": pl.Int64,
    "requested_bytes": pl.Int64,
    "state": pl.String,
    "stack": pl.Int32,
}
EVENTS: Final[dict[str, Any]] = {
    "device": pl.Int32,
    "action": pl.UInt8,
    "address": pl.Int64,
    "bytes": pl.Int64,
    "stream": pl.Int64,
    "time_us": pl.Int64,
    "stack": pl.Int32,
}
FRAMES: Final[dict[str, Any]] = {"file": pl.String, "line": pl.Int64, "function": pl.String}
STACKS: Final[dict[str, Any]] = {"frames": pl.List(pl.Int32)}


@dataclass(frozen=True)
class MemorySnapshot:
    """See the module's text. Events of each device are in the order in which they happened."""

    source: str
    segments: pl.DataFrame
    blocks: pl.DataFrame
    events: pl.DataFrame
    frames: pl.DataFrame
    stacks: pl.DataFrame
    settings: dict[str, str] = field(default_factory=dict)
    """What the allocator was told to do, as text."""
    size_bytes: int = 0
    content_hash: str = ""
    quality: Quality = field(default_factory=Quality)

    def __repr__(self) -> str:
        parts = (
            plural(len(self.segments), "segment"),
            plural(len(self.blocks), "block"),
            plural(len(self.events), "event"),
        )
        return f"<MemorySnapshot {self.source}: {', '.join(parts)}>"

"""Parsed traces on disk, so that the second open is instant.

One entry of the cache per trace, named by the hash of the file's bytes and of everything that shapes the result (this
package's version and code, and the columns).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from warplens.cache import entries, place
from warplens.model.kinds import KINDS
from warplens.model.quality import Note, Quality
from warplens.model.trace import EVENT_COLUMNS, SIDE_FRAMES, Meta, Trace

ROOMS: Final = tuple(f"warplens/{room}" for room in ("cache", "model", "readers", "passes", "categories"))
"""Whose code shapes the result; families of kernels place those of graphs."""
FRAMES: Final = ("events", *SIDE_FRAMES)
NARROW: Final = (np.int8, np.int16, np.int32)
ROWS_OF: Final = {
    # frame: what its columns are rows of; -1 is none
    "events": {
        "name": "names", "lane": "lanes", "spec": "specs", "geometry": "geometries",
        "parent": "events", "launch": "events", "op": "events", "forward": "events",
    },
    "copies": {"id": "events"},
    "waits": {"id": "events"},
    "collectives": {"id": "events"},
    "memory": {"lane": "lanes"},
    "flows": {"source": "events", "target": "events"},
    "frames": {"id": "events", "parent": "events"},
    "contexts": {"id": "events", "frame": "events"},
    "metrics": {"id": "events"},
    "arguments": {"id": "events"},
    "launched": {"id": "events"},
    "graph_launches": {"id": "events"},
}  # fmt: skip


class _CacheHead(msgspec.Struct):
    meta: Meta
    notes: list[tuple[str, int, str]]


def key(content_hash: str) -> str:
    return f"{content_hash}-{place.code_hash(ROOMS, f'{sorted(EVENT_COLUMNS)} {SIDE_FRAMES}')}"


def load(content_hash: str, source: str) -> Trace | None:
    """The cached trace, or None."""
    entry = entries.load(key(content_hash))
    if entry is None:
        return None
    frames = entry.frames
    try:
        frames["events"] = frames["events"].cast(pl.Schema(EVENT_COLUMNS))
        head = msgspec.json.decode(entry.head, type=_CacheHead)
    except (KeyError, pl.exceptions.PolarsError, msgspec.DecodeError):
        return None
    if not _is_sound(frames):
        return None
    names = frames.pop("names")["name"].to_list()
    meta = msgspec.structs.replace(head.meta, source=source)
    return Trace(meta=meta, names=names, quality=Quality(tuple(Note(*note) for note in head.notes)), **frames)


def save(trace: Trace) -> None:
    """Keep a trace."""
    frames = {name: getattr(trace, name) for name in FRAMES}
    frames["events"] = _narrowed(trace)
    frames["names"] = pl.DataFrame({"name": pl.Series(trace.names, dtype=pl.String)})
    notes = [(note.code, note.count, note.detail) for note in trace.quality.notes]
    # Where the file was is known anew at each load; its name may have what no JSON can.
    meta = msgspec.structs.replace(trace.meta, source="")
    entries.save(key(trace.meta.content_hash), msgspec.json.encode(_CacheHead(meta, notes)), frames)


def _narrowed(trace: Trace) -> pl.DataFrame:
    """The events, each column in the smallest type that holds it: half the bytes to write and to hash."""
    return pl.DataFrame({name: trace.ints(name).astype(_narrowest(trace.ints(name))) for name in trace.events.columns})


def _narrowest(values: npt.NDArray[Any]) -> type[np.signedinteger[Any]]:
    least, most = values.min(initial=0), values.max(initial=0)
    return next((each for each in NARROW if np.iinfo(each).min <= least and most <= np.iinfo(each).max), np.int64)


def _is_sound(frames: dict[str, pl.DataFrame]) -> bool:
    """Whether all frames are there, with their columns, and no row refers to one that is not."""
    columns = {"names": {"name": pl.String}, "events": EVENT_COLUMNS, **SIDE_FRAMES}
    if {name: dict(frame.schema) for name, frame in frames.items()} != columns:
        return False
    return _are_rows(frames["events"]["kind"], len(KINDS)) and all(
        _are_rows(frames[name][column], frames[of].height)
        for name, references in ROWS_OF.items()
        for column, of in references.items()
    )


def _are_rows(references: pl.Series, height: int) -> bool:
    least, most = references.min(), references.max()
    return references.is_empty() or (isinstance(least, int) and isinstance(most, int) and -1 <= least <= most < height)

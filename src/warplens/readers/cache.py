"""Parsed traces on disk, so that the second open is instant.

One directory per trace, named by the hash of the file's bytes and of everything that shapes the result (this
package's version and the columns). Arrow files, uncompressed: they load as fast as the disk reads. Written whole
or not at all; anything unreadable counts as absent. The oldest entries go when the cache is over its size.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import msgspec
import polars as pl

from warplens import __version__
from warplens.model.quality import Note, Quality
from warplens.model.trace import EVENT_COLUMNS, SIDE_FRAMES, Meta, Trace

CACHE_VERSION = 1
DEFAULT_LIMIT_BYTES = 2 << 30
FRAMES = ("events", *SIDE_FRAMES)


class _Head(msgspec.Struct):
    meta: Meta
    notes: list[tuple[str, int, str]]


def cache_directory() -> Path:
    """`$WARPLENS_CACHE`, else the user's cache directory."""
    chosen = os.environ.get("WARPLENS_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "warplens"


def key(content_hash: str) -> str:
    shape = f"{CACHE_VERSION} {__version__} {sorted(EVENT_COLUMNS)} {SIDE_FRAMES}"
    return f"{content_hash}-{hashlib.blake2b(shape.encode(), digest_size=4).hexdigest()}"


def load(content_hash: str, source: str) -> Trace | None:
    """The cached trace, or None."""
    folder = cache_directory() / key(content_hash)
    try:
        head = msgspec.json.decode((folder / "head.json").read_bytes(), type=_Head)
        frames = {name: pl.read_ipc(folder / f"{name}.arrow") for name in FRAMES}
        names = pl.read_ipc(folder / "names.arrow")["name"].to_list()
        os.utime(folder)
    except (OSError, msgspec.DecodeError, pl.exceptions.PolarsError):
        return None
    if any(frames[name].columns != list(schema) for name, schema in SIDE_FRAMES.items()):
        return None
    meta = msgspec.structs.replace(head.meta, source=source)
    return Trace(meta=meta, names=names, quality=Quality(tuple(Note(*note) for note in head.notes)), **frames)


def save(trace: Trace) -> None:
    """Keep a trace; a full disk or a read-only home is no reason to fail."""
    directory = cache_directory()
    target = directory / key(trace.meta.content_hash)
    with contextlib.suppress(OSError, pl.exceptions.PolarsError):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        staging = Path(tempfile.mkdtemp(prefix="writing-", dir=directory))
        try:
            _write(trace, staging)
            shutil.rmtree(target, ignore_errors=True)  # a damaged entry: a directory is not renamed over another
            staging.replace(target)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        _evict(directory, target)


def _write(trace: Trace, folder: Path) -> None:
    for name in FRAMES:
        getattr(trace, name).write_ipc(folder / f"{name}.arrow")
    pl.DataFrame({"name": pl.Series(trace.names, dtype=pl.String)}).write_ipc(folder / "names.arrow")
    notes = [(note.code, note.count, note.detail) for note in trace.quality.notes]
    (folder / "head.json").write_bytes(msgspec.json.encode(_Head(trace.meta, notes)))


def _evict(directory: Path, newest: Path) -> None:
    limit = int(os.environ.get("WARPLENS_CACHE_BYTES") or DEFAULT_LIMIT_BYTES)
    entries = sorted(directory.iterdir(), key=lambda entry: entry.stat().st_mtime, reverse=True)
    used = 0
    for entry in entries:
        used += sum(file.stat().st_size for file in entry.iterdir()) if entry.is_dir() else 0
        if used > limit and entry != newest and entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)

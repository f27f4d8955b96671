"""Parsed traces on disk, so that the second open is instant.

One directory per trace, named by the hash of the file's bytes and of everything that shapes the result (this
package's version and code, and the columns). Arrow files, uncompressed: they load as fast as the disk reads, and
their checksums are compared first, because a damaged Arrow file can take the process down. Written whole or not at
all; anything unreadable counts as absent. The oldest entries go when the cache is over its size.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec
import polars as pl

from warplens import __version__, native_library
from warplens.errors import UsageError, WarplensError
from warplens.files import TEMPORARY_FOLDER, whole_folder
from warplens.model.quality import Note, Quality
from warplens.model.trace import EVENT_COLUMNS, SIDE_FRAMES, Meta, Trace
from warplens.units import parse_bytes

DEFAULT_LIMIT_BYTES = 2 << 30
ROOMS = ("model", "readers", "passes")
FRAMES = ("events", *SIDE_FRAMES)
NO_PLACE = (OSError, RuntimeError)
"""A `RuntimeError` is what Python has for a user without a home, as in many a container."""
ENTRY = re.compile(rf"[0-9a-f]{{32}}-[0-9a-f]{{8}}|{TEMPORARY_FOLDER}\w+")
"""What our own entries are called: nothing else in the directory is ever removed."""


class _CacheHead(msgspec.Struct):
    meta: Meta
    notes: list[tuple[str, int, str]]
    checksums: dict[str, int]


def cache_directory() -> Path:
    """`$WARPLENS_CACHE`, else the user's cache directory."""
    chosen = os.environ.get("WARPLENS_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "warplens"


def key(content_hash: str) -> str:
    return f"{content_hash}-{code_hash(ROOMS, f'{sorted(EVENT_COLUMNS)} {SIDE_FRAMES}')}"


def code_hash(rooms: Sequence[str], columns: str) -> str:
    """Changes with whatever could make the same file read differently: the code of these rooms, and the columns."""
    package = Path(__file__).parents[1]
    files = sorted(file for room in rooms for file in (package / room).rglob("*.*") if file.suffix in (".py", ".toml"))
    files += package.glob(native_library.LIBRARY.name)
    code = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return hashlib.blake2b(f"{__version__} {code} {columns}".encode(), digest_size=4).hexdigest()


def load(content_hash: str, source: str) -> Trace | None:
    """The cached trace, or None."""
    try:
        folder = cache_directory() / key(content_hash)
        head = msgspec.json.decode((folder / "head.json").read_bytes(), type=_CacheHead)
        frames = {name: _read_frame(folder, name, head.checksums) for name in FRAMES}
        names = _read_frame(folder, "names", head.checksums)["name"].to_list()
        os.utime(folder)
    except (*NO_PLACE, ValueError, KeyError, msgspec.DecodeError, pl.exceptions.PolarsError):
        return None
    meta = msgspec.structs.replace(head.meta, source=source)
    return Trace(meta=meta, names=names, quality=Quality(tuple(Note(*note) for note in head.notes)), **frames)


def save(trace: Trace) -> None:
    """Keep a trace; a full disk or a read-only home is ignored."""
    with contextlib.suppress(*NO_PLACE, WarplensError, pl.exceptions.PolarsError):
        directory = cache_directory()
        target = directory / key(trace.meta.content_hash)
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with whole_folder(target) as staging:
            _write(trace, staging)
        evict(target)


def _write(trace: Trace, folder: Path) -> None:
    frames = {name: getattr(trace, name) for name in FRAMES}
    frames["names"] = pl.DataFrame({"name": pl.Series(trace.names, dtype=pl.String)})
    checksums = {name: _write_frame(folder, name, frame) for name, frame in frames.items()}
    notes = [(note.code, note.count, note.detail) for note in trace.quality.notes]
    # Where the file lay is said anew at each load; its name may hold what no JSON can.
    meta = msgspec.structs.replace(trace.meta, source="")
    (folder / "head.json").write_bytes(msgspec.json.encode(_CacheHead(meta, notes, checksums)))


def _write_frame(folder: Path, name: str, frame: pl.DataFrame) -> int:
    path = folder / f"{name}.arrow"
    frame.write_ipc(path)
    return _checksum(path)


def _read_frame(folder: Path, name: str, checksums: dict[str, int]) -> pl.DataFrame:
    path = folder / f"{name}.arrow"
    if _checksum(path) != checksums[name]:
        raise ValueError(f"{name} is damaged")
    return pl.read_ipc(path)


def _checksum(path: Path) -> int:
    from isal import isal_zlib

    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return int(isal_zlib.crc32(content))


def _limit_bytes() -> int:
    try:
        return parse_bytes(os.environ.get("WARPLENS_CACHE_BYTES") or "") or DEFAULT_LIMIT_BYTES
    except UsageError:
        return DEFAULT_LIMIT_BYTES


def evict(newest: Path) -> None:
    """Remove the oldest entries where the cache is over its size."""
    limit, directory = _limit_bytes(), newest.parent
    entries = [entry for entry in directory.iterdir() if ENTRY.fullmatch(entry.name) and entry.is_dir()]
    used = 0
    for entry in sorted(entries, key=lambda entry: entry.stat().st_mtime, reverse=True):
        used += sum(file.stat().st_size for file in entry.iterdir())
        if used > limit and entry != newest:
            shutil.rmtree(entry, ignore_errors=True)

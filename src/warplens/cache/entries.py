"""One entry: a folder with a head, Arrow frames and their checksums, written whole or not at all.

What cannot be read or is damaged counts as absent. Checksums are compared before anything is parsed, because a damaged
Arrow file can take the process down.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec
import polars as pl

from warplens.cache import place
from warplens_run.base.errors import WarplensError
from warplens_run.base.files import whole_folder

HEAD: Final = "head.json"
CHECKSUMS: Final = "checksums.json"
"""Those of the other files, by name."""
LARGE_BYTES: Final = 1 << 20
"""Larger frames are Arrow files of their own: as streams they would be copied in memory."""
LARGE_TEXT_BYTES: Final = 32 << 20
"""Larger frames with texts are packed: names repeat each other, and to write and hash all of them takes longer."""
SMALL: Final = "small.arrows"
"""All other frames, as streams: of forty files, most of the time would go into opening them."""
Compression = Literal["uncompressed", "lz4"]
UNREADABLE: Final = (*place.NO_PLACE, ValueError, KeyError, msgspec.DecodeError, pl.exceptions.PolarsError)
"""What reading an entry that is not whole can end with."""


class Entry(msgspec.Struct, frozen=True):
    head: bytes
    frames: dict[str, pl.DataFrame]


def load(name: str) -> Entry | None:
    """The entry of this name, now the one used last; None where there is none that is whole."""
    try:
        folder = place.cache_directory() / name
        checksums = msgspec.json.decode((folder / CHECKSUMS).read_bytes(), type=dict[str, str])
        contents = {file: _checked(folder / file, checksum) for file, checksum in checksums.items()}
        frames = {name: pl.read_ipc_stream(part) for name, part in _unpacked(contents.pop(SMALL)).items()}
        large = (file for file in contents if file != HEAD)
        frames |= {file.removesuffix(".arrow"): pl.read_ipc(contents[file]) for file in large}
        os.utime(folder)
        return Entry(contents[HEAD], frames)
    except UNREADABLE:
        return None


def save(
    name: str,
    head: bytes,
    frames: Mapping[str, pl.DataFrame],
    *,
    compression: Compression = "uncompressed",
    evicts: bool = True,
) -> None:
    """Keep an entry; a full disk or a read-only home is ignored.

    Where it `evicts`, the oldest go if the cache is now over its size; of many entries in a row none should, because
    each time all are looked at.
    """
    with contextlib.suppress(*place.NO_PLACE, WarplensError, pl.exceptions.PolarsError):
        target = place.made_directory() / name
        with whole_folder(target) as staging:
            (staging / HEAD).write_bytes(head)
            large = {frame_name for frame_name, frame in frames.items() if frame.estimated_size() > LARGE_BYTES}
            for frame_name in large:
                frame = frames[frame_name]
                packing: Compression = "lz4" if _is_long_text(frame) else compression
                frame.write_ipc(staging / f"{frame_name}.arrow", compression=packing)
            small = {each: _stream(frame, compression) for each, frame in frames.items() if each not in large}
            (staging / SMALL).write_bytes(_packed(small))
            checksums = {file.name: _checksum(file) for file in staging.iterdir()}
            (staging / CHECKSUMS).write_bytes(msgspec.json.encode(checksums))
        if evicts:
            place.evict(target)


def _is_long_text(frame: pl.DataFrame) -> bool:
    return frame.estimated_size() > LARGE_TEXT_BYTES and pl.String in frame.dtypes


def _stream(frame: pl.DataFrame, compression: Compression) -> bytes:
    return frame.write_ipc_stream(None, compression=compression).getvalue()


def _packed(parts: Mapping[str, bytes]) -> bytes:
    """The names and sizes as a line of JSON, then the parts one after the other."""
    index = msgspec.json.encode([(name, len(part)) for name, part in parts.items()])
    return b"".join((index, b"\n", *parts.values()))


def _unpacked(content: bytes) -> dict[str, bytes]:
    index, _, rest = content.partition(b"\n")
    parts: dict[str, bytes] = {}
    at = 0
    for name, size in msgspec.json.decode(index, type=list[tuple[str, int]]):
        parts[name] = rest[at : at + size]
        at += size
    return parts


def _checksum(path: Path) -> str:
    """Without a copy of a large frame in memory."""
    checksum = hashlib.blake2b(digest_size=16)
    with path.open("rb", buffering=0) as stream:
        while piece := stream.read(LARGE_BYTES):
            checksum.update(piece)
    return checksum.hexdigest()


def _checked(path: Path, checksum: str) -> bytes:
    content = path.read_bytes()
    if hashlib.blake2b(content, digest_size=16).hexdigest() != checksum:
        raise ValueError(f"{path.name} is damaged")
    return content

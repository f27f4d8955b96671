"""The first bytes of a file's text, for what is decided before it is opened."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from warplens.readers.shared.stored_file import GZIP_MAGIC, GZIP_WBITS, STEP_BYTES, text_start
from warplens_run.base.files import is_stream

MOST_PACKED_SPACE: Final = 4 << 20
"""White space before the text of a packed file: a few kilobytes can unpack to any amount of it."""


def head_of(path: Path, size: int) -> bytes:
    """At most `size` bytes, unpacked, behind white space; fewer where it cannot be read: opening it reports why."""
    head = b""
    if is_stream(path):  # it may have no end, and can be read only once
        return head
    try:
        with path.open("rb") as file:
            for chunk in _chunks(file):
                head = head + chunk if head else chunk[text_start(chunk) :]
                if len(head) >= size:
                    break
    except (OSError, ValueError, zlib.error):
        pass
    return head[:size]


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    stored = file.read(STEP_BYTES)
    if not stored.startswith(GZIP_MAGIC):
        while stored:
            yield stored
            stored = file.read(STEP_BYTES)
        return
    unpacking, unpacked = zlib.decompressobj(wbits=GZIP_WBITS), 0
    while stored and unpacked < MOST_PACKED_SPACE:
        chunk = unpacking.decompress(stored, STEP_BYTES)
        unpacked += len(chunk)
        yield chunk
        stored = unpacking.unconsumed_tail or file.read(STEP_BYTES)

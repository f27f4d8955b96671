"""Bytes of a profile, plain, gzip or zip, recognized by content and never by name."""

from __future__ import annotations

import hashlib
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from warplens.errors import FormatError
from warplens.files import content_hash
from warplens.model.quality import Note

GZIP_MAGIC = b"\x1f\x8b"
ZIP_MAGIC = b"PK\x03\x04"
MAX_TEXT_BYTES = 32 << 30
"""A bomb guard: a wrapped file that unpacks to more than this is refused."""

UNFINISHED = "check that the export finished and the file is complete"
GZIP_WBITS = 31
STEP_BYTES = 1 << 16
CHUNK_BYTES = 1 << 19
PACKED_CHUNK_BYTES = 1 << 15
"""Traces unpack to 10 or 20 times their size: what comes out still fits in a core's cache when it is read."""
PADDING = re.compile(rb"\0*")
BEFORE_TEXT = re.compile(rb"(?:\xef\xbb\xbf)?\s*")
"""A byte order mark and white space, which are no part of a text."""
ENCRYPTED = 1
DAMAGED_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    OSError,
    EOFError,
    ValueError,
    IndexError,
    NotImplementedError,
    RuntimeError,
)
"""What the standard library raises on archives that are not whole, or packed in a way it does not know."""


class NotWholeError(Exception):
    """The content does not come out whole in chunks; `StoredFile.unwrap` finds what there is of it, and says so."""


@dataclass(frozen=True)
class StoredFile:
    """A file's identity (hash of the bytes on disk) and its unwrapped content."""

    path: Path
    stored: bytes = field(repr=False)

    @cached_property
    def content_hash(self) -> str:
        try:
            return content_hash(self.path, self.stored)
        except (OSError, ValueError):  # a member of an archive
            return hashlib.blake2b(self.stored, digest_size=16).hexdigest()

    def unwrap(self) -> tuple[bytes, list[Note]]:
        """The content and notes on what was lost on the way."""
        if self.stored.startswith(GZIP_MAGIC):
            return _gunzip(self.stored, str(self.path))
        if self.stored.startswith(ZIP_MAGIC):
            return _unzip(self.stored, str(self.path))
        return self.stored, []

    def chunks(self) -> Iterator[bytes]:
        """The content piece by piece; raises `NotWholeError` where `unwrap` would have notes."""
        if self.stored.startswith(ZIP_MAGIC):
            text, notes = self.unwrap()
            if notes:
                raise NotWholeError
            return slices(text)
        if self.stored.startswith(GZIP_MAGIC):
            return _gunzip_chunks(self.stored)
        return slices(self.stored)


def slices(content: bytes) -> Iterator[bytes]:
    """The content in chunks, for what takes it so."""
    return (content[at : at + CHUNK_BYTES] for at in range(0, len(content), CHUNK_BYTES))


def text_start(content: bytes) -> int:
    """Where the text of a content begins: at its end where there is none."""
    return cast(re.Match[bytes], BEFORE_TEXT.match(content)).end()


def load(path: Path) -> StoredFile:
    """The file's bytes, or one clear line on why there are none."""
    try:
        stored = path.read_bytes()
    except IsADirectoryError:
        raise FormatError("is a directory", where=str(path), hint="name a trace file in it") from None
    except FileNotFoundError:
        raise FormatError("no such file", where=str(path), hint="check the path") from None
    except PermissionError:
        raise FormatError("no permission to read it", where=str(path), hint="chmod +r, or ask its owner") from None
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}", where=str(path)) from None
    except ValueError as error:  # a NUL in the name
        raise FormatError(f"cannot be read: {error}", where=str(path)) from None
    if not stored:
        raise FormatError("the file is empty", where=str(path), hint=UNFINISHED)
    return StoredFile(path, stored)


def _gunzip(stored: bytes, where: str) -> tuple[bytes, list[Note]]:
    """The members of a gzip file, one after the other."""
    from isal import isal_zlib

    broken_stream = cast(type[Exception], isal_zlib.error)  # its stub declares an instance
    members: list[bytes] = []
    position = 0
    while position < len(stored):
        if not stored.startswith(GZIP_MAGIC, position):
            return _joined(members, where), [Note("damaged", 1, "data after the end of the gzip stream")]
        decompressor = isal_zlib.decompressobj(wbits=GZIP_WBITS)
        try:
            # Nearly every file is one member; of many, each must not be handed all that follows it.
            at = _feed(decompressor, stored, position, len(stored) if position == 0 else STEP_BYTES, members)
        except (broken_stream, ValueError, EOFError) as error:
            members += _decompress_until_error(stored, position)
            return _joined(members, where), [Note("truncated", detail=f"the gzip stream is damaged ({error})")]
        if not decompressor.eof:
            return _joined(members, where), [Note("truncated", detail="the gzip stream is incomplete")]
        position = _padding_end(stored, at)
    return _joined(members, where), []


def _gunzip_chunks(stored: bytes) -> Iterator[bytes]:
    from isal import isal_zlib

    broken_stream = cast(type[Exception], isal_zlib.error)
    view = memoryview(stored)
    position = size = 0
    while position < len(stored):
        if not stored.startswith(GZIP_MAGIC, position):
            raise NotWholeError
        decompressor = isal_zlib.decompressobj(wbits=GZIP_WBITS)
        while position < len(stored) and not decompressor.eof:
            step = view[position : position + PACKED_CHUNK_BYTES]
            try:
                chunk = decompressor.decompress(step)
            except (broken_stream, ValueError, EOFError):
                raise NotWholeError from None
            position += len(step)
            size += len(chunk)
            if size >= MAX_TEXT_BYTES:
                raise NotWholeError
            yield chunk
        if not decompressor.eof:
            raise NotWholeError
        position = _padding_end(stored, position - len(decompressor.unused_data))
    if size == 0:
        raise NotWholeError


def _feed(decompressor: Any, stored: bytes, position: int, step: int, parts: list[bytes]) -> int:
    """Decompress one member from `position`; returns where it ends. What came out before an error is not kept."""
    view = memoryview(stored)
    own: list[bytes] = []
    while position < len(stored) and not decompressor.eof:
        own.append(decompressor.decompress(view[position : position + step], MAX_TEXT_BYTES))
        position = min(position + step, len(stored))
        if decompressor.unconsumed_tail:
            break
    parts += own
    return position - len(decompressor.unused_data)


def _padding_end(stored: bytes, position: int) -> int:
    zeros = PADDING.match(stored, position)
    return zeros.end() if zeros else position


def _joined(members: list[bytes], where: str) -> bytes:
    size = sum(map(len, members))
    if size >= MAX_TEXT_BYTES:
        raise FormatError(f"unpacks to more than {MAX_TEXT_BYTES >> 30} GiB", where=where)
    if size == 0:
        raise FormatError("gzip file without readable content", where=where, hint=UNFINISHED)
    return members[0] if len(members) == 1 else b"".join(members)


def _decompress_until_error(stored: bytes, position: int) -> list[bytes]:
    """What comes out before the damage: in steps, and the last step byte by byte."""
    decompressor = zlib.decompressobj(wbits=GZIP_WBITS)
    parts: list[bytes] = []
    for at in range(position, len(stored), STEP_BYTES):
        before = decompressor.copy()
        step = stored[at : at + STEP_BYTES]
        try:
            parts.append(decompressor.decompress(step))
        except zlib.error:
            with suppress(zlib.error):
                parts.extend(before.decompress(step[index : index + 1]) for index in range(len(step)))
            break
        if sum(map(len, parts)) >= MAX_TEXT_BYTES:
            break
    return parts


def _unzip(stored: bytes, where: str) -> tuple[bytes, list[Note]]:
    try:
        with zipfile.ZipFile(io.BytesIO(stored)) as archive:
            members = [member for member in archive.infolist() if not member.is_dir() and member.file_size]
            if not members:
                raise FormatError("zip archive without files", where=where)
            best = max(members, key=lambda member: (_looks_like_trace(member.filename), member.file_size))
            if best.flag_bits & ENCRYPTED:
                raise FormatError("the zip archive is encrypted", where=where, hint="unpack it first")
            if best.compress_type == zipfile.ZIP_LZMA:  # its errors live in a module that some Pythons lack
                raise FormatError("the zip archive is packed with LZMA", where=where, hint="unpack it first")
            if best.file_size > MAX_TEXT_BYTES:
                raise FormatError(f"unpacks to more than {MAX_TEXT_BYTES >> 30} GiB", where=where)
            text = archive.read(best)
    except DAMAGED_ZIP as error:
        raise FormatError(f"damaged zip archive ({error})", where=where) from None
    notes = [Note("zip_members", detail=best.filename)] if len(members) > 1 else []
    if text.startswith(GZIP_MAGIC):
        text, more = _gunzip(text, where)
        notes += more
    return text, notes


def _looks_like_trace(filename: str) -> bool:
    return filename.endswith((".json", ".json.gz"))

"""Bytes of a profile, plain or packed (gzip, zip, tar), recognized by content and never by name."""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from warplens.model.quality import Note
from warplens.readers.shared.unpack_limit import REPETITION_BYTES, UnpackLimit
from warplens_run.base.errors import FormatError
from warplens_run.base.files import content_hash, is_stream

GZIP_MAGIC = b"\x1f\x8b"
ZIP_MAGIC = b"PK\x03\x04"
TAR_MAGIC, TAR_MAGIC_AT = b"ustar", 257
UNFINISHED = "check that the export finished and the file is complete"
GZIP_WBITS = 31
RAW_WBITS = -15
PLAIN_HEADER = re.compile(rb"\x1f\x8b\x08(?:\0.{6}|\x08.{6}[^\0]{0,4096}\0)", re.DOTALL)
"""The header of a gzip member without extra fields: with a file name, or without."""
TRAILER = struct.Struct("<II")
"""What ends a member: the CRC-32 and the size of its content."""
STEP_BYTES = 1 << 16
CHUNK_BYTES = 1 << 19
BEGINNING_BYTES = 1 << 16
"""Packed, of one repeated byte: they unpack to twice what may come out before the ratio counts."""
PACKED_CHUNK_BYTES = 1 << 15
"""Traces unpack to 10 or 20 times their size: what comes out still fits in a core's cache when it is read."""
PADDING = re.compile(rb"\0*")
BEFORE_TEXT = re.compile(rb"(?:\xef\xbb\xbf)?\s*")
"""A byte order mark and white space, which are no part of a text."""


class NotWholeError(Exception):
    """The content does not come out whole in chunks; `StoredFile.unwrap` finds what there is of it, and says so."""


@dataclass(frozen=True)
class StoredFile:
    """A file's identity (hash of the bytes on disk) and its unwrapped content."""

    path: Path
    stored: bytes = field(repr=False)
    max_bytes: int = 0
    """What the user allows it to unpack to; 0: by its size and the free memory."""

    @property
    def _limit(self) -> UnpackLimit:
        return UnpackLimit(len(self.stored), str(self.path), self.max_bytes)

    @cached_property
    def content_hash(self) -> str:
        try:
            return content_hash(self.path, self.stored)
        except (OSError, ValueError):  # a member of an archive
            return hashlib.blake2b(self.stored, digest_size=16).hexdigest()

    def unwrap(self) -> tuple[bytes, list[Note]]:
        """The content and notes on what was lost on the way."""
        if self.stored.startswith(ZIP_MAGIC):
            return _unzip(self.stored, self._limit)
        text, notes = gunzip(self.stored, self._limit) if self.stored.startswith(GZIP_MAGIC) else (self.stored, [])
        if text.startswith(TAR_MAGIC, TAR_MAGIC_AT):
            text, more = _untar(text, self._limit)
            notes = [*notes, *more]
        return text, notes

    def chunks(self) -> Iterator[bytes]:
        """The content piece by piece; raises `NotWholeError` where `unwrap` would have notes, `FormatError` where it is
        too large."""
        if self.stored.startswith(ZIP_MAGIC):
            text, notes = self.unwrap()
            if notes:
                raise NotWholeError
            return slices(text)
        if self.stored.startswith(GZIP_MAGIC):
            return _gunzip_chunks(self.stored, self._limit)
        return slices(self.stored)


def slices(content: bytes) -> Iterator[bytes]:
    """The content in chunks, for what takes it so."""
    return (content[at : at + CHUNK_BYTES] for at in range(0, len(content), CHUNK_BYTES))


def text_start(content: bytes) -> int:
    """Where the text of a content begins: at its end where there is none."""
    return cast(re.Match[bytes], BEFORE_TEXT.match(content)).end()


def refuse_stream(path: Path) -> None:
    """A pipe can be read only once and may wait for its writer; a device may have no end."""
    if is_stream(path):
        raise FormatError("a pipe or a device, not a file", where=str(path), hint="save what it has to a file first")


def load(path: Path, max_bytes: int = 0) -> StoredFile:
    """The file's bytes, or one clear line on why there are none."""
    refuse_stream(path)
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
    return StoredFile(path, stored, max_bytes)


def gunzip(stored: bytes, limit: UnpackLimit) -> tuple[bytes, list[Note]]:
    """The members of a gzip file, one after the other."""
    from isal import isal_zlib

    broken_stream = cast(type[Exception], isal_zlib.error)  # its stub declares an instance
    members: list[bytes] = []
    position = size = 0
    _check_beginning(stored, limit)
    while position < len(stored):
        if not stored.startswith(GZIP_MAGIC, position):
            return _joined(members, limit), [Note("damaged", 1, "data after the end of the gzip stream")]
        decompressor = isal_zlib.decompressobj(wbits=GZIP_WBITS)
        try:
            # Nearly every file is one member; of many, each must not be handed all that follows it.
            step = len(stored) if position == 0 else STEP_BYTES
            own, at = _feed(decompressor, stored, position, step, size, limit)
        except (broken_stream, ValueError, EOFError) as error:
            members += _decompress_until_error(stored, position, limit)
            return _joined(members, limit), [Note("truncated", detail=f"the gzip stream is damaged ({error})")]
        members += own
        size += sum(map(len, own))
        if not decompressor.eof:
            return _joined(members, limit), [Note("truncated", detail="the gzip stream is incomplete")]
        position = _padding_end(stored, at)
    return _joined(members, limit), []


def _check_beginning(stored: bytes, limit: UnpackLimit) -> None:
    """Refuse a file of one repeated byte before memory is taken for it."""
    unpacking = zlib.decompressobj(wbits=GZIP_WBITS)
    with suppress(zlib.error):
        beginning = unpacking.decompress(memoryview(stored)[:BEGINNING_BYTES], REPETITION_BYTES + 1)
        limit.check(len(beginning), min(BEGINNING_BYTES, len(stored)) - len(unpacking.unconsumed_tail))


def _gunzip_chunks(stored: bytes, limit: UnpackLimit) -> Iterator[bytes]:
    from isal import isal_zlib

    broken_stream = cast(type[Exception], isal_zlib.error)
    view = memoryview(stored)
    position = size = 0
    while position < len(stored):
        body = _plain_member_body(stored, position)
        if body is None and not stored.startswith(GZIP_MAGIC, position):
            raise NotWholeError
        # Checked here, a plain member takes three quarters of the time: `isal` sums up slowly while it unpacks.
        decompressor = isal_zlib.decompressobj(wbits=GZIP_WBITS if body is None else RAW_WBITS)
        position = position if body is None else body
        crc = own_size = 0
        while position < len(stored) and not decompressor.eof:
            step = view[position : position + PACKED_CHUNK_BYTES]
            try:
                chunk = decompressor.decompress(step)
            except (broken_stream, ValueError, EOFError):
                raise NotWholeError from None
            position += len(step)
            size += len(chunk)
            limit.check(size, position)
            if body is not None:
                crc, own_size = isal_zlib.crc32(chunk, crc), own_size + len(chunk)
            yield chunk
        if not decompressor.eof:
            raise NotWholeError
        position -= len(decompressor.unused_data)
        if body is not None:
            if stored[position : position + TRAILER.size] != TRAILER.pack(crc, own_size & 0xFFFFFFFF):
                raise NotWholeError
            position += TRAILER.size
        position = _padding_end(stored, position)
    if size == 0:
        raise NotWholeError


def _plain_member_body(stored: bytes, position: int) -> int | None:
    """Where the packed data of a gzip member begin that has at most a file name before them; None for others."""
    header = PLAIN_HEADER.match(stored, position)
    return header.end() if header else None


def _feed(
    decompressor: Any, stored: bytes, position: int, step: int, size: int, limit: UnpackLimit
) -> tuple[list[bytes], int]:
    """Decompress one member from `position`, where `size` bytes came out before it; returns also where it ends."""
    view = memoryview(stored)
    most = limit.usual_bytes + 1  # a sound file comes out in one piece: joining several would need its size twice
    own: list[bytes] = []
    while not decompressor.eof and (position < len(stored) or (own and len(own[-1]) == most)):
        piece = view[position : position + step]
        own.append(decompressor.decompress(piece, most))
        left = decompressor.unused_data if decompressor.eof else decompressor.unconsumed_tail
        position += len(piece) - len(left)
        size += len(own[-1])
        limit.check(size, position)
    return own, position


def _padding_end(stored: bytes, position: int) -> int:
    zeros = PADDING.match(stored, position)
    return zeros.end() if zeros else position


def _joined(members: list[bytes], limit: UnpackLimit) -> bytes:
    size = sum(map(len, members))
    if size == 0:
        raise FormatError("gzip file without readable content", where=limit.where, hint=UNFINISHED)
    return members[0] if len(members) == 1 else b"".join(members)


def _decompress_until_error(stored: bytes, position: int, limit: UnpackLimit) -> list[bytes]:
    """What comes out before the damage: in steps, and the last step byte by byte."""
    decompressor = zlib.decompressobj(wbits=GZIP_WBITS)
    parts: list[bytes] = []
    size = 0
    for at in range(position, len(stored), STEP_BYTES):
        before = decompressor.copy()
        step = stored[at : at + STEP_BYTES]
        try:
            parts.append(decompressor.decompress(step))
        except zlib.error:
            with suppress(zlib.error):
                parts.extend(before.decompress(step[index : index + 1]) for index in range(len(step)))
            break
        size += len(parts[-1])
        limit.check(size, at + len(step))
    return parts


def _unzip(stored: bytes, limit: UnpackLimit) -> tuple[bytes, list[Note]]:
    from warplens.readers.shared.zip_archive import take_member  # 5 ms with what unpacks, for archives alone

    text, name, names = take_member(stored, limit, lambda file: (_looks_like_trace(file.filename), file.file_size))
    return _unwrapped(text, limit, _member_notes(name, names))


def _untar(content: bytes, limit: UnpackLimit) -> tuple[bytes, list[Note]]:
    from warplens.readers.shared.tar_archive import take_member

    text, name, names, notes = take_member(content, limit.where, lambda file: (_looks_like_trace(file.name), file.size))
    return _unwrapped(text, limit, [*notes, *_member_notes(name, names)])


def _unwrapped(member: bytes, limit: UnpackLimit, notes: list[Note]) -> tuple[bytes, list[Note]]:
    """The content of an archive's file, which may be packed once more."""
    if not member.startswith(GZIP_MAGIC):
        return member, notes
    text, more = gunzip(member, limit)
    return text, notes + more


def _member_notes(chosen: str, names: list[str]) -> list[Note]:
    traces = sum(map(_looks_like_trace, names))
    if traces > 1:
        return [Note("archive_traces", traces, chosen)]
    return [Note("zip_members", detail=chosen)] if len(names) > 1 else []


def _looks_like_trace(filename: str) -> bool:
    return filename.endswith((".json", ".json.gz"))

"""Packings besides gzip and zip, imported where a file needs them: bzip2 and xz streams, and tar archives."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO, Final, NamedTuple, cast

from warplens.errors import FormatError
from warplens.model.quality import Note
from warplens.readers.shared.tar_members import Member, tar_members
from warplens.readers.shared.unpack_limit import UnpackLimit

STEP_BYTES: Final = 1 << 16
MOST_PIECE_BYTES: Final = 1 << 20
"""What may come out at once: a few packed bytes can be any amount of one byte."""
MOST_DICTIONARY_BYTES: Final = 256 << 20
"""xz -9 needs 65 MB."""
PADDING: Final = re.compile(rb"\0*")


class Packing(NamedTuple):
    name: str
    magic: bytes
    opener: Callable[[], tuple[Callable[[], Any], type[Exception]]]
    """Imports what unpacks it, and what that raises of damage."""


def _bzip2() -> tuple[Callable[[], Any], type[Exception]]:
    from bz2 import BZ2Decompressor

    return BZ2Decompressor, OSError


def _xz() -> tuple[Callable[[], Any], type[Exception]]:
    from lzma import FORMAT_XZ, LZMADecompressor, LZMAError

    return partial(LZMADecompressor, FORMAT_XZ, MOST_DICTIONARY_BYTES), LZMAError


PACKINGS: Final = (Packing("bzip2", b"BZh", _bzip2), Packing("xz", b"\xfd7zXZ\0", _xz))


def unpack(stored: bytes, limit: UnpackLimit) -> tuple[bytes, list[Note]]:
    """The content of a file that begins with the magic of one of `PACKINGS`, and notes on what was lost."""
    packing = next(packing for packing in PACKINGS if stored.startswith(packing.magic))
    try:
        new, damage = packing.opener()
    except ImportError:
        hint = f"unpack it first: {packing.name} -d FILE"
        raise FormatError(
            f"packed with {packing.name}, which this Python lacks", where=limit.where, hint=hint
        ) from None
    parts: list[bytes] = []
    note: list[Note] = []
    try:
        _take_streams(stored, packing, new, parts, limit)
    except EOFError:
        note = [Note("truncated", detail=f"the {packing.name} stream is incomplete")]
    except (damage, ValueError) as error:
        note = [Note("truncated", detail=f"the {packing.name} stream is damaged ({error})")]
    if not any(parts):
        hint = "check that the export finished and the file is complete"
        raise FormatError(f"{packing.name} file without readable content", where=limit.where, hint=hint)
    return b"".join(parts), note


def first_piece(stored: bytes, file: BinaryIO) -> bytes:
    """What comes out first of a file that begins with `stored`; nothing where it cannot be unpacked."""
    packing = next(packing for packing in PACKINGS if stored.startswith(packing.magic))
    try:
        new, damage = packing.opener()
    except ImportError:
        return b""
    stream, piece = new(), b""
    try:
        while stored and not piece and not stream.eof:
            piece = stream.decompress(stored, MOST_PIECE_BYTES)
            stored = file.read(STEP_BYTES)
    except (damage, ValueError, EOFError):
        return b""
    return piece


def _take_streams(
    stored: bytes, packing: Packing, new: Callable[[], Any], parts: list[bytes], limit: UnpackLimit
) -> None:
    """One stream after the other, as programs that pack on several cores write them."""
    view = memoryview(stored)
    position = size = 0
    while stored.startswith(packing.magic, position):
        stream = new()
        while not stream.eof:
            if stream.needs_input and position == len(stored):
                raise EOFError
            piece = view[position : position + STEP_BYTES] if stream.needs_input else b""
            position += len(piece)
            parts.append(stream.decompress(piece, MOST_PIECE_BYTES))
            size += len(parts[-1])
            limit.check(size, position)
        position = cast(re.Match[bytes], PADDING.match(stored, position - len(stream.unused_data))).end()


def take_member(
    content: bytes, where: str, order: Callable[[Member], tuple[bool, int]]
) -> tuple[bytes, str, list[str], list[Note]]:
    """The file of a tar archive that is highest in `order`, its name, the names of all, and notes on damage."""
    files, damage = tar_members(content)
    if not files:
        what = f"damaged tar archive ({damage})" if damage else "tar archive without files"
        raise FormatError(what, where=where)
    best = max(files, key=order)
    notes = [Note("truncated", detail=f"the tar archive is damaged ({damage})")] if damage else []
    return content[best.start : best.start + best.size], best.name, [file.name for file in files], notes

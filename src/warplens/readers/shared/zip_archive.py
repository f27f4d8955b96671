"""Files of zip archives, imported where an input is one."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from warplens.readers.shared.unpack_limit import UnpackLimit
from warplens_run.base.errors import FormatError

STEP_BYTES: Final = 1 << 16
BZIP2_STEP_BYTES: Final = 1 << 12
"""Packed, and the least that the standard library takes: up to 80 MB of one repeated byte."""
ENCRYPTED: Final = 1
CUT_MEMBER: Final = "a file in it ends too early"
"""What Python says nothing for."""
DAMAGED_ZIP: Final = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    OSError,
    EOFError,
    ValueError,
    IndexError,
    NotImplementedError,
    RuntimeError,
    OverflowError,  # an offset of more than 63 bits
)
"""What the standard library raises on archives that are not whole, or packed in a way it does not know."""


def take_member(
    stored: bytes, limit: UnpackLimit, rank: Callable[[zipfile.ZipInfo], Any]
) -> tuple[bytes, str, list[str]]:
    """The content of the file that ranks highest, its name, and the names of all."""
    where = limit.where
    try:
        with zipfile.ZipFile(io.BytesIO(stored)) as archive:
            members = [member for member in archive.infolist() if not member.is_dir() and member.file_size]
            if not members:
                raise FormatError("zip archive without files", where=where)
            best = max(members, key=rank)
            if best.flag_bits & ENCRYPTED:
                raise FormatError("the zip archive is encrypted", where=where, hint="unpack it first")
            if best.compress_type == zipfile.ZIP_LZMA:  # its errors live in a module that some Pythons lack
                raise FormatError("the zip archive is packed with LZMA", where=where, hint="unpack it first")
            content = read_member(archive, best, limit)
    except DAMAGED_ZIP as error:
        raise FormatError(f"damaged zip archive ({str(error) or CUT_MEMBER})", where=where) from None
    return content, best.filename, [member.filename for member in members]


def read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, limit: UnpackLimit) -> bytes:
    """The content of one file of an archive; raises what `DAMAGED_ZIP` lists."""
    limit.check(member.file_size, min(member.compress_size, limit.packed_bytes))
    # In steps: at once, what is packed would come out whole, and only then be cut to the size that is claimed.
    step = BZIP2_STEP_BYTES if member.compress_type == zipfile.ZIP_BZIP2 else STEP_BYTES
    with archive.open(member) as stream:
        return b"".join(iter(partial(stream.read, step), b""))

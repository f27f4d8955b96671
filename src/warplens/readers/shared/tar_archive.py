"""Files of tar archives, imported where an input is one.

Python's tarfile is made for archives that are trusted: it follows chains of headers by recursion and, before 3.12.6,
takes time and memory by the square of a pax header's size. So it reads few and small headers for each file, and a
limited amount in all; the files themselves are cut out of the content.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from warplens.model.quality import Note
from warplens_run.base.errors import FormatError

MOST_HEADER_BYTES: Final = 10 * tarfile.BLOCKSIZE
"""Paths have 4,096 bytes at the most."""
MOST_READS: Final = 24
"""For one file; a sparse one can have more, and is not a profile."""
MOST_WORK: Final = 1 << 33
"""The sum of the squares of what is read: 30,000 files, 10,000 with a pax header each."""
DIGITS: Final = re.compile(rb"\d{64}")
"""In a row: the fields of a header have fewer, and tarfile's patterns for pax records take the square of them."""
MOST_GLOBAL: Final = 100
"""Records for all files: each file's header copies them."""


class Member(NamedTuple):
    name: str
    start: int
    size: int
    """Bytes of it that are there."""


class _Headers(io.BytesIO):
    reads = work = 0

    def read(self, size: int | None = -1, /) -> bytes:
        size = -1 if size is None else size
        self.reads += 1
        self.work += size * size
        if not 0 <= size <= MOST_HEADER_BYTES or self.reads > MOST_READS or self.work > MOST_WORK:
            raise tarfile.ReadError("its headers are too long or too many")
        header = super().read(size)
        if DIGITS.search(header):
            raise tarfile.ReadError("an invalid header")
        return header


def tar_files(content: bytes) -> tuple[list[Member], str]:
    """The regular files that are not empty, up to the archive's end or to damage, and what that is."""
    files: list[Member] = []
    headers = _Headers(content)
    try:
        archive = tarfile.TarFile(fileobj=headers)
        while (member := archive.next()) is not None:
            headers.reads = 0
            archive.members.clear()  # type: ignore[attr-defined]
            if member.size < 0 or len(archive.pax_headers) > MOST_GLOBAL:
                raise tarfile.ReadError("an invalid header")
            size = min(member.size, len(content) - member.offset_data)
            if member.isreg() and not member.issparse() and size > 0:
                files.append(Member(member.name, member.offset_data, size))
    except tarfile.TarError as error:
        return files, str(error)
    except (ValueError, OverflowError):
        return files, "an invalid header"
    end = content[archive.offset : archive.offset + tarfile.BLOCKSIZE]
    return files, "an invalid header" if end.strip(b"\0") else ""


def take_member(content: bytes, where: str, rank: Callable[[Member], Any]) -> tuple[bytes, str, list[str], list[Note]]:
    """The content of the file that ranks highest, its name, the names of all, and notes on damage."""
    files, damage = tar_files(content)
    if not files:
        raise FormatError(f"damaged tar archive ({damage})" if damage else "tar archive without files", where=where)
    best = max(files, key=rank)
    notes = [Note("truncated", detail=f"the tar archive is damaged ({damage})")] if damage else []
    return content[best.start : best.start + best.size], best.name, [file.name for file in files], notes

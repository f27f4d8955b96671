"""The files of a tar archive, from its headers alone (POSIX ustar and pax, and GNU's long names).

Python's tarfile is made for archives that are trusted: it takes 36 µs for each member, of which a small file can have
millions, follows chains of headers by recursion, and goes where a size that is negative or beyond any file sends it.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

BLOCK_BYTES: Final = 512
ZEROS: Final = bytes(BLOCK_BYTES)
MOST_HEADERS: Final = 200_000
"""Three seconds; an archive of that many files is not a profile's."""
MOST_HEADER_BYTES: Final = 1 << 20
"""Of a long name or of pax records: paths have 4,096 bytes at the most."""
REGULAR: Final = (b"0", b"\0", b"7")
WITHOUT_DATA: Final = (b"1", b"2", b"3", b"4", b"5", b"6")
LONG_NAME, PAX = b"L", b"x"
CHECKSUM: Final = slice(148, 156)
OCTAL: Final = re.compile(rb" *([0-7]+)[ \0]*\Z")
PAX_RECORD: Final = re.compile(rb"(\d{1,7}) ([^=]+)=")


class Member(NamedTuple):
    name: str
    start: int
    size: int
    """Bytes of it that are there."""


class TarMembers(NamedTuple):
    files: list[Member]
    """Regular files that are not empty."""
    damage: str
    """What ended the reading early; empty where nothing did."""


class _DamagedError(Exception):
    """The text says how."""


class _Given(NamedTuple):
    """What headers before a member's own say of it."""

    name: str = ""
    size: int | None = None
    is_sparse: bool = False


def tar_members(content: bytes) -> TarMembers:
    """What can be found up to the archive's end, or to damage."""
    files: list[Member] = []
    at, given = 0, _Given()
    try:
        for _ in range(MOST_HEADERS):
            header = content[at : at + BLOCK_BYTES]
            if header == ZEROS or (not header and not given.name):
                return TarMembers(files, "")
            kind, size = _kind_and_size(header)
            size = given.size if given.size is not None and kind not in (LONG_NAME, PAX) else size
            at += BLOCK_BYTES
            if kind in (LONG_NAME, PAX):
                given = _given(content, kind, at, size, given)
            else:
                whole = min(size, len(content) - at)
                if kind in REGULAR and whole > 0 and not given.is_sparse:
                    files.append(Member(given.name or _name(header), at, whole))
                given = _Given()
            if at + size > len(content):
                raise _DamagedError("it ends early")
            at += -(-size // BLOCK_BYTES) * BLOCK_BYTES
    except _DamagedError as error:
        return TarMembers(files, str(error))
    return TarMembers(files, f"more than {MOST_HEADERS:,} members")


def _kind_and_size(header: bytes) -> tuple[bytes, int]:
    if len(header) < BLOCK_BYTES:
        raise _DamagedError("it ends early")
    # The sum of all bytes, with spaces for the sum itself.
    if sum(header) - sum(header[CHECKSUM]) + 8 * ord(" ") != _number(header[CHECKSUM]):
        raise _DamagedError("a header does not have its checksum")
    kind = header[156:157]
    return kind, 0 if kind in WITHOUT_DATA else _number(header[124:136])


def _number(field: bytes) -> int:
    """Octal digits, or, where the first bit is set, the bytes of the number itself."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    if (octal := OCTAL.match(field)) is None:
        raise _DamagedError("a header has an invalid number")
    return int(octal[1], 8)


def _name(header: bytes) -> str:
    name, prefix = _text(header[:100]), _text(header[345:500])
    return f"{prefix}/{name}" if prefix and header[257:263] == b"ustar\0" else name


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode(errors="surrogateescape")


def _given(content: bytes, kind: bytes, start: int, size: int, given: _Given) -> _Given:
    if size > MOST_HEADER_BYTES:
        raise _DamagedError("a header is too long")
    data = content[start : start + size]
    return given._replace(name=_text(data)) if kind == LONG_NAME else _pax(data, given)


def _pax(data: bytes, given: _Given) -> _Given:
    at = 0
    while at < len(data) and (record := PAX_RECORD.match(data, at)) is not None:
        end = at + int(record[1])
        value = data[record.end() : end - 1]
        if record[2] == b"path":
            given = given._replace(name=_text(value))
        elif record[2] == b"size":
            if re.fullmatch(rb"\d{1,18}", value) is None:
                raise _DamagedError("a header has an invalid number")
            given = given._replace(size=int(value))
        elif record[2].startswith(b"GNU.sparse."):
            given = given._replace(is_sparse=True)
        if end <= record.end():
            raise _DamagedError("a header has an invalid number")
        at = end
    return given

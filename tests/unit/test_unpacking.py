"""Packed files that unpack to far more than any profile are refused at once, and with little memory."""

from __future__ import annotations

import bz2
import gzip
import io
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

import warplens
from damage import WHOLE, figures, read, text_of, work
from support import kernel
from warplens.cli import main
from warplens.readers.shared import stored_file, unpack_limit
from warplens.readers.shared.stored_file import NotWholeError, StoredFile
from warplens.readers.shared.unpack_limit import UnpackLimit

SOUND = text_of(work())
GIB = 1 << 30
SPACES_BYTES = 7 * GIB
MEMORY = 300 << 20
"""More than reading a small trace takes, and far less than a bomb unpacks to."""


def deflated_spaces(size: int) -> bytes:
    """Raw deflate of that many spaces: the blocks for the first of them, again and again."""
    packing = zlib.compressobj(9, wbits=-15)
    first = packing.compress(b" " * (16 << 20)) + packing.flush(zlib.Z_FULL_FLUSH)
    return first * (size // (16 << 20)) + b"\x03\x00"


def gzip_of_spaces(before: bytes = b"", size: int = SPACES_BYTES) -> bytes:
    header = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
    stored = b"\0" + struct.pack("<HH", len(before), len(before) ^ 0xFFFF) + before
    return header + stored + deflated_spaces(size) + b"\0" * 8


def zip_of(content: bytes, method: int = zipfile.ZIP_DEFLATED, name: str = "trace.json") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def zip_claiming(packed: bytes, method: int, size: int) -> bytes:
    """An archive of content that is packed already, with a size that need not be its own."""
    archive = bytearray(zip_of(b"x", zipfile.ZIP_STORED))
    local, central, end = archive.index(b"PK\x03\x04"), archive.index(b"PK\x01\x02"), archive.index(b"PK\x05\x06")
    for start, at in ((local, 8), (central, 10)):
        archive[start + at : start + at + 2] = struct.pack("<H", method)
        archive[start + at + 10 : start + at + 18] = struct.pack("<II", len(packed), size)
    archive[end + 16 : end + 20] = struct.pack("<I", central - 1 + len(packed))
    return bytes(archive[: central - 1]) + packed + bytes(archive[central:])


@pytest.fixture(params=["native", "python"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "python":
        monkeypatch.setattr("warplens.native_library.library", lambda: None)


def refusal(folder: Path, content: bytes) -> str:
    tracemalloc.start()
    try:
        with pytest.raises(warplens.FormatError) as refused:
            read(folder, content)
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()
    assert refused.value.options == ("max_size",)
    return str(refused.value)


BOMBS: dict[str, Callable[[], bytes]] = {
    "spaces": gzip_of_spaces,
    "spaces behind a bracket": lambda: gzip_of_spaces(b"["),
    "spaces behind events": lambda: gzip_of_spaces(SOUND[:-2]),
    "zip": lambda: zip_claiming(deflated_spaces(3 * GIB), zipfile.ZIP_DEFLATED, 3 * GIB),
    "gzip in zip": lambda: zip_of(gzip_of_spaces(), zipfile.ZIP_STORED, "trace.json.gz"),
    "gzip in zip, packed again": lambda: zip_of(gzip_of_spaces(), zipfile.ZIP_DEFLATED, "trace.json.gz"),
}


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_seven_gigabytes_of_spaces_are_refused_after_a_few_megabytes(tmp_path: Path, bomb: Callable[[], bytes]) -> None:
    assert "unpacks to more than 512 times its size" in refusal(tmp_path, bomb())


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_an_archive_cannot_claim_to_be_small(tmp_path: Path, method: int) -> None:
    packed = deflated_spaces(GIB) if method == zipfile.ZIP_DEFLATED else bz2.compress(b" " * (32 << 20)) * 40
    tracemalloc.start()
    try:
        with pytest.raises(warplens.FormatError):
            read(tmp_path, zip_claiming(packed, method, 1000))
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("packed", "free", "chosen", "most"),
    [
        (1 << 20, 100 * GIB, 0, 4 * GIB),
        (GIB, 1000 * GIB, 0, 64 * GIB),
        (GIB, 10 * GIB, 0, 5 * GIB),
        (1 << 20, 10 * GIB, 20 * GIB, 20 * GIB),
        (1 << 20, 10 * GIB, 1 << 20, 1 << 20),
        (1 << 20, None, 0, 4 * GIB),
    ],
)
def test_the_limit_is_64_times_the_file_or_4_gib_at_most_half_of_the_free_memory(
    monkeypatch: pytest.MonkeyPatch, packed: int, free: int | None, chosen: int, most: int
) -> None:
    monkeypatch.setattr(unpack_limit, "free_ram", lambda: free)
    limit = UnpackLimit(packed, "x", chosen)
    assert limit.most_bytes == most
    limit.check(most, most)
    with pytest.raises(warplens.FormatError, match="unpacks to more than"):
        limit.check(most + 1, most)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("pack", [gzip.compress, zip_of], ids=["gzip", "zip"])
def test_more_than_half_of_the_free_memory_is_refused_and_max_size_raises_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setattr(unpack_limit, "free_ram", lambda: 1000)
    assert "unpacks to more than 500 B" in refusal(tmp_path, pack(SOUND))
    assert figures(warplens.open(tmp_path / "trace.json", cache=False, max_size="1MB")) == WHOLE  # type: ignore[arg-type]


@pytest.mark.usefixtures("way")
def test_repetition_is_read_where_the_user_allows_it(tmp_path: Path) -> None:
    size = unpack_limit.REPETITION_BYTES + (16 << 20)
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(b"") + gzip_of_spaces(size=size)[:-8] + b"\0" * 8)
    with pytest.raises(warplens.FormatError, match="512 times"):
        warplens.open(path, cache=False)
    with pytest.raises(warplens.FormatError, match="only white space"):
        warplens.open(path, cache=False, max_size="1GiB")


def test_much_white_space_is_skipped_in_a_packed_file_too(tmp_path: Path) -> None:
    assert figures(read(tmp_path, gzip.compress(b" " * (20 << 20) + SOUND))) == WHOLE


@pytest.mark.parametrize("most", [1, 7, 1000, 1 << 16])
def test_a_file_that_comes_out_in_pieces_is_whole(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """The most that comes out at a time ends anywhere, also where all input was taken."""
    monkeypatch.setattr(unpack_limit, "MOST_RATIO", 0)
    monkeypatch.setattr(unpack_limit, "REPETITION_BYTES", most)
    monkeypatch.setattr(unpack_limit, "REPETITION_RATIO", 10**9)
    for text in (SOUND, b"a" * 70_000, text_of([kernel("k", 10 * number, 1, 1) for number in range(500)])):
        for stored in (gzip.compress(text), gzip.compress(text[:99]) + gzip.compress(text[99:])):
            assert StoredFile(Path("x"), stored).unwrap() == (text, [])


@pytest.mark.parametrize(
    "words", [["report"], ["diff", "{0}"], ["tree"], ["sql", "select 1"]], ids=lambda words: words[0]
)
def test_the_command_line_names_the_option_that_raises_the_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(SOUND))
    command = [words[0], str(path), *(word.format(path) for word in words[1:]), "--no-cache"]
    assert main([*command, "--max-size", "100B"]) == 1
    shown = capsys.readouterr().err
    assert "unpacks to more than 100 B" in shown
    assert shown.rstrip().endswith("allow it a larger size: --max-size")
    assert main([*command, "--max-size", "1MB"]) == 0
    assert main([*command, "--max-size", "much"]) == 2


def test_the_limit_applies_to_the_ranks_of_a_job(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"rank{rank}.json.gz").write_bytes(gzip.compress(text_of(work(), rank=rank)))
    assert len(warplens.open_ranks([tmp_path], cache=False, max_size="1MB").job.ranks) == 2
    with pytest.raises(warplens.WarplensError, match="unpacks to more than 100 B"):
        warplens.open_ranks([tmp_path], cache=False, max_size="100B")
    with pytest.raises(warplens.WarplensError, match="unpacks to more than 100 B"):
        warplens.open(tmp_path, cache=False, max_size="100B")


def packed(content: bytes, name: str = "", extra: bytes = b"") -> bytes:
    """A gzip member with a file name, an extra field or neither."""
    flags = (8 if name else 0) | (4 if extra else 0)
    header = b"\x1f\x8b\x08" + bytes([flags]) + b"\0\0\0\0\0\xff"
    header += (struct.pack("<H", len(extra)) + extra if extra else b"") + (name.encode() + b"\0" if name else b"")
    return header + zlib.compress(content, 6)[2:-4] + struct.pack("<II", zlib.crc32(content), len(content))


@pytest.mark.parametrize("step", [1, 7, 1 << 15])
def test_members_of_any_header_come_out_in_chunks(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_file, "PACKED_CHUNK_BYTES", step)
    content = bytes(range(256)) * 9
    members = [packed(content), packed(content, "a.json"), packed(content, extra=b"xy")]
    stored = StoredFile(Path("x"), members[0] + b"\0\0" + b"".join(members))
    assert b"".join(stored.chunks()) == content * 4 == stored.unwrap()[0]


@pytest.mark.parametrize("name", ["", "a.json"])
@pytest.mark.parametrize("at", [-1, -8])
def test_a_member_whose_sum_or_size_is_wrong_is_not_whole(name: str, at: int) -> None:
    member = bytearray(packed(b"content" * 99, name))
    member[at] ^= 1
    for damaged in (bytes(member), packed(b"content" * 99, name)[:at]):
        with pytest.raises(NotWholeError):
            list(StoredFile(Path("x"), damaged).chunks())

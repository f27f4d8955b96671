"""Tar archives: the regular files of sound ones, and one line for all others, in little time and memory."""

from __future__ import annotations

import io
import tarfile
import tracemalloc
from pathlib import Path

import pytest

import warplens
from damage import text_of, work
from support import ends
from warplens.planning.kernel_archive import python_files
from warplens.readers.shared import tar_archive
from warplens.readers.shared.tar_archive import tar_files
from warplens_run.base.errors import FormatError

TRACE = text_of(work())
LONG = "/".join(("d" * 90, "e" * 90, "ü" * 60, "f.json"))


def member(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, size: int | None = None) -> bytes:
    header = tarfile.TarInfo(name)
    header.type, header.size = kind, len(content) if size is None else size
    return header.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)


def pax(records: bytes) -> bytes:
    return member("x", records, tarfile.XHDTYPE)


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_files_are_those_that_are_regular_and_not_empty(form: int) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        names = [
            "a.json",
            "d/" * 40 + "b.json",
            "empty",
            "link",
            "folder",
            *([LONG] if form != tarfile.USTAR_FORMAT else []),
        ]
        for number, name in enumerate(names):
            entry = tarfile.TarInfo(name)
            entry.type = {"link": tarfile.SYMTYPE, "folder": tarfile.DIRTYPE}.get(name, tarfile.REGTYPE)
            content = b"" if name in ("empty", "link", "folder") else b"x" * (number * 300 + 1)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    content = buffer.getvalue()
    files, damage = tar_files(content)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        expected = [(each.name, each.offset_data, each.size) for each in archive if each.isreg() and each.size]
    assert ([tuple(file) for file in files], damage) == (expected, "")
    assert len(files) >= 2


def square(size: int) -> bytes:
    """Records of pax that end at the same place, which tarfile copied for each of them."""
    return (b"2 " * (size // 2 - 1)).ljust(size - 1, b"1") + b"="


MOST = tar_archive.MOST_HEADER_BYTES
HOSTILE = {
    "a size beyond any file": pax(b"30 size=9999999999999999999999\n") + member("t.json", TRACE),
    "a record beyond any file": pax(b"99999999999999999999 path=a\n") + member("t.json", size=1 << 60),
    "a member beyond the end": member("t.json", size=1 << 60),
    "a negative size": member("t.json", size=-(1 << 40)),
    "a negative size that leads to its own header": member("t.json", size=-512),
    "a negative size in pax": pax(b"14 size=-1024\n") + member("t.json", TRACE),
    "long names without end": member("n", b"name\0", tarfile.GNUTYPE_LONGNAME) * 3000,
    "pax headers without end": pax(b"11 path=ab\n") * 3000,
    "pax headers without end that take the square": (pax(square(MOST)) + pax(square(MOST))) * 3000,
    "pax headers that take the square": (pax(square(MOST)) + member("m", b"x")) * 3000,
    "pax headers of digits": (pax(b"1" * MOST) + member("m", b"x")) * 3000,
    "pax headers for all files": (member("g", square(MOST), tarfile.XGLTYPE) + member("m", b"x")) * 3000,
    "a long name of a terabyte": member("n", b"name\0", tarfile.GNUTYPE_LONGNAME, size=1 << 40),
    "a long pax header": pax(b"%d path=%s\n" % (1 << 20, b"a" * ((1 << 20) - 14))) + member("t.json", TRACE),
    "a record of no length": pax(b"1 path=a\n") + member("t.json", size=1 << 60),
    "a sparse file": pax(b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n") + member("t.json", b"9" * 5000),
    "a sparse file of GNU": member("t.json", b"x", tarfile.GNUTYPE_SPARSE),
    "a link": member("t.json", kind=tarfile.SYMTYPE),
    "more members than any profile has": member("m") * 40_000,
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_archive_is_one_line(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tar_archive, "MOST_WORK", tar_archive.MOST_WORK >> 4)  # what takes a moment
    content = HOSTILE[case]
    tracemalloc.start()
    try:
        with ends(case, cpu_seconds=5):
            tar_files(content)
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()
    path = tmp_path / "t.tar"
    path.write_bytes(content[: 4 << 20])
    with ends(case, cpu_seconds=5):
        for opened in (lambda: warplens.open(path, cache=False), lambda: python_files(path)):
            try:
                result = opened()
                assert result == {} or result.trace.quality.has("truncated")
            except FormatError as refusal:
                assert "\n" not in str(refusal)


def test_names_that_lead_out_of_the_archive_are_only_names(tmp_path: Path) -> None:
    path = tmp_path / "in" / "t.tar"
    path.parent.mkdir()
    path.write_bytes(member("../../k.py", b"x = 1") + member(f"{tmp_path}/absolute.py", b"y = 2"))
    assert python_files(path) == {"k.py": b"x = 1", "absolute.py": b"y = 2"}
    path.write_bytes(member(f"../{tmp_path}/t.json", TRACE))
    assert len(warplens.open(path, cache=False).trace) > 0
    assert [file.name for file in tmp_path.rglob("*")] == ["in", "t.tar"]


def test_of_a_cut_archive_what_is_there_is_read_with_a_note(tmp_path: Path) -> None:
    path = tmp_path / "t.tar"
    whole = member("log.txt", b"log") + member("t.json", TRACE)
    path.write_bytes(whole[: len(whole) - 600])
    trace = warplens.open(path, cache=False).trace
    assert len(trace) > 0
    assert any("tar archive is damaged (unexpected end of data)" in note.detail for note in trace.quality.notes)

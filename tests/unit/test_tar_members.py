"""Tar archives: the files that tarfile finds in sound ones, and an end with all others."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest

import warplens
from damage import text_of, work
from support import ends
from warplens.errors import FormatError
from warplens.planning.kernel_archive import python_files
from warplens.readers.shared.tar_members import tar_members

TRACE = text_of(work())
LONG = "/".join(("d" * 90, "e" * 90, "ü" * 60, "f.json"))


def member(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, size: int | None = None) -> bytes:
    header = tarfile.TarInfo(name)
    header.type, header.size = kind, len(content) if size is None else size
    return header.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)


def pax(records: bytes) -> bytes:
    return member("x", records, tarfile.XHDTYPE)


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_files_are_those_that_tarfile_finds(form: int) -> None:
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
    files, damage = tar_members(content)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        expected = [(each.name, each.offset_data, each.size) for each in archive if each.isreg() and each.size]
    assert ([tuple(file) for file in files], damage) == (expected, "")
    assert len(files) >= 2


HOSTILE = {
    "a size beyond any file": pax(b"30 size=9999999999999999999999\n") + member("t.json", TRACE),
    "a record beyond any file": pax(b"99999999999999999999 path=a\n") + member("t.json", size=1 << 60),
    "a member beyond the end": member("t.json", size=1 << 60),
    "a negative size": member("t.json", size=-(1 << 40)),
    "long names without end": member("n", b"name\0", tarfile.GNUTYPE_LONGNAME) * 3000,
    "pax headers without end": pax(b"11 path=ab\n") * 3000,
    "a long name of a terabyte": member("n", b"name\0", tarfile.GNUTYPE_LONGNAME, size=1 << 40),
    "a record of no length": pax(b"1 path=a\n") + member("t.json", size=1 << 60),
    "more members than any profile has": member("m") * 2000,
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_archive_is_one_line(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warplens.readers.shared.tar_members.MOST_HEADERS", 1000)  # as many as take a moment
    path = tmp_path / "t.tar.gz"
    path.write_bytes(gzip.compress(HOSTILE[case], 1))
    for opened in (lambda: warplens.open(path, cache=False), lambda: python_files(path)):
        with ends(case, cpu_seconds=5), pytest.raises(FormatError) as refusal:
            opened()
        assert "\n" not in str(refusal.value)


def test_of_a_cut_archive_what_is_there_is_read_with_a_note(tmp_path: Path) -> None:
    path = tmp_path / "t.tar"
    whole = member("log.txt", b"log") + member("t.json", TRACE)
    path.write_bytes(whole[: len(whole) - 600])
    trace = warplens.open(path, cache=False).trace
    assert len(trace) > 0
    assert any("tar archive is damaged (it ends early)" in note.detail for note in trace.quality.notes)

"""Archives of kernel sources: what is in them, and that small ones do not unpack to any amount."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from support import ends
from warplens.planning.kernel_archive import python_files
from warplens.readers.shared import unpack_limit
from warplens_run.base.errors import FormatError

FILES = {"a/b/one.py": b"x = 1\n", "two.py": b"y = 2\n", "notes.txt": b"no source"}
SOURCES = {"one.py": b"x = 1\n", "two.py": b"y = 2\n"}
MEGABYTE = bytes(1 << 20)


def tar_of(files: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return target.getvalue()


def zip_of(files: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return target.getvalue()


PACKERS = {
    "tar": tar_of,
    "tar.gz": lambda files: gzip.compress(tar_of(files)),
    "zip": zip_of,
}


@pytest.mark.parametrize("kind", PACKERS)
def test_python_files_are_found_in_every_archive(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "kernels"
    path.write_bytes(PACKERS[kind](FILES))
    assert python_files(path) == SOURCES


def test_python_files_are_found_in_a_folder(tmp_path: Path) -> None:
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    assert python_files(tmp_path) == SOURCES


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
@pytest.mark.parametrize("name", ["k{}.py", "other{}.txt"])
def test_an_archive_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path: Path, kind: str, name: str) -> None:
    """Sources of 1 MB each; and files that are no sources, which a .tar has to be unpacked past."""
    path = tmp_path / "bomb"
    path.write_bytes(PACKERS[kind]({name.format(number): MEGABYTE for number in range(64)}))
    assert path.stat().st_size < 100_000
    if kind == "zip" and "txt" in name:
        assert python_files(path) == {}
        return
    with ends("unpacking", cpu_seconds=60), pytest.raises(FormatError, match="unpacks to more than 512 times its size"):
        python_files(path)


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "zip"])
def test_the_whole_archive_counts_and_not_each_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    path = tmp_path / "kernels"
    path.write_bytes(PACKERS[kind]({f"k{number}.py": b"x" * 1000 for number in range(50)}))
    monkeypatch.setattr(unpack_limit, "LEAST_BYTES", 20 << 10)
    monkeypatch.setattr(unpack_limit, "MOST_RATIO", 0.1)
    with pytest.raises(FormatError, match="unpacks to more than 20"):
        python_files(path)
    assert len(python_files(path, max_bytes=1 << 20)) == 50


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "zip"])
def test_a_damaged_archive_is_one_error_or_what_is_whole(tmp_path: Path, kind: str) -> None:
    whole = PACKERS[kind]({f"k{number}.py": b"x = %d\n" % number * 100 for number in range(20)})
    path = tmp_path / "kernels"
    for cut in (0, 1, 5, 40, len(whole) // 2, len(whole) - 5):
        for damage in (whole[:cut], whole[:cut] + b"\xff" * 9 + whole[cut + 9 :]):
            path.write_bytes(damage)
            try:
                assert len(python_files(path)) <= 20
            except FormatError as error:
                assert "\n" not in str(error)


def test_xz_is_refused_with_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "kernels.tar.xz"
    path.write_bytes(b"\xfd7zXZ\x00\x00\x04")
    with pytest.raises(FormatError, match=r"not a zip or tar archive \(packed with xz\)") as refusal:
        python_files(path)
    assert "xz -d FILE" in str(refusal.value.hint)

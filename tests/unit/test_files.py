"""Whole files: on a full disk, without permission, interrupted, or over their own input, what was there stays."""

from __future__ import annotations

import os
import stat
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest

from support import tiny_disk
from warplens_run.base import files
from warplens_run.base.errors import UsageError, WarplensError

FULL = Path("/dev/full")


def everything_under(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_missing_parents_are_made_and_the_umask_decides_who_may_read(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        files.write_whole(tmp_path / "a" / "b" / "x.txt", b"text")
    finally:
        os.umask(before)
    assert everything_under(tmp_path) == ["a", "a/b", "a/b/x.txt"]
    assert stat.S_IMODE((tmp_path / "a" / "b" / "x.txt").stat().st_mode) == 0o644


def test_a_full_disk_is_one_line_and_what_was_there_stays(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b"old")
    with tiny_disk(), pytest.raises(WarplensError, match=r"cannot write .*x\.txt: File too large"):
        files.write_whole(tmp_path / "x.txt", b"n" * 100)
    with tiny_disk(), pytest.raises(WarplensError, match="File too large"):
        files.write_whole(tmp_path / "new" / "y.txt", b"n" * 100)
    assert everything_under(tmp_path) == ["x.txt"]
    assert (tmp_path / "x.txt").read_bytes() == b"old"


def test_of_several_files_none_appears_if_one_fails(tmp_path: Path) -> None:
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    with (
        tiny_disk(),
        pytest.raises(WarplensError, match="File too large"),
        files.whole_files(paths) as (first, second),
    ):
        first.write_bytes(b"short")
        second.write_bytes(b"n" * 100)
    assert everything_under(tmp_path) == []


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(WarplensError, match="cannot write /dev/full: No space left on device"):
        files.write_whole(FULL, b"text")
    assert FULL.is_char_device()
    files.check_file(FULL, force=False)
    files.write_whole(Path(os.devnull), b"text")
    assert Path(os.devnull).is_char_device()


def test_a_pipe_gets_the_content(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    files.write_whole(pipe, b"text")
    reader.join()
    assert read == [b"text"]
    assert pipe.is_fifo()


@pytest.mark.skipif(not Path("/sys").is_dir(), reason="a folder in which not even root may make files")
def test_a_folder_that_refuses_files_is_one_line() -> None:
    with pytest.raises(WarplensError, match=r"^cannot write /sys/warplens\.txt: "):
        files.write_whole(Path("/sys/warplens.txt"), b"text")
    with pytest.raises(WarplensError, match=r"^cannot write /sys/warplens/x\.txt: "):
        files.write_whole(Path("/sys/warplens/x.txt"), b"text")


def test_a_folder_without_permission_is_said_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(WarplensError, match="no permission to write in"):
        files.check_file(tmp_path / "x.txt", force=False)


def test_a_name_too_long_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(WarplensError, match="name too long"):
        files.write_whole(tmp_path / "new" / ("x" * 300), b"text")
    with pytest.raises(WarplensError, match="name too long"):
        files.check_file(tmp_path / ("x" * 300), force=True)
    assert everything_under(tmp_path) == []


def test_an_interruption_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), files.whole_file(tmp_path / "new" / "x.txt") as temporary:
        temporary.write_bytes(b"half")
        raise KeyboardInterrupt
    assert everything_under(tmp_path) == []


def test_a_folder_replaces_an_earlier_one_only_when_it_is_whole(tmp_path: Path) -> None:
    with files.whole_folder(tmp_path / "entry") as folder:
        (folder / "a").write_bytes(b"1")
    with pytest.raises(WarplensError, match="cannot write"), files.whole_folder(tmp_path / "entry") as folder:
        (folder / "b").write_bytes(b"2")
        raise OSError(28, "No space left on device")
    assert everything_under(tmp_path) == ["entry", "entry/a"]
    with files.whole_folder(tmp_path / "entry") as folder:
        (folder / "b").write_bytes(b"2")
    assert everything_under(tmp_path) == ["entry", "entry/b"]


def test_a_file_is_not_overwritten_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"mine")
    with pytest.raises(UsageError, match="already exists"):
        files.check_file(path, force=False)
    files.check_file(path, force=True)
    with pytest.raises(UsageError, match="is a directory"):
        files.check_file(tmp_path, force=True)


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_made_meanwhile_is_not_overwritten_unless_forced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    if not has_links:
        monkeypatch.setattr(os, "link", refuse_links)
    for force, content in ((False, b"theirs"), (True, b"ours")):
        (tmp_path / "x.txt").unlink(missing_ok=True)
        with (
            nullcontext() if force else pytest.raises(UsageError, match=r"x\.txt already exists"),
            files.whole_files([tmp_path / "new.txt", tmp_path / "x.txt"], force=force) as staged,
        ):
            for temporary in staged:
                temporary.write_bytes(b"ours")
            (tmp_path / "x.txt").write_bytes(b"theirs")
        assert (tmp_path / "x.txt").read_bytes() == content
        assert everything_under(tmp_path) == (["new.txt", "x.txt"] if force else ["x.txt"])


def refuse_links(source: Path, target: Path) -> None:
    raise PermissionError(1, "Operation not permitted")


@pytest.mark.parametrize("has_links", [True, False])
def test_a_new_file_appears_also_without_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    if not has_links:
        monkeypatch.setattr(os, "link", refuse_links)
    files.write_whole(tmp_path / "x.txt", b"text", force=False)
    assert (tmp_path / "x.txt").read_bytes() == b"text"
    assert everything_under(tmp_path) == ["x.txt"]


def same(folder: Path) -> Path:
    return folder / "input.json"


def other_spelling(folder: Path) -> Path:
    return folder / "sub" / ".." / "input.json"


def symbolic_link(folder: Path) -> Path:
    (folder / "link.json").symlink_to(folder / "input.json")
    return folder / "link.json"


def hard_link(folder: Path) -> Path:
    (folder / "hard.json").hardlink_to(folder / "input.json")
    return folder / "hard.json"


def linked_folder(folder: Path) -> Path:
    (folder / "linked").symlink_to(folder)
    return folder / "linked" / "input.json"


@pytest.mark.parametrize("output", [same, other_spelling, symbolic_link, hard_link, linked_folder])
def test_an_input_is_not_overwritten_under_whatever_name(tmp_path: Path, output: object) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "input.json").write_bytes(b"mine")
    with pytest.raises(UsageError, match="is an input of this command"):
        files.check_file(output(tmp_path), force=True, inputs=["", str(tmp_path / "input.json")])  # type: ignore[operator]
    files.check_file(tmp_path / "other.json", force=True, inputs=[str(tmp_path / "input.json")])


def test_a_part_of_an_input_folder_is_not_overwritten(tmp_path: Path) -> None:
    bundle = tmp_path / "run.warplens"
    (bundle / "kernels").mkdir(parents=True)
    for name in ("manifest.json", "kernels/k.py", "report.html"):
        (bundle / name).write_bytes(b"mine")
    for name in ("manifest.json", "kernels/k.py"):
        with pytest.raises(UsageError, match="is an input of this command"):
            files.check_inputs([bundle / name], [str(bundle)])
    with pytest.raises(UsageError, match="is an input of this command"):
        files.check_inputs([bundle], [str(bundle)])
    # A new file damages nothing, and an earlier page was never read.
    files.check_inputs([bundle / "tables.json", bundle / "report.html"], [str(bundle)])


def test_a_folder_with_an_input_in_it_is_not_replaced(tmp_path: Path) -> None:
    bundle = tmp_path / "run.warplens"
    bundle.mkdir()
    (bundle / "train.py").write_bytes(b"pass")
    (tmp_path / "train.py").write_bytes(b"pass")
    with pytest.raises(UsageError, match=r"train\.py, an input of this command"):
        files.check_replaced_folder(bundle, [str(bundle / "train.py")])
    files.check_replaced_folder(bundle, [str(tmp_path / "train.py"), "--epochs", "3"])

"""What a killed process left goes; what a living one, another machine or another user writes stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from warplens_run.base import files, temporary
from warplens_run.formats.bundle import Staging
from warplens_run.formats.bundle_files import MANIFEST

WRITER = """
import os, signal, sys
from pathlib import Path
from warplens_run.base.files import whole_file, whole_folder
from warplens_run.base.temporary import temporary_folder
from warplens_run.formats.bundle import Staging
folder = Path(sys.argv[1])
with whole_file(folder / "x.txt") as file, whole_folder(folder / "entry"), temporary_folder():
    file.write_bytes(b"half")
    Staging(folder / "run").path("trace.json").write_text("half")
    print("written", flush=True)
    signal.pause() if sys.argv[2] == "wait" else os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def _looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary, "_cleared", set())


def writer(folder: Path, ending: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "TMPDIR": str(folder)}
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), ending], env=environment, text=True, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "written\n"
    return process


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    with writer(tmp_path, "wait") as process:
        yield process
        process.kill()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_beside(folder: Path) -> None:
    files.write_whole(folder / "y.txt", b"whole")
    Staging(folder / "run").discard()


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="processes are looked for only where signals are")
def test_what_a_killed_process_left_goes_with_the_next_that_writes_there(tmp_path: Path) -> None:
    with writer(tmp_path, "kill") as process:
        assert process.wait() == -signal.SIGKILL
    assert len(names(tmp_path)) == 4
    write_beside(tmp_path)
    assert names(tmp_path) == ["y.txt"]


def test_what_a_living_process_writes_stays(tmp_path: Path, waiting: subprocess.Popen[str]) -> None:
    before = names(tmp_path)
    write_beside(tmp_path)
    assert names(tmp_path) == [*before, "y.txt"]


def test_what_another_machine_wrote_stays_for_a_week(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recent, old = (tmp_path / f".warplens-0123abcd-4000000-{name}.tmp" for name in ("recent", "old"))
    for path in (recent, old):
        path.touch()
    os.utime(old, (0, time.time() - 8 * 86400))
    write_beside(tmp_path)
    assert names(tmp_path) == [recent.name, "y.txt"]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owner's number")
def test_what_is_not_this_users_or_not_ours_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = temporary.owner().partition("-")[0]
    foreign = [f"x.warplens-{machine}-999999999-a.tmp", f"writing-{machine}-x-a", ".warplens-a.tmp", "warplens-notes"]
    for name in foreign:
        (tmp_path / name).touch()
    (tmp_path / f".warplens-{machine}-999999999-link.tmp").symlink_to(tmp_path / "warplens-notes")
    before = names(tmp_path)
    write_beside(tmp_path)
    assert names(tmp_path) == sorted([*before, "y.txt"])
    left = tmp_path / f".warplens-{machine}-999999999-left.tmp"
    left.touch()
    monkeypatch.setattr(temporary, "_cleared", set())
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    write_beside(tmp_path)
    assert left.exists()


def test_a_whole_recording_without_its_name_stays(tmp_path: Path) -> None:
    machine = temporary.owner().partition("-")[0]
    whole, half = (tmp_path / f"run.partial-{machine}-999999999-{number}" for number in (1, 2))
    for folder in (whole, half):
        folder.mkdir()
    (whole / MANIFEST).write_text("{}")
    Staging(tmp_path / "run").discard()
    assert names(tmp_path) == [whole.name]

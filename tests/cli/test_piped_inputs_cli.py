"""Inputs that are not files: pipes are read once, devices and pipes without a writer are one line."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import warplens
from support import HANG_SECONDS, SAMPLES, ends
from warplens.cli import main, piped_inputs

TRACE = str(next(path for path in SAMPLES if path.name == "cudagraph_infer.json.gz"))
Captured = pytest.CaptureFixture[str]
READING = [["report", "IN"], ["advise", "IN"], ["show", "IN", "kernels"], ["sql", "IN", "select 1"], ["diff", TRACE, "IN"],
           ["tree", TRACE, "--diff", "IN"], ["replay", "run", "IN"], ["replay", "show", "IN"], ["prove", "show", "IN"],
           ["kernel", "diff", "IN", "IN"], ["report", TRACE, "--rules", "IN"], ["report", TRACE, "IN"],
           ["report", TRACE, "--execution-trace", "IN"], ["report", TRACE, "--ncu", "IN"]]  # fmt: skip


def given(words: list[str], path: Path | str) -> list[str]:
    return [str(path) if word == "IN" else word for word in words]


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/tty"])
@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_device_is_one_line(words: list[str], device: str, capsys: Captured) -> None:
    with ends("reading the device"):
        assert main(given(words, device)) == 2
    assert capsys.readouterr().err.startswith(f"error: {device} is a device, not a file\n")


def test_a_device_as_stdin_is_one_line(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/zero").open() as device, ends("reading the device"):
        monkeypatch.setattr("sys.stdin", device)
        assert main(["report", "-"]) == 2
    assert capsys.readouterr().err.startswith("error: stdin is a device, not a file\n")


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_pipe_without_a_writer_is_one_line(
    words: list[str], pipe: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(piped_inputs, "WRITER_S", 0.0)
    assert main(given(words, pipe)) == 1
    assert capsys.readouterr().err.startswith(f"error: no program writes to the pipe {pipe}\n")


def test_a_named_pipe_is_read_once_its_writer_comes(pipe: Path, capsys: Captured) -> None:
    writer = threading.Timer(0.1, lambda: pipe.write_bytes(Path(TRACE).read_bytes()))
    writer.start()
    assert main(["show", str(pipe), "kernels", "--json"]) == 0
    writer.join()
    from_pipe = capsys.readouterr().out
    assert main(["show", TRACE, "kernels", "--json"]) == 0
    assert from_pipe == capsys.readouterr().out


def test_pipes_of_the_shell_are_inputs(tmp_path: Path) -> None:
    command = f"{sys.executable} -m warplens diff <(zcat {TRACE}) <(cat {TRACE}) --json"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=HANG_SECONDS, env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_without_an_end_is_cut_off(pipe: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piped_inputs, "MOST_BYTES", 3 << 20)

    def write_on() -> None:
        with pytest.raises(BrokenPipeError), pipe.open("wb", buffering=0) as stream:
            while True:
                stream.write(bytes(1 << 16))

    writer = threading.Thread(target=write_on)
    writer.start()
    assert main(["report", str(pipe)]) == 1
    writer.join()
    assert "came through" in capsys.readouterr().err


@pytest.mark.parametrize("device", ["/dev/zero", "pipe"])
def test_python_refuses_what_is_not_a_file(device: str, pipe: Path) -> None:
    path = pipe if device == "pipe" else device
    with ends("opening it"), pytest.raises(warplens.WarplensError, match="a pipe or a device, not a file"):
        warplens.open(path)

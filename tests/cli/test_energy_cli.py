"""`warplens energy` as a user runs it, in a process of its own, over a made-up nvidia-ml-py or none."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import warplens
from support import HANG_SECONDS

CLOCK = """
import subprocess, time

# A clock of its own: it passes while somebody sleeps, reads the meter (0.1 ms) or waits for a command (0.5 s).
now = 100.0
waited = subprocess.Popen.wait

def sleep(seconds):
    global now
    now += seconds

def wait(process, *args, **named):
    code = waited(process, *args, **named)
    sleep(0.5)
    return code

time.perf_counter, time.sleep, subprocess.Popen.wait = lambda: now, sleep, wait
"""
PYNVML = """
import time

class NVMLError(Exception):
    pass

def nvmlInit(): pass
def nvmlDeviceGetCount(): return 2
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetName(handle): return "Fake H200"
def nvmlDeviceGetUUID(handle): return f"GPU-{handle}"
def nvmlDeviceGetTotalEnergyConsumption(handle):
    time.sleep(0.0001)
    ticks = int(time.perf_counter() / 0.05)
    return 10_000 + ticks * 5_000 * (handle + 1)
"""
HELLO = ["--", sys.executable, "-c", "print('hello')"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a driver of two GPUs, of 100 and 200 W, and a clock that does not depend on the machine."""
    (tmp_path / "sitecustomize.py").write_text(CLOCK)
    (tmp_path / "pynvml.py").write_text(PYNVML)
    return tmp_path


@pytest.fixture
def without(tmp_path: Path) -> Path:
    (tmp_path / "pynvml.py").write_text("raise ImportError\n")
    (tmp_path / "amdsmi.py").write_text("raise ImportError\n")
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    source = str(Path(warplens.__file__).parents[1])
    kept = {name: value for name, value in os.environ.items() if not name.endswith("VISIBLE_DEVICES")}
    return {**kept, "PYTHONPATH": os.pathsep.join([str(folder), source])}


def started(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "warplens", "energy", *words]
    return subprocess.Popen(command, cwd=folder, env=environment(folder), text=True, start_new_session=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip


def measured(folder: Path, *words: str) -> tuple[int, str, str]:
    process = started(folder, *words)
    out, err = process.communicate(timeout=HANG_SECONDS)
    return process.returncode, out, err


def rows(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(text)
    return found


def test_every_gpu_is_told_on_stderr_and_stdout_is_the_commands(folder: Path) -> None:
    status, out, err = measured(folder, *HELLO)
    assert (status, out) == (0, "hello\n")
    lines = err.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["GPU 0 Fake H200", "GPU 1 Fake H200", "total"]
    assert all(" s, " in line and "W on average" in line for line in lines)
    assert "idle" not in err


def test_json_has_stdout_for_itself(folder: Path) -> None:
    status, out, err = measured(folder, "--json", "--device", "1", "--idle", "0.5", *HELLO)
    assert status == 0
    (row,) = rows(out)
    assert (row["device"], row["gpu"], row["meter"]) == (1, "Fake H200", "NVML total energy, Fake H200")
    assert row["watts"] == pytest.approx(200, rel=0.02)
    assert row["joules"] == pytest.approx(row["watts"] * row["seconds"])
    assert row["idle_watts"] == pytest.approx(200, rel=0.02)
    assert row["active_joules"] == pytest.approx(0, abs=0.04 * row["joules"])
    assert row["command_seconds"] == pytest.approx(0.5)
    assert 0.5 <= row["seconds"] <= 0.61, "from the tick before the command to the tick after it"
    assert row["note"] == ""
    assert "hello" in err


def test_a_file_takes_the_figures_and_redirects_nothing_by_itself(folder: Path) -> None:
    status, out, err = measured(folder, "-o", "energy.json", *HELLO)
    assert (status, out) == (0, "hello\n")
    assert [row["device"] for row in rows((folder / "energy.json").read_text())] == [0, 1]
    assert "GPU 0" in err
    status, out, err = measured(folder, "--json", "-o", "energy.json", "--device", "0,1", *HELLO)
    assert (status, err) == (0, "hello\n")
    assert out == (folder / "energy.json").read_text()


def test_the_exit_status_is_passed_on(folder: Path) -> None:
    status, _, err = measured(folder, "--device", "0", "sh", "-c", "exit 7")
    assert status == 7
    assert "GPU 0" in err
    status, _, err = measured(folder, "--device", "0", "sh", "-c", "kill -KILL $$")
    assert status == 128 + signal.SIGKILL
    assert "GPU 0" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_the_command_and_the_energy_is_still_told(folder: Path, number: signal.Signals) -> None:
    script = "import signal, sys\ntry:\n print('ready', flush=True)\n signal.pause()\nexcept KeyboardInterrupt:\n sys.exit(9)"
    process = started(folder, "--device", "0", "--", sys.executable, "-c", script)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    _, err = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == (9 if number == signal.SIGINT else 128 + number)
    assert "GPU 0 Fake H200: " in err
    assert "Traceback" not in err


def test_without_a_meter_the_command_runs_and_a_note_says_why(without: Path) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("the driver's own library answers here")
    status, out, err = measured(without, "--", "sh", "-c", "echo hello; exit 3")
    assert (status, out) == (3, "hello\n")
    assert err.startswith("note: no meter of GPU 0: no NVML")
    assert len(err.splitlines()) == 1
    status, out, err = measured(without, "--json", "--", "sh", "-c", "echo hello; exit 3")
    assert status == 3
    (row,) = rows(out)
    assert row["joules"] is None
    assert "no NVML" in row["note"]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ([], 2, "error: no command to run"),
        (["--"], 2, "error: no command to run"),
        (["--", "no-such-command-here"], 2, "error: no command 'no-such-command-here'"),
        (["--device", "x", "--", "true"], 2, "error: --device 'x'"),
        (["--idle", "-1", "--", "true"], 2, "not a time in seconds from 0 to 600"),
        (["-o", "no/such/folder.json", "--", "touch", "ran"], 2, "error: no/such/folder.json: no file can be written"),
    ],
)
def test_what_makes_no_sense_is_one_line_before_anything_runs(
    folder: Path, words: list[str], status: int, message: str
) -> None:
    code, out, err = measured(folder, *words)
    assert (code, out) == (status, "")
    assert message in err
    assert "Traceback" not in err
    assert not (folder / "ran").exists()


def test_a_gpu_that_is_not_there_is_a_note(folder: Path) -> None:
    status, _, err = measured(folder, "--device", "5", "--", "true")
    assert status == 0
    assert "no meter of GPU 5: no GPU 5 (CUDA would see 2)" in err


def test_the_commands_own_options_are_its_own(folder: Path) -> None:
    _, out, _ = measured(folder, "--device", "0", "echo", "--json", "-o", "x")
    assert out == "--json -o x\n"

"""A worker process as its supervisor sees it: requests, replies with a time limit, and an end with all it started."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Final

import warplens_run
from warplens_run.base.errors import FormatError
from warplens_run.replay import wire

ALONE_SECONDS: Final = 3.0
END_SECONDS: Final = 10.0
TAIL_BYTES: Final = 4096


class WorkerSilent(Exception):  # noqa: N818 - not an error of ours
    """No message within the time limit."""


class WorkerGone(Exception):  # noqa: N818
    """The process ended, or sent what is not a message."""


class WorkerProcess:
    def __init__(self, job: wire.ReplayJob) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="warplens-replay-", ignore_cleanup_errors=True)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "warplens_run.replay.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
            env=environment(),
            # Ctrl-C is for the supervisor, which then ends the worker.
            start_new_session=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.send(replace(job, folder=self._folder.name))

    def send(self, message: wire.Request) -> None:
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(wire.line(message))
            self._process.stdin.flush()
        except OSError:
            return  # `receive` reports how it ended

    def receive(self, seconds: float) -> wire.Reply:
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise WorkerSilent from None
        if not line:
            raise WorkerGone(self._end())
        try:
            return wire.read_reply(line)
        except FormatError as error:
            raise WorkerGone(str(error)) from error

    def end(self) -> None:
        """By itself at once, or else with whatever it started."""
        self._close(self._process.stdin)  # it ends of itself where it still can
        try:
            self._process.wait(ALONE_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill()
        self._close(self._process.stdout)
        self._errors.close()
        self._folder.cleanup()

    def _kill(self) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (AttributeError, OSError):
            self._process.kill()
        with suppress(subprocess.TimeoutExpired):  # a process that waits for a stuck driver cannot be ended
            self._process.wait(END_SECONDS)

    def _close(self, pipe: IO[str] | None) -> None:
        if pipe is not None:
            with suppress(OSError):
                pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with suppress(OSError, ValueError):
            for line in self._process.stdout:
                self._lines.put(line)
        self._lines.put("")

    def _end(self) -> str:
        """How the process ended, with the last thing it said of it."""
        try:
            code = self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            return "closed its channel"
        last = self._last_stderr_line()
        return exit_description(code) + (f": {last}" if last else "")

    def _last_stderr_line(self) -> str:
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - TAIL_BYTES))
        text = self._errors.read().decode("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return lines[-1][:160] if lines else ""


def exit_description(code: int) -> str:
    """
    >>> exit_description(3), exit_description(-11)
    ('exit code 3', 'SIGSEGV')
    """
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name if -code in set(map(int, signal.Signals)) else f"signal {-code}"
    return f"{name}, possibly out of memory" if name == "SIGKILL" else name


def environment() -> dict[str, str]:
    """In which the same Warplens is found."""
    home = str(Path(warplens_run.__file__).resolve().parent.parent)
    paths = [home, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}

"""A child as its parent sees it: lines to it and from it, time limits, and an end with all that it started."""

from __future__ import annotations

import errno
import os
import queue
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from warplens_run.base.own_code import HOME

STUCK_SECONDS: Final = 10.0
"""A process that waits for a stuck driver cannot be ended, and is left after this time."""
TAKES_PART: Final = ("RANK", "WORLD_SIZE")
"""Variables that would make a child take part in a run of several ranks."""
KILLED: Final = -9
TAIL_BYTES: Final = 4096
LONGEST_LINE: Final = 160


def environment(without: Collection[str] = (), **more: str) -> dict[str, str]:
    """The variables of this process for a child that is to find the same Warplens.

    What is installed is found without help: PYTHONPATH comes before the standard library, and nothing else that is
    installed beside us may hide that.
    """
    variables = {name: value for name, value in os.environ.items() if name not in without}
    if Path(sysconfig.get_path("purelib")).resolve() != HOME:
        inherited = variables.get("PYTHONPATH")
        others = [path for path in inherited.split(os.pathsep) if path != str(HOME)] if inherited else []
        variables["PYTHONPATH"] = os.pathsep.join([str(HOME), *others])
    return variables | more


def ending_of(status: int) -> str:
    """
    >>> ending_of(3), ending_of(-11)
    ('its process ended with status 3', 'its process was ended by SIGSEGV')
    >>> ending_of(-9)
    'its process was killed, as the system does where memory runs out'
    """
    if status >= 0:
        return f"its process ended with status {status}"
    if status == KILLED:
        return "its process was killed, as the system does where memory runs out"
    with suppress(ValueError):
        return f"its process was ended by {signal.Signals(-status).name}"
    return f"its process was ended by signal {-status}"


@dataclass(frozen=True)
class Ending:
    """How a process ended."""

    status: int
    """Negative: the signal that ended it."""
    last_line: str = ""
    """Of its standard error."""

    def __str__(self) -> str:
        return ending_of(self.status) + (f": {self.last_line}" if self.last_line else "")


class ChildEnded(Exception):  # noqa: N818 - not an error of ours
    """The child ended before it sent another line."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(str(ending))
        self.ending = ending


class Child:
    """`python -m module words…` in a session of its own: Ctrl-C is for its parent, which then ends it.

    As a context it is ended however the block is left. Its standard error is kept for its last line, or shown.
    """

    def __init__(
        self,
        module: str,
        *words: str,
        variables: Mapping[str, str] | None = None,
        folder: Path | None = None,
        shows_errors: bool = False,
    ) -> None:
        if not sys.executable:
            raise FileNotFoundError(errno.ENOENT, "this Python is part of another program")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *words],
                env=environment() if variables is None else variables,
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if shows_errors else self._errors,
                start_new_session=True,
            )
        except OSError:
            self._errors.close()
            raise
        assert self._process.stdin is not None and self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._reader: threading.Thread | None = None

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def send(self, line: str) -> None:
        """One that has ended hears nothing; `receive` and `wait` say how it did."""
        with suppress(OSError, ValueError):
            self._requests.write(line.encode() + b"\n")
            self._requests.flush()

    def receive(self, seconds: float) -> str:
        """Its next line; raises `TimeoutError` where none comes in time, and `ChildEnded` where none will come."""
        if self._reader is None:  # who only waits, as inside a user's program, has no thread for it
            self._reader = threading.Thread(target=self._read, daemon=True)
            self._reader.start()
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise _late(seconds) from None
        if not line:
            raise ChildEnded(self.wait(STUCK_SECONDS))
        return line.decode("utf-8", "replace").rstrip("\n")

    def _read(self) -> None:
        with suppress(OSError, ValueError):
            for line in self._answers:
                if line.endswith(b"\n"):  # not what it was about to say when it ended
                    self._lines.put(line)
        self._lines.put(b"")

    def wait(self, seconds: float | None = None) -> Ending:
        """How it ended by itself; raises `TimeoutError` where it did not in time. Either way it is over."""
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            self.end()
            raise _late(error.timeout) from None
        ending = Ending(status, self._last_line())
        self.end()
        return ending

    def _last_line(self) -> str:
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - TAIL_BYTES))
        lines = self._errors.read().decode("utf-8", "replace").split("\n")
        return next((line.strip()[:LONGEST_LINE] for line in reversed(lines) if line.strip()), "")

    def end(self) -> None:
        """With all that it started."""
        if self._errors.closed:
            return
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (AttributeError, OSError):
            self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STUCK_SECONDS)
        if self._reader is not None:
            self._reader.join(STUCK_SECONDS)
        if self._reader is None or not self._reader.is_alive():
            self._answers.close()
        self._close()

    def forget(self) -> None:
        """In a fork of the parent: the child is not this process's, which has nothing to wait for."""
        self._process.returncode = 0
        self._answers.close()
        self._close()

    def _close(self) -> None:
        self._errors.close()
        with suppress(OSError):
            self._requests.close()


def _late(seconds: float) -> TimeoutError:
    return TimeoutError(f"its process took longer than {seconds:g} s and was stopped")

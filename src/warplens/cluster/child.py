"""A local worker as its parent sees it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from threading import Lock
from typing import Final

from warplens.cluster.messages import receive, send
from warplens.machine import CORES

# The path first: with -c the current folder is searched before any other, and it may hold anything.
START: Final = (
    "import sys; sys.path[:] = sys.argv[1:]; sys.argv[1:] = []\nfrom warplens.cluster.worker import main; main()"
)
ONE_THREAD: Final = {"POLARS_MAX_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Cores are shared out by rank; threads on top of that only take turns. Both are read when the library is loaded."""

GRACE_SECONDS: Final = 10.0
"""For the end of a process whose pipe is closed already."""


class Child:
    """A process that runs one task at a time; not a `multiprocessing` one, which would import the caller's script."""

    def __init__(self, cores: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", START, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **ONE_THREAD, CORES: str(cores)},
            start_new_session=True,
        )
        self._ending = Lock()

    def ask(self, request: bytes) -> bytes | None:
        """The answer; None where the process has ended instead."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            send(self._process.stdin, request)
            return receive(self._process.stdout)
        except (OSError, ValueError):  # a closed pipe, from its side or from ours
            return None

    def ended(self) -> str:
        """How it ended, after `ask` found that it did."""
        with self._ending:
            try:
                code = self._process.wait(GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                self._kill()
                code = self._process.wait()
        self.close()
        return _ending(code)

    def kill(self) -> None:
        """With all that it started; from any thread."""
        with self._ending:
            if self._process.returncode is None:  # once it is reaped, another may have its number
                self._kill()

    def close(self) -> None:
        self.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):  # what was not sent cannot be any more
                    stream.close()

    def _kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()


def _ending(code: int) -> str:
    """
    >>> _ending(-9), _ending(-11), _ending(3)
    ('its process was killed, as the system does where memory runs out', 'its process was ended by SIGSEGV', \
'its process ended with status 3')
    """
    if code == -signal.SIGKILL:
        return "its process was killed, as the system does where memory runs out"
    if code < 0:
        with suppress(ValueError):
            return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with status {code}"

"""A program that runs in a process of its own, and waits for orders between its turns."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any, Final

import warplens_run
from warplens_run.base.errors import WarplensError
from warplens_run.trying import wire
from warplens_run.trying.trial import Refused

CHILD: Final = "warplens_run.trying.start"
POLL_SECONDS: Final = 0.2
END_SECONDS: Final = 10.0


class SideProcess:
    """Takes turns on some sides; with `is_main` it has the terminal to itself."""

    def __init__(self, job: wire.Job, variables: Mapping[str, str], *, is_main: bool, quiet: bool) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="warplens-try-", ignore_cleanup_errors=True)
        address = str(Path(self._folder.name) / "orders")
        self._ended: wire.Ended | None = None
        self.has_begun = False
        self.refused: list[Refused] = []
        """Sides whose fixes are impossible whatever the program."""
        self.names: dict[int, list[str]] = {}
        with Listener(address, "AF_UNIX") as listener:
            self._process: Any = subprocess.Popen(
                [sys.executable, "-m", CHILD, address],
                stdin=None if is_main else subprocess.DEVNULL,
                # What a program prints, it prints once, and not where rows of JSON are printed.
                stdout=(2 if quiet else None) if is_main else subprocess.DEVNULL,
                env={**_environment(), **variables},
            )
            self._connection = self._accepted(listener)
        self.send(job)

    def _accepted(self, listener: Listener) -> Connection:
        """A process that cannot even start never connects."""
        socket: Any = listener._listener._socket  # type: ignore[attr-defined]
        socket.settimeout(POLL_SECONDS)
        while True:
            with suppress(TimeoutError):
                return listener.accept()
            if self._process.poll() is not None:
                raise WarplensError(f"a process of the trial ended at once, with status {self._process.returncode}")

    def prepare(self) -> None:
        """Until its fixes are made; the program has not begun then."""
        while not isinstance(message := self.receive(), wire.Ready):
            if isinstance(message, Refused):
                self.refused.append(message)
            elif isinstance(message, wire.Ended):
                raise WarplensError(f"a process of the trial ended before the program began: {message.error}")
        self.names = {int(side): names for side, names in message.names.items()}

    def begin(self) -> None:
        """Run the program; it warms up and then waits for the first order."""
        self.has_begun = True
        self.send(wire.Go())

    def send(self, message: wire.Message) -> None:
        with suppress(OSError):  # `receive` reports how it ended
            self._connection.send_bytes(wire.encode(message))

    def receive(self) -> wire.Message:
        """Its next message; once it has ended, that."""
        if self._ended is not None:
            return self._ended
        try:
            message = wire.decode(self._connection.recv_bytes())
        except (EOFError, OSError):
            message = self._lost()
        if isinstance(message, wire.Ended):
            self._ended = message
        return message

    def _lost(self) -> wire.Ended:
        """Killed, or ended by code that asks nobody."""
        status = int(self._process.wait())
        if status < 0:
            return wire.Ended("killed", 128 - status, -1, 0, f"killed by {_signal_name(-status)}")
        return wire.Ended("gone", status or 1, -1, 0, f"ended with status {status} in the middle of it")

    def end(self) -> None:
        """It ends with its next step; where it is not asked to wait for one, it is ended."""
        self.send(wire.Go(stop=True))
        with suppress(OSError):
            while not isinstance(self.receive(), wire.Ended):
                pass
        self._process.wait()
        self._close()

    def interrupt(self) -> None:
        """Ctrl-C has reached it as well, where it came from a terminal."""
        deadline = time.monotonic() + END_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        if self._process.poll() is None:
            self._process.terminate()
        self._close()

    def _close(self) -> None:
        self._connection.close()
        self._folder.cleanup()


def _environment() -> dict[str, str]:
    """Where Warplens is one file, a process has to be told of it; else it is found as it was here."""
    home = Path(warplens_run.__file__).parents[1]
    if not home.is_file():
        return dict(os.environ)
    paths = (str(home.resolve()), os.environ.get("PYTHONPATH", ""))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _signal_name(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"

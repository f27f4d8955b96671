"""A program that runs in a process of its own, and waits for orders between its turns."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing import Pipe
from typing import Final

from warplens_run.base.errors import WarplensError
from warplens_run.processes.child import ending_of, environment
from warplens_run.trying import wire
from warplens_run.trying.trial import Refused

CHILD: Final = "warplens_run.trying.start"
END_SECONDS: Final = 10.0


class SideProcess:
    """Takes turns on some sides; with `is_main` it has the terminal to itself."""

    def __init__(self, job: wire.Job, variables: Mapping[str, str], *, is_main: bool, quiet: bool) -> None:
        self._ended: wire.Ended | None = None
        self.has_begun = False
        self.refused: list[Refused] = []
        """Sides whose fixes are impossible whatever the program."""
        self.names: dict[int, list[str]] = {}
        self._connection, theirs = Pipe()
        with theirs:
            # Not a `Child`: its streams, its terminal and the keys that are pressed there are the program's.
            self._process = subprocess.Popen(
                [sys.executable, "-m", CHILD, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=None if is_main else subprocess.DEVNULL,
                # What a program prints, it prints once, and not where rows of JSON are printed.
                stdout=(2 if quiet else None) if is_main else subprocess.DEVNULL,
                env={**environment(), **variables},
            )
        self.send(job)

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
        status = self._process.wait()
        return wire.Ended("gone", 128 - status if status < 0 else status or 1, -1, 0, ending_of(status))

    def end(self) -> None:
        """It ends with its next step; where it is not asked to wait for one, it is ended."""
        self.send(wire.Go(stop=True))
        with suppress(OSError):
            while not isinstance(self.receive(), wire.Ended):
                pass
        self._process.wait()
        self._connection.close()

    def interrupt(self) -> None:
        """Ctrl-C has reached it as well, where it came from a terminal."""
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.terminate()
        self._connection.close()

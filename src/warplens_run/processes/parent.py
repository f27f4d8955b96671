"""The parent of a process of ours, as the process itself sees it."""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Callable


class Parent:
    """Lines from the parent and to it; made before anything else is done.

    What is sent goes to what was standard output. Whatever libraries or the user's code print goes to standard error
    from then on, and standard input is empty. When the parent is gone, however it ended, so is this process with all
    that it started, after `at_end`.
    """

    def __init__(self) -> None:
        self.at_end: Callable[[], None] = lambda: None
        self._requests = os.dup(0)
        self._answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)
        os.dup2(2, 1)
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def receive(self) -> str:
        return self._lines.get()

    def send(self, line: str) -> None:
        self._answers.write(line + "\n")
        self._answers.flush()

    def _read(self) -> None:
        pending = b""
        while block := os.read(self._requests, 1 << 16):
            *lines, pending = (pending + block).split(b"\n")
            for line in lines:
                self._lines.put(line.decode())
        self.at_end()
        if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(0)

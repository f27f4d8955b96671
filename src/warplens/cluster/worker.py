"""The life of a local worker: one task after another, until the process that started it goes.

Requests come on stdin and answers go to the real stdout; what tasks print goes to stderr. A thread reads the requests:
stdin ends when the parent does, killed or not, and that ends the worker in the middle of a task too.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any

from warplens.cluster.attempt import attempt, find
from warplens.cluster.executor import Outcome
from warplens.cluster.messages import receive, send


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C ends
    answers = os.fdopen(os.dup(1), "wb")
    sys.stdout.flush()
    os.dup2(2, 1)
    requests: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_read_requests, args=(sys.stdin.buffer, requests), daemon=True).start()
    while True:
        name, argument = pickle.loads(requests.get())
        send(answers, _packed(attempt(_run_named, (name, argument))))


def _run_named(request: tuple[str, Any]) -> Any:
    name, argument = request
    return find(name)(argument)


def _packed(outcome: Outcome[Any]) -> bytes:
    packed: Outcome[Any] = attempt(pickle.dumps, outcome)
    return packed.value if packed.value is not None else pickle.dumps(packed)


def _read_requests(stream: IO[bytes], requests: SimpleQueue[bytes]) -> None:
    while (message := receive(stream)) is not None:
        requests.put(message)
    _end()


def _end() -> None:
    """With the children of a task, if it has some: the worker leads a process group of its own."""
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)

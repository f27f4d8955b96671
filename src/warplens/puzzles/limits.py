"""How long a learner's code may run."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class OutOfTime(Exception):  # noqa: N818 - an Exception, so that the interpreter passes it on with its statement
    """The learner's kernel ran longer than it may."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises `OutOfTime` in what is running, after so much CPU time: on a busy machine a right answer is only slower.

    Code that waits without computing, or a system without such signals, is left to the parent process.
    """
    if not hasattr(signal, "setitimer"):
        yield
        return

    def ring(number: int, frame: Any) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)

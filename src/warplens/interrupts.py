"""Signals that end the command: Ctrl-C while modules are loaded, and SIGTERM.

Raised inside Polars' or numpy's own code, an interrupt comes out as a panic or a fault of the process: of 320 at random
moments of a report's first 0.6 s, five did.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Ctrl-C ends the process with one word: for imports of the command, before there is anything else to put away.

    Only where it has its usual meaning: a program around us may have another, and a shell ignores it in the background.
    """
    is_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_usual:
        signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        if is_usual:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def ending_in_order() -> None:
    """From now on SIGTERM and SIGHUP are exceptions, so that no temporary file is left; a second one ends at once."""
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _terminate)


def _terminate(number: int, frame: FrameType | None) -> None:
    from warplens_run.base.errors import Terminated

    signal.signal(number, signal.SIG_DFL)
    raise Terminated(number)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"interrupted\n")
    # A copy of stdin, where a verb loads its modules. Nothing is loaded for it: that would take time in which Ctrl-C is
    # still answered by Python.
    if made := sys.modules.get("warplens_run.base.temporary"):
        made.remove_made()
    os._exit(130)

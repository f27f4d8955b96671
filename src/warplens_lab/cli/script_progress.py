"""A progress line on stderr while a script runs or its kernels are compiled."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from warplens_run.cli.printing import draw_progress, note

AFTER_SECONDS = 1.0
"""What is over sooner needs no progress."""
NOTE_SECONDS = 30.0
"""Where stderr is not a terminal, a note that often."""


@contextmanager
def script_progress() -> Iterator[Callable[[str], None]]:
    """A function that shows how far a script is: a line on a terminal, else a note from time to time."""
    is_terminal = sys.stderr.isatty()
    started = noted = time.monotonic()
    drawn = False

    def show(text: str) -> None:
        nonlocal drawn, noted
        now = time.monotonic()
        if is_terminal and now - started >= AFTER_SECONDS:
            drawn = True
            draw_progress(text)
        elif not is_terminal and now - noted >= NOTE_SECONDS:
            noted = now
            note(text)

    try:
        yield show
    finally:
        if drawn:
            draw_progress("")

"""A progress bar on stderr that needs only Python: GPU hosts may have nothing else."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warplens.replay.running.options import Progress

BAR = 24


@contextmanager
def progress_bar() -> Iterator[Callable[[Progress], None]]:
    """A function that draws the progress; it does nothing where stderr is not a terminal."""
    is_terminal = sys.stderr.isatty()

    def show(state: Progress) -> None:
        if is_terminal:
            width = shutil.get_terminal_size((100, 24)).columns - 1
            print("\r" + line(state)[:width].ljust(width), end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        if is_terminal:
            print("\r" + " " * (shutil.get_terminal_size((100, 24)).columns - 1) + "\r", end="", file=sys.stderr)


def line(state: Progress) -> str:
    full = round(BAR * state.share)
    bar = "#" * full + "." * (BAR - full)
    now = f": {state.unit} {state.op}" if state.unit else ""
    return f"[{bar}] {100 * state.share:3.0f} % of GPU time, {state.done} of {state.total} units done{now}"

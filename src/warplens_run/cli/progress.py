"""A progress bar on stderr that needs only Python: GPU hosts may have nothing else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from warplens_run.cli.printing import draw_progress

if TYPE_CHECKING:
    from warplens_run.replay.options import Progress

BAR = 24
LEAST_SHARE = 0.03
LONG_S = 100


@contextmanager
def progress_bar() -> Iterator[Callable[[Progress], None]]:
    """A function that draws the progress; it does nothing where stderr is not a terminal."""
    is_terminal = sys.stderr.isatty()
    started: list[tuple[float, float]] = []
    """When something was first reported, and what share was done by then: a run may be a continued one."""

    def show(state: Progress) -> None:
        if is_terminal:
            now = time.monotonic()
            started.append((now, state.share))
            left_s = seconds_left(now - started[0][0], state.share - started[0][1], state.share)
            draw_progress(line(state, left_s))

    try:
        yield show
    finally:
        if is_terminal:
            draw_progress("")


def seconds_left(elapsed_s: float, done: float, share: float) -> float | None:
    """At the pace so far; None while too little is done to know it.

    >>> seconds_left(30.0, 0.25, 0.5), seconds_left(1.0, 0.01, 0.01)
    (60.0, None)
    """
    return elapsed_s * (1 - share) / done if done >= LEAST_SHARE else None


def line(state: Progress, left_s: float | None = None) -> str:
    full = round(BAR * state.share)
    bar = "#" * full + "." * (BAR - full)
    now = f": {state.unit} {state.op}" if state.unit else ""
    left = f", about {format_minutes(left_s)} left" if left_s is not None and state.unit else ""
    return f"[{bar}] {100 * state.share:3.0f} %, {state.done} of {state.total} done{left}{now}"


def format_minutes(seconds: float) -> str:
    """
    >>> format_minutes(31), format_minutes(600)
    ('31 s', '10 min')
    """
    return f"{seconds:.0f} s" if seconds < LONG_S else f"{seconds / 60:.0f} min"

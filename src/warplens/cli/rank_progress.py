"""A progress line on stderr while the ranks of a job are read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from warplens.cluster import OnProgress, Progress
from warplens_run.base.units import plural
from warplens_run.cli.printing import draw_progress
from warplens_run.cli.progress import BAR, format_minutes


@contextmanager
def rank_progress() -> Iterator[OnProgress]:
    """A function that draws the progress; it does nothing where stderr is not a terminal."""
    is_terminal = sys.stderr.isatty()

    def show(progress: Progress) -> None:
        if is_terminal:
            draw_progress(line(progress))

    try:
        yield show
    finally:
        if is_terminal:
            draw_progress("")


def line(progress: Progress) -> str:
    """
    >>> line(Progress(3, 8, 0.375, 6.0, failed=1, workers=2))
    '[#########...............]  38 %, 3 of 8 ranks, 1 unreadable, about 10 s left, 2 workers'
    >>> line(Progress(0, 8, 0.0, 6.0, workers=0))
    '[........................]   0 %, 0 of 8 ranks, waiting for a worker'
    """
    full = round(BAR * progress.share)
    parts = [
        f"[{'#' * full}{'.' * (BAR - full)}] {100 * progress.share:3.0f} %",
        f"{progress.done:,} of {plural(progress.total, 'rank')}",
        f"{progress.failed:,} unreadable" if progress.failed else "",
        f"about {format_minutes(progress.left_s)} left" if progress.left_s is not None else "",
    ]
    if progress.workers is not None:
        parts.append(plural(progress.workers, "worker") if progress.workers else "waiting for a worker")
    return ", ".join(filter(None, parts))

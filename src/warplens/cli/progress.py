"""A spinner on stderr while something slow runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SLOW_BYTES = 1_500_000
"""Files from this size on may take over a second, so their opening shows progress."""
SLOW_SUFFIXES = (".ncu-rep", ".nsys-rep")
"""A tool of NVIDIA's reads these: it takes seconds, however small they are."""


@contextmanager
def progress(text: str, path: Path) -> Iterator[None]:
    """Shows `text` while a file is read that takes long; nothing where stderr is not a terminal."""
    with spinner(text, is_slow=_is_slow(path)):
        yield


@contextmanager
def spinner(text: str, *, is_slow: bool = True) -> Iterator[None]:
    if not (is_slow and sys.stderr.isatty()):
        yield
        return
    from rich.console import Console
    from rich.markup import escape

    from warplens_run.base.printable import clean

    with Console(stderr=True).status(escape(clean(text))):
        yield


def _is_slow(path: Path) -> bool:
    try:
        return path.suffix in SLOW_SUFFIXES or path.stat().st_size > SLOW_BYTES
    except (OSError, ValueError):
        return False  # opening it reports what is wrong

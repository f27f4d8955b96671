"""How much a file may become while it is read.

A few bytes can ask for any amount: one list that a thousand others refer to, a column for every name of a metric, a
page of a database that is its own child. What makes more of a file than its bytes spell out counts that first, with
`spend`, against the budget of the file that is being read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from warplens_run.base.errors import FormatError
from warplens_run.base.machine import free_ram
from warplens_run.base.units import format_bytes, format_count

FREE_VALUES: Final = 1_000_000
"""What any file may become: a second or two, and a hundred megabytes."""
VALUES_PER_BYTE: Final = 2
"""And by its size when unpacked; sound files have at most 0.1."""
BYTES_PER_VALUE: Final = 64
"""Of memory, with what the analyses make of it."""
MEMORY_SHARE: Final = 0.5
"""Of the free memory."""


class Budget:
    """What is left of it for one file."""

    def __init__(self, content_bytes: int, where: str, chosen_bytes: int = 0) -> None:
        """`chosen_bytes`: what the user allows the file to take; 0: by its size and the free memory."""
        self._where, self._content_bytes = where, content_bytes
        usual, free = FREE_VALUES + VALUES_PER_BYTE * content_bytes, free_ram()
        most = usual if free is None else min(usual, int(free * MEMORY_SHARE) // BYTES_PER_VALUE)
        self.most = max(FREE_VALUES, chosen_bytes // BYTES_PER_VALUE) if chosen_bytes else most
        self.spent = 0

    def spend(self, values: int, what: str) -> None:
        self.spent += values
        if self.spent > self.most:
            size = format_bytes(self._content_bytes)
            raise FormatError(
                f"its {size} would become more than {format_count(self.most)} values ({what})",
                where=self._where,
                hint="if it is sound and memory suffices, allow it a larger size",
                options=("max_size",),
            )


UNLIMITED: Final = Budget(0, "", sys.maxsize)
_current: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextmanager
def budget_of(content_bytes: int, where: str, chosen_bytes: int = 0) -> Iterator[Budget]:
    """The budget of a file while it is read; of files inside a file, each has its own."""
    budget = Budget(content_bytes, where, chosen_bytes)
    token = _current.set(budget)
    try:
        yield budget
    finally:
        _current.reset(token)


def current_budget() -> Budget:
    """That of the file that is being read; what is made outside of files is not limited."""
    return _current.get() or UNLIMITED


def spend(values: int, what: str) -> None:
    """Count so many values before they are made; raises `FormatError` where they are too many for the file."""
    current_budget().spend(values, what)

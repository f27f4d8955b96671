"""What reading an SQLite file may cost.

The file is a stranger's: its schema can call a view a table, its values can be of any size, and rows can share pages,
so that few of these hold any amount of text.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterable
from typing import Any, Final

from warplens_run.base.errors import FormatError
from warplens_run.base.units import format_bytes

FREE_STEPS: Final = 50_000_000
"""Instructions of SQLite's machine that any file may take: about a second."""
STEPS_PER_BYTE: Final = 64
"""And by the size of the file; a table of kernels takes one to four."""
STRIDE: Final = 10_000
"""Instructions between two checks."""
FREE_TEXT_BYTES: Final = 64 << 20
TEXT_RATIO: Final = 4
"""Text that may come out, by the size of the file: the same names are read more than once."""
MOST_VALUE_BYTES: Final = 2 << 20
"""Of one value; 65,536 numbers joined to one text take 1.4 MB."""
ALLOWED: Final = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_PRAGMA,
    sqlite3.SQLITE_TRANSACTION,
}


class SqliteLimits:
    """The limits for one open file."""

    def __init__(self, file_bytes: int, where: str) -> None:
        self._where = where
        self._steps = FREE_STEPS + STEPS_PER_BYTE * file_bytes
        self._text_bytes = FREE_TEXT_BYTES + TEXT_RATIO * file_bytes

    def apply(self, connection: sqlite3.Connection) -> None:
        connection.set_authorizer(_authorized)
        connection.set_progress_handler(self._step, STRIDE)
        if sys.version_info >= (3, 11):
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_VALUE_BYTES)

    def _step(self) -> int:
        self._steps -= STRIDE
        return int(self._steps < 0)

    def check(self, error: sqlite3.DatabaseError) -> None:
        """Raise `FormatError` where SQLite's error is that a limit stopped it."""
        if self._steps < 0:
            raise self._refusal("an SQLite file that takes far longer to read than its size explains")
        if isinstance(error, sqlite3.DataError):
            raise self._refusal(f"an SQLite file with a value over {format_bytes(MOST_VALUE_BYTES)}")

    def count(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Count the text of rows; refuse a file that has more of it than fits into its size."""
        self._text_bytes -= sum(len(value) for row in rows for value in row if isinstance(value, str))
        if self._text_bytes < 0:
            raise self._refusal("an SQLite file with more text than its size explains")

    def _refusal(self, message: str) -> FormatError:
        return FormatError(message, where=self._where)


def _authorized(action: int, _first: str | None, _second: str | None, database: str | None, source: str | None) -> int:
    """Only queries of tables: what a view or a trigger asks for has its name as the source."""
    is_allowed = source is None and (action in ALLOWED or database == "temp")
    return sqlite3.SQLITE_OK if is_allowed else sqlite3.SQLITE_DENY

"""Tables of an SQLite file as columns: opened read-only, read in bulk; damaged places are left out and counted.

Only tables are read, never views: a view would run SQL that the file brings along.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from warplens.errors import FormatError
from warplens.model.kinds import NONE
from warplens.model.quality import Note
from warplens.model.trace import Ints
from warplens.readers.shared.stored_file import UNFINISHED

MAGIC: Final = b"SQLite format 3\0"
CHUNK_ROWS = 1 << 16
FIRST_ROW: Final = 1
LAST_ROW: Final = 2**63 - 1
UNREADABLE: Final = -(2**64)
MAX_LOST: Final = 1_000
"""Damaged pieces of a table after which the rest is given up."""
CHUNK_KEYS: Final = 500
"""Values in one query; older SQLite libraries take at most 999."""

Spec = Mapping[str, Sequence[str]]
"""Our name of a column → the names it goes by in the file, best first: exporters rename and drop columns."""


class Database:
    """The tables of an open file; `damage` counts the places in each that could not be read."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.damage: Counter[str] = Counter()
        self._connection = connection
        # A virtual table has no page of its own; reading it would run the code of its module.
        stored = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 ORDER BY rowid"
        self.tables = [str(row[0]) for row in connection.execute(stored)]
        self._columns: dict[str, set[str]] = {}

    def columns(self, table: str) -> set[str]:
        """Empty for a table that the file does not have; exporters leave out what has no rows."""
        if table not in self._columns:
            columns = self._connection.execute(f"PRAGMA table_info({quoted(table)})") if table in self.tables else ()
            self._columns[table] = {str(row[1]) for row in columns}
        return self._columns[table]

    def ints(self, table: str, spec: Spec, where: str = "") -> dict[str, Ints]:
        """The columns as integers, in the table's order; -1 where a value or the whole column is absent."""
        return self._read(table, spec, None, where)[0]

    def ints_and_text(
        self, table: str, spec: Spec, text: str, where: str = ""
    ) -> tuple[dict[str, Ints], list[str | None]]:
        """As `ints`, and one column of text."""
        return self._read(table, spec, text, where)

    def texts(self, table: str, *columns: str) -> list[tuple[str | None, ...]]:
        """The rows of a small table, every value as text; None where a value or the whole column is absent."""
        existing = self.columns(table)
        if not existing.intersection(columns):
            return []
        wanted = [_text(column) if column in existing else "NULL" for column in columns]
        return [row for rows in self._chunks(table, wanted, "", ()) for row in rows]

    def text_of(self, table: str, key: str, value: str, keys: Ints) -> dict[int, str]:
        """The texts that these keys stand for; a key without one is left out."""
        texts: dict[int, str] = {}
        if not {key, value} <= self.columns(table):
            return texts
        wanted = [number for number in np.unique(keys).tolist() if number != NONE]
        for first in range(0, len(wanted), CHUNK_KEYS):
            some = wanted[first : first + CHUNK_KEYS]
            where = f"{quoted(key)} IN ({', '.join('?' * len(some))})"
            for rows in self._chunks(table, [quoted(key), _text(value)], where, some):
                texts |= {int(row[0]): row[1] for row in rows if row[1] is not None}
        return texts

    def notes(self) -> list[Note]:
        """What to say of tables that could not be read whole."""
        return [Note("damaged", self.damage.total(), f"in {', '.join(self.damage)}")] if self.damage else []

    def _read(self, table: str, spec: Spec, text: str | None, where: str) -> tuple[dict[str, Ints], list[str | None]]:
        existing = self.columns(table)
        present = {name: [column for column in others if column in existing] for name, others in spec.items()}
        wanted = [_integer(columns) for columns in present.values() if columns]
        if not wanted:
            return {name: np.zeros(0, np.int64) for name in spec}, []
        text_wanted = [_text(text)] if text is not None and text in existing else []
        blocks: list[Ints] = [np.zeros((len(wanted), 0), np.int64)]
        texts: list[str | None] = []
        for window in self._windows(table, where):
            packed = None if text_wanted else self._packed(table, wanted, window)
            if packed is not None:
                blocks.append(packed)
                continue
            for rows in self._chunks(table, [*wanted, *text_wanted], window, ()):
                texts += [row[-1] for row in rows] if text_wanted else []
                flat = chain.from_iterable(row[: len(wanted)] for row in rows)
                blocks.append(np.fromiter(flat, np.int64, len(rows) * len(wanted)).reshape(-1, len(wanted)).T)
        whole = np.concatenate(blocks, axis=1)
        read = iter(whole)
        absent = np.full(whole.shape[1], NONE, np.int64)
        columns = {name: next(read) if present[name] else absent for name in spec}
        return columns, texts if text_wanted else [None] * whole.shape[1]

    def _windows(self, table: str, where: str) -> Iterator[str]:
        """Conditions that take the rows of a table in pieces, so that one damaged place does not cost the rest."""
        first = self._row_number(table, "min", "", FIRST_ROW)
        end = self._row_number(table, "max", "", FIRST_ROW) or FIRST_ROW
        lost = 0
        while first is not None:
            last = min(first + CHUNK_ROWS - 1, LAST_ROW)
            yield f"rowid BETWEEN {first} AND {last}" + (f" AND ({where})" if where else "")
            first = self._row_number(table, "min", f"WHERE rowid > {last}", UNREADABLE)
            if first == UNREADABLE:  # go on right behind, as long as there are rows
                lost += 1
                first = last + 1 if last < end and lost < MAX_LOST else None
                self.damage[table] += first is None

    def _row_number(self, table: str, which: str, condition: str, if_unreadable: int) -> int | None:
        try:
            number = self._connection.execute(f"SELECT {which}(rowid) FROM {quoted(table)} {condition}").fetchone()[0]
        except sqlite3.DatabaseError:
            return if_unreadable
        return number if isinstance(number, int) else None

    def _packed(self, table: str, wanted: Sequence[str], window: str) -> Ints | None:
        """The columns of a window, each joined to one text by SQLite: half the time of a Python tuple for every row."""
        joined = ", ".join(f"group_concat({column})" for column in wanted)
        try:
            row = self._connection.execute(f"SELECT {joined} FROM {quoted(table)} WHERE {window}").fetchone()
        except sqlite3.DatabaseError:
            return None
        if row[0] is None:
            return np.zeros((len(wanted), 0), np.int64)
        return np.array([np.fromstring(text, np.int64, sep=",") for text in row])

    def _chunks(
        self, table: str, wanted: Sequence[str], where: str, values: Sequence[Any]
    ) -> Iterator[list[tuple[Any, ...]]]:
        """The rows piece by piece; where the file is damaged, those before the damage."""
        query = f"SELECT {', '.join(wanted)} FROM {quoted(table)}" + (f" WHERE {where}" if where else "")
        rows: list[tuple[Any, ...]] = []
        try:
            cursor = self._connection.execute(query, values)
            while True:
                rows = []
                rows.extend(islice(cursor, CHUNK_ROWS))
                if not rows:
                    return
                yield rows
        except sqlite3.DatabaseError:
            self.damage[table] += 1
            yield rows  # `extend` keeps what came before the error


@contextmanager
def opened(text: bytes, where: str, notes: list[Note]) -> Iterator[Database]:
    """The database in `text`; adds a note where the file is cut.

    SQLite needs a file: the one that was read, or a temporary one where that is packed or cut.
    """
    cut = missing_bytes(text)
    with ExitStack() as stack:
        try:
            stored = None if cut else _stored(text, where)
            path = stored or _unpacked(text, Path(stack.enter_context(tempfile.TemporaryDirectory())))
        except OSError as error:
            raise FormatError(f"cannot be unpacked to a temporary file ({error.strerror})", where=where) from None
        try:
            uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
            connection = stack.enter_context(closing(sqlite3.connect(uri, uri=True)))
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            connection.execute("PRAGMA trusted_schema = OFF")
            if cut:  # else SQLite refuses the whole file
                connection.execute("PRAGMA writable_schema = ON")
            if cut and not any(note.code == "truncated" for note in notes):
                notes.append(Note("truncated", detail=f"the last {cut:,} bytes of the database are missing"))
            yield Database(connection)
        except sqlite3.DatabaseError as error:
            raise FormatError(f"a damaged SQLite file ({error})", where=where, hint=UNFINISHED) from None


def missing_bytes(text: bytes) -> int:
    """How much shorter the file is than its header says; 0 where the header does not know."""
    header = text[:100]
    if len(header) < 100 or header[24:28] != header[92:96]:
        return 0
    return max(0, _page_bytes(text) * int.from_bytes(header[28:32], "big") - len(text))


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _stored(text: bytes, where: str) -> Path | None:
    path = Path(where)
    if not path.is_file() or path.stat().st_size != len(text):
        return None
    with path.open("rb") as stream:
        return path if stream.read(len(MAGIC)) == MAGIC else None


def _unpacked(text: bytes, folder: Path) -> Path:
    path = folder / "profile.sqlite"
    # SQLite would take what is missing of a half page for zeros, and those for rows.
    path.write_bytes(text[: len(text) - len(text) % (_page_bytes(text) or 1)])
    return path


def _page_bytes(text: bytes) -> int:
    stored = int.from_bytes(text[16:18], "big")
    return 1 << 16 if stored == 1 else stored


def _integer(columns: Sequence[str]) -> str:
    return f"CAST(coalesce({', '.join(map(quoted, columns))}, {NONE}) AS INTEGER)"


def _text(column: str) -> str:
    return f"CAST({quoted(column)} AS TEXT)"

"""Tables of an SQLite file as columns: opened read-only, read in bulk; damaged places are left out and counted.

Only tables are read, never views: a view would run SQL that the file brings along. What that may cost is limited by
`sqlite_limits`.
"""

from __future__ import annotations

import shlex
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from warplens.errors import FormatError
from warplens.model.kinds import NONE
from warplens.model.quality import Note
from warplens.model.trace import Ints
from warplens.readers.shared.sqlite_limits import SqliteLimits, is_too_big
from warplens.readers.shared.stored_file import UNFINISHED

MAGIC: Final = b"SQLite format 3\0"
JOURNAL_MAGIC: Final = bytes.fromhex("d9d505f920a163d7")
WAL_HEADER_BYTES: Final = 32
CHUNK_ROWS = 1 << 16
FIRST_ROW: Final = 1
LAST_ROW: Final = 2**63 - 1
UNREADABLE: Final = -(2**64)
MAX_LOST: Final = 1_000
"""Damaged pieces of a table after which the rest is given up."""
CHUNK_KEYS: Final = 500
"""Values in one query; older SQLite libraries take at most 999."""

TEXT_ROWS: Final = 128
"""Rows between two counts of their text."""
ROW_NAMES: Final = ("rowid", "_rowid_", "oid")
"""What SQLite calls the number of a row, where no column has that name."""
WANTED: Final = "temp.warplens_wanted"
"""Keys whose rows are asked for."""

Spec = Mapping[str, Sequence[str]]
"""Our name of a column → the names it goes by in the file, best first: exporters rename and drop columns."""


class _Window(NamedTuple):
    """Rows of a table by their numbers; all of them where these have no name."""

    row: str
    first: int
    last: int

    def condition(self, where: str) -> str:
        parts = [f"{self.row} BETWEEN {self.first} AND {self.last}"] if self.row else []
        return " AND ".join([*parts, *([f"({where})"] if where else [])]) or "1"

    def halves(self) -> tuple[_Window, ...]:
        """None of a single row."""
        if not self.row or self.first >= self.last:
            return ()
        middle = (self.first + self.last) // 2
        return self._replace(last=middle), self._replace(first=middle + 1)


class Database:
    """The tables of an open file; `damage` counts the places in each that could not be read."""

    def __init__(self, connection: sqlite3.Connection, file_bytes: int = 0, where: str = "") -> None:
        self.damage: Counter[str] = Counter()
        self._connection = connection
        connection.execute(f"CREATE TEMP TABLE {WANTED} (key INTEGER PRIMARY KEY)")
        self._limits = SqliteLimits(connection, file_bytes, where)
        # A virtual table has no page of its own; reading it would run the code of its module.
        stored = "SELECT name FROM main.sqlite_master WHERE type = 'table' AND rootpage > 0 ORDER BY rowid"
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
        return [row for window in self._windows(table) for row in self._rows(table, wanted, window, "")]

    def text_of(self, table: str, key: str, value: str, keys: Ints) -> dict[int, str]:
        """The texts that these keys stand for; a key without one is left out."""
        if not {key, value} <= self.columns(table):
            return {}
        wanted = [number for number in np.unique(keys).tolist() if number != NONE]
        columns = [quoted(key), _text(value)]
        rows: list[tuple[Any, ...]] = []
        if len(wanted) <= CHUNK_KEYS or self._is_indexed(table, key):
            for first in range(0, len(wanted), CHUNK_KEYS):
                rows += self._rows_of_keys(table, columns, wanted[first : first + CHUNK_KEYS])
        else:  # each query would go through the whole table
            self._connection.execute(f"DELETE FROM {WANTED}")
            self._connection.executemany(f"INSERT INTO {WANTED} VALUES (?)", ((number,) for number in wanted))
            where = f"{quoted(key)} IN (SELECT key FROM {WANTED})"
            rows = [row for window in self._windows(table) for row in self._rows(table, columns, window, where)]
        return {int(row[0]): row[1] for row in rows if row[1] is not None}

    def _is_indexed(self, table: str, key: str) -> bool:
        """Whether rows are found by this column without going through all."""
        primary = [row[1] for row in self._connection.execute(f"PRAGMA table_info({quoted(table)})") if row[5]]
        if primary == [key]:
            return True
        indexes = self._connection.execute(f"PRAGMA index_list({quoted(table)})").fetchall()
        return any(
            columns and columns[0][2] == key
            for name, is_partial in ((row[1], row[4]) for row in indexes)
            if not is_partial
            for columns in (self._connection.execute(f"PRAGMA index_info({quoted(name)})").fetchall(),)
        )

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
        for window in self._windows(table):
            packed = None if text_wanted else self._packed(table, wanted, window, where)
            if packed is not None:
                blocks.append(packed)
                continue
            rows = self._rows(table, [*wanted, *text_wanted], window, where)
            texts += [row[-1] for row in rows] if text_wanted else []
            flat = chain.from_iterable(row[: len(wanted)] for row in rows)
            blocks.append(np.fromiter(flat, np.int64, len(rows) * len(wanted)).reshape(-1, len(wanted)).T)
        whole = np.concatenate(blocks, axis=1)
        read = iter(whole)
        absent = np.full(whole.shape[1], NONE, np.int64)
        columns = {name: next(read) if present[name] else absent for name in spec}
        return columns, texts if text_wanted else [None] * whole.shape[1]

    def _windows(self, table: str) -> Iterator[_Window]:
        """The rows of a table in pieces, so that one damaged place does not cost the rest."""
        row = self._row_name(table)
        if row is None:
            yield _Window("", 0, 0)
            return
        first = self._row_number(table, f"min({row})", "", FIRST_ROW)
        end = self._row_number(table, f"max({row})", "", FIRST_ROW) or FIRST_ROW
        lost = 0
        has_gaps = False
        while first is not None:
            last = min(first + CHUNK_ROWS - 1, LAST_ROW)
            if has_gaps:  # by their numbers, pieces could have a row each
                after = f"WHERE {row} >= {first} ORDER BY {row} LIMIT 1 OFFSET {CHUNK_ROWS - 1}"
                last = self._row_number(table, row, after, last) or LAST_ROW
            yield _Window(row, first, last)
            first = self._row_number(table, f"min({row})", f"WHERE {row} > {last}", UNREADABLE)
            if first == UNREADABLE:  # go on right behind, as long as there are rows
                lost += 1
                first = last + 1 if last < end and lost < MAX_LOST else None
                if first is None:
                    self.damage[table] += 1
            elif first is not None and first > last + 1:
                has_gaps = True

    def _row_name(self, table: str) -> str | None:
        """What the number of a row is called; None where every name is a column's, or rows have no numbers."""
        columns = {str(row[1]).lower() for row in self._connection.execute(f"PRAGMA table_xinfo({quoted(table)})")}
        name = next((name for name in ROW_NAMES if name not in columns), None)
        try:
            self._connection.execute(f"SELECT {name} FROM {quoted(table)} LIMIT 0") if name else None
        except sqlite3.OperationalError as error:
            return None if "no such column" in str(error) else name
        except sqlite3.DatabaseError:
            pass  # damaged: reading it in pieces finds what is left
        return name

    def _row_number(self, table: str, which: str, condition: str, if_unreadable: int) -> int | None:
        try:
            row = self._connection.execute(f"SELECT {which} FROM {quoted(table)} {condition}").fetchone()
        except sqlite3.DatabaseError:
            self._limits.check()
            return if_unreadable
        return row[0] if row is not None and isinstance(row[0], int) else None

    def _packed(self, table: str, wanted: Sequence[str], window: _Window, where: str) -> Ints | None:
        """The columns of a window, each joined to one text by SQLite: half the time of a Python tuple for every row."""
        if not window.row:
            return None
        joined = ", ".join(f"group_concat({column})" for column in wanted)
        query = f"SELECT {joined} FROM {quoted(table)} WHERE {window.condition(where)}"
        try:
            row = self._connection.execute(query).fetchone()
        except sqlite3.DatabaseError:
            self._limits.check()
            return None
        if row[0] is None:
            return np.zeros((len(wanted), 0), np.int64)
        return np.array([np.fromstring(text, np.int64, sep=",") for text in row])

    def _rows(self, table: str, wanted: Sequence[str], window: _Window, where: str) -> list[tuple[Any, ...]]:
        """The rows of a window; where the file is damaged, those before the damage. Rows with huge values are lost."""
        rows, error = self._fetched(table, wanted, window.condition(where), ())
        halves = window.halves() if error is not None and is_too_big(error) else ()
        if halves:
            return [row for half in halves for row in self._rows(table, wanted, half, where)]
        if error is not None:
            self.damage[table] += 1
        return rows

    def _rows_of_keys(self, table: str, columns: Sequence[str], keys: Sequence[int]) -> list[tuple[Any, ...]]:
        """Likewise for the rows with these keys in the first column."""
        rows, error = self._fetched(table, columns, f"{columns[0]} IN ({', '.join('?' * len(keys))})", keys)
        if error is not None and is_too_big(error) and len(keys) > 1:
            middle = len(keys) // 2
            halves = (keys[:middle], keys[middle:])
            return [row for half in halves for row in self._rows_of_keys(table, columns, half)]
        if error is not None:
            self.damage[table] += 1
        return rows

    def _fetched(
        self, table: str, wanted: Sequence[str], where: str, values: Sequence[Any]
    ) -> tuple[list[tuple[Any, ...]], sqlite3.DatabaseError | None]:
        rows: list[tuple[Any, ...]] = []
        try:
            cursor = self._connection.execute(f"SELECT {', '.join(wanted)} FROM {quoted(table)} WHERE {where}", values)
            while True:
                before = len(rows)
                rows.extend(islice(cursor, TEXT_ROWS))
                if len(rows) == before:
                    return rows, None
                self._limits.count(rows[before:])
        except sqlite3.DatabaseError as error:
            self._limits.check()
            return rows, error  # `extend` keeps what came before the error


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
            connection = stack.enter_context(closing(sqlite3.connect(uri, uri=True, isolation_level=None)))
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA temp_store = MEMORY")
            if cut:  # else SQLite refuses the whole file
                connection.execute("PRAGMA writable_schema = ON")
            if cut and not any(note.code == "truncated" for note in notes):
                notes.append(Note("truncated", detail=f"the last {cut:,} bytes of the database are missing"))
            database = Database(connection, len(text), where)
            notes += _pending_notes(stored, where, has_tables=bool(database.tables))
            yield database
        except sqlite3.DatabaseError as error:
            why = " ".join(str(error).split())  # it can quote the schema
            raise FormatError(f"a damaged SQLite file ({why})", where=where, hint=UNFINISHED) from None
        except UnicodeDecodeError:  # what sqlite3 raises where its error quotes a schema that is not UTF-8
            raise FormatError("a damaged SQLite file (its schema is not UTF-8)", where=where, hint=UNFINISHED) from None


def _pending_notes(stored: Path | None, where: str, *, has_tables: bool) -> list[Note]:
    """On a log or journal beside the file, which a program that is running, or was killed, has left there.

    It is not read: SQLite would write to the folder, and follow names in a journal.
    """
    if stored is None or (beside := _pending(stored)) is None:
        return []
    if not has_tables:
        hint = f"let SQLite finish what was begun: sqlite3 {shlex.quote(stored.name)} .tables"
        raise FormatError(f"an SQLite file whose tables are still in {beside.name}", where=where, hint=hint)
    return [Note("sqlite_pending", detail=beside.name)]


def _pending(path: Path) -> Path | None:
    """The write-ahead log with changes, or the journal of an unfinished one, that belongs to a file."""
    log, journal = (path.with_name(path.name + ending) for ending in ("-wal", "-journal"))
    if log.is_file() and log.stat().st_size > WAL_HEADER_BYTES:
        return log
    if journal.is_file():
        with journal.open("rb") as stream:
            return journal if stream.read(len(JOURNAL_MAGIC)) == JOURNAL_MAGIC else None
    return None


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

"""Tables of an SQLite file as columns: opened read-only, read in bulk. A damaged file is refused.

Only tables are read, never views: a view would run SQL that the file brings along. What that may cost is limited by
`sqlite_limits`.
"""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from warplens.model.budget import spend
from warplens.model.kinds import NONE
from warplens.model.quality import Note
from warplens.model.trace import Ints
from warplens.readers.shared.sqlite_limits import SqliteLimits
from warplens_run.base import bounded
from warplens_run.base.errors import FormatError
from warplens_run.base.temporary import temporary_folder

MAGIC: Final = b"SQLite format 3\0"
JOURNAL_MAGIC: Final = bytes.fromhex("d9d505f920a163d7")
WAL_HEADER_BYTES: Final = 32
HEADER_BYTES: Final = 100
CHUNK_ROWS = 1 << 16
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


class Database:
    """The tables of an open file; what reads them raises `sqlite3.DatabaseError` where the file is damaged."""

    def __init__(self, connection: sqlite3.Connection, limits: SqliteLimits) -> None:
        self._connection = connection
        connection.execute(f"CREATE TEMP TABLE {WANTED} (key INTEGER PRIMARY KEY)")
        self._limits = limits
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
        return list(self._rows(table, wanted))

    def text_of(self, table: str, key: str, value: str, keys: Ints) -> dict[int, str]:
        """The texts that these keys stand for; a key without one is left out."""
        if not {key, value} <= self.columns(table):
            return {}
        wanted = [number for number in np.unique(keys).tolist() if number != NONE]
        columns = [quoted(key), _text(value)]
        rows: list[tuple[Any, ...]] = []
        if len(wanted) <= CHUNK_KEYS or self._is_indexed(table, key):
            for first in range(0, len(wanted), CHUNK_KEYS):
                chunk = wanted[first : first + CHUNK_KEYS]
                rows += self._rows(table, columns, f"{columns[0]} IN ({', '.join('?' * len(chunk))})", chunk)
        else:  # each query would go through the whole table
            self._connection.execute(f"DELETE FROM {WANTED}")
            self._connection.executemany(f"INSERT INTO {WANTED} VALUES (?)", ((number,) for number in wanted))
            where = f"{quoted(key)} IN (SELECT key FROM {WANTED})"
            rows += self._rows(table, columns, where)
        return {bounded.whole(key): text for key, text in rows if text is not None and bounded.is_whole(key)}

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

    def _read(self, table: str, spec: Spec, text: str | None, where: str) -> tuple[dict[str, Ints], list[str | None]]:
        existing = self.columns(table)
        present = {name: [column for column in others if column in existing] for name, others in spec.items()}
        wanted = [_integer(columns) for columns in present.values() if columns]
        if not wanted:
            return {name: np.zeros(0, np.int64) for name in spec}, []
        blocks: list[Ints] = [np.zeros((len(wanted), 0), np.int64)]
        texts: list[str | None] = []
        text_wanted = [_text(text)] if text is not None and text in existing else []
        row = None if text_wanted else self._row_name(table)
        if row:
            blocks += self._packed(table, wanted, row, where)
        else:
            rows = self._rows(table, [*wanted, *text_wanted], where)
            while chunk := list(islice(rows, CHUNK_ROWS)):
                texts += [row[-1] for row in chunk] if text_wanted else []
                flat = chain.from_iterable(row[: len(wanted)] for row in chunk)
                blocks.append(np.fromiter(flat, np.int64, len(chunk) * len(wanted)).reshape(-1, len(wanted)).T)
        whole = np.concatenate(blocks, axis=1)
        read = iter(whole)
        absent = np.full(whole.shape[1], NONE, np.int64)
        columns = {name: next(read) if present[name] else absent for name in spec}
        return columns, texts if text_wanted else [None] * whole.shape[1]

    def _row_name(self, table: str) -> str | None:
        """What the number of a row is called; None where every name is a column's, or rows have no numbers."""
        columns = {str(row[1]).lower() for row in self._connection.execute(f"PRAGMA table_xinfo({quoted(table)})")}
        name = next((name for name in ROW_NAMES if name not in columns), None)
        try:
            self._connection.execute(f"SELECT {name} FROM {quoted(table)} LIMIT 0") if name else None
        except sqlite3.OperationalError as error:
            if "no such column" not in str(error):
                raise
            return None
        return name

    def _packed(self, table: str, wanted: Sequence[str], row: str, where: str) -> Iterator[Ints]:
        """The columns in blocks, each joined to one text by SQLite: half the time of a Python tuple for every row."""
        joined = ", ".join(f"group_concat({column})" for column in wanted)
        source = f"FROM {quoted(table)} NOT INDEXED WHERE"
        after = "1"
        while True:
            end = f"SELECT {row} {source} {after} ORDER BY {row} LIMIT 1 OFFSET {CHUNK_ROWS - 1}"
            last = self._connection.execute(end).fetchone()
            chunk = f"{after} AND {row} <= {last[0]}" if last else after
            texts = self._connection.execute(f"SELECT {joined} {source} {chunk} AND ({where or 1})").fetchone()
            if texts[0] is not None:
                spend(len(wanted) * (1 + texts[0].count(",")), f"rows of {table}")
                yield np.array([np.fromstring(text, np.int64, sep=",") for text in texts])
            if last is None:
                return
            after = f"{row} > {last[0]}"

    def _rows(
        self, table: str, wanted: Sequence[str], where: str = "", values: Sequence[Any] = ()
    ) -> Iterator[tuple[Any, ...]]:
        """In the table's order, without `values`: an index could have another."""
        source = f"{quoted(table)}{'' if values else ' NOT INDEXED'}"
        cursor = self._connection.execute(f"SELECT {', '.join(wanted)} FROM {source} WHERE {where or 1}", values)
        while rows := list(islice(cursor, TEXT_ROWS)):
            self._limits.count(rows)
            spend(len(rows) * len(wanted), f"rows of {table}")
            yield from rows


@contextmanager
def opened(text: bytes, where: str, notes: list[Note]) -> Iterator[Database]:
    """The database in `text`.

    SQLite needs a file: the one that was read, or a temporary one where that is packed.
    """
    with ExitStack() as stack:
        try:
            stored = _stored(text, where)
            if missing := missing_bytes(text):
                raise _damaged(f"the last {missing:,} bytes are missing", stored, where)
            path = stored or _unpacked(text, Path(stack.enter_context(temporary_folder())))
        except OSError as error:
            raise FormatError(f"cannot be unpacked to a temporary file ({error.strerror})", where=where) from None
        limits = SqliteLimits(len(text), where)
        try:
            uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
            connection = stack.enter_context(closing(sqlite3.connect(uri, uri=True, isolation_level=None)))
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            limits.apply(connection)  # before the first statement, which reads the schema
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA temp_store = MEMORY")
            database = Database(connection, limits)
            notes += _pending_notes(stored, where, has_tables=bool(database.tables))
            yield database
        except sqlite3.DatabaseError as error:
            limits.check(error)
            raise _damaged(" ".join(str(error).split()), stored, where) from None  # it can quote the schema
        except UnicodeDecodeError:  # what sqlite3 raises where its error quotes a schema that is not UTF-8
            raise _damaged("its schema is not UTF-8", stored, where) from None


def _damaged(why: str, stored: Path | None, where: str) -> FormatError:
    name = shlex.quote(stored.name) if stored else "FILE"
    hint = f"export it again, or save what is left: sqlite3 {name} .recover | sqlite3 recovered.db"
    return FormatError(f"a damaged SQLite file ({why})", where=where, hint=hint)


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
    """How much shorter the file is than its header says; where the header does not know, than whole pages."""
    if len(text) < HEADER_BYTES:
        return 0
    page_bytes = 1 << 16 if text[16:18] == b"\0\x01" else int.from_bytes(text[16:18], "big")
    if text[24:28] == text[92:96]:
        return max(0, page_bytes * int.from_bytes(text[28:32], "big") - len(text))
    return -len(text) % (page_bytes or 1)


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
    path.write_bytes(text)
    return path


def _integer(columns: Sequence[str]) -> str:
    return f"CAST(coalesce({', '.join(map(quoted, columns))}, {NONE}) AS INTEGER)"


def _text(column: str) -> str:
    return f"CAST({quoted(column)} AS TEXT)"

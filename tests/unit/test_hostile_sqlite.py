"""SQLite files whose schema or values would take any time or memory: bounded, and one line or the trace."""

from __future__ import annotations

import shutil
import sqlite3
import sys
import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest

import warplens
from nsys_files import BOOT, NsysFile, opened, training_step
from support import ends
from warplens.readers.shared import sqlite_limits, sqlite_tables
from warplens.readers.shared.sqlite_limits import SqliteLimits
from warplens.readers.shared.sqlite_tables import Database
from warplens_run.base.errors import FormatError

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
ENDLESS = "WITH RECURSIVE endless(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM endless)"


def many_kernels(path: Path, count: int) -> Path:
    file = training_step()
    for number in range(count):
        file.kernel(f"kernel {number}", BOOT + 100_000 + 10 * number, BOOT + 100_005 + 10 * number)
    return file.write(path)


def changed(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        for statement in statements:
            connection.execute(statement)
    return path


def kernels_in(path: Path) -> int:
    with ends("reading", cpu_seconds=60):
        return len(opened(path).gpu_events())


@pytest.mark.parametrize(
    "names", [["rowid"], ["ROWID"], ["rowid", "_rowid_"], ["rowid", "_rowid_", "oid"]], ids="+".join
)
@pytest.mark.parametrize("value", ["7", "'x'", "start * 1000000", "NULL"])
def test_columns_with_the_names_of_row_numbers_do_not_hide_rows(tmp_path: Path, names: list[str], value: str) -> None:
    path = many_kernels(tmp_path / "r.sqlite", 300)
    expected = kernels_in(path)
    changed(path, *(f"ALTER TABLE {KERNELS} ADD COLUMN {name}" for name in names),
            f"UPDATE {KERNELS} SET {', '.join(f'{name} = {value}' for name in names)}")  # fmt: skip
    assert kernels_in(path) == expected


def test_a_table_without_row_numbers_is_read(tmp_path: Path) -> None:
    path = many_kernels(tmp_path / "r.sqlite", 50)
    expected = kernels_in(path)
    columns = ", ".join(f'"{name}"' for name in _columns(path, KERNELS))
    changed(path, f"ALTER TABLE {KERNELS} RENAME TO old",
            f"CREATE TABLE {KERNELS} ({columns}, PRIMARY KEY (start)) WITHOUT ROWID",
            f"INSERT INTO {KERNELS} SELECT * FROM old", "DROP TABLE old")  # fmt: skip
    assert kernels_in(path) == expected


def _columns(path: Path, table: str) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def counted_queries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries of every table that is read from now on."""
    queries: list[str] = []
    connect = sqlite3.connect

    def traced(*args: object, **options: object) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **options)  # type: ignore[call-overload]
        connection.set_trace_callback(lambda text: queries.append(text))
        return connection

    monkeypatch.setattr(sqlite_tables.sqlite3, "connect", traced)
    return queries


def test_row_numbers_far_apart_are_not_read_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = many_kernels(tmp_path / "r.sqlite", 2_000)
    expected = kernels_in(path)
    changed(path, f"UPDATE {KERNELS} SET rowid = rowid * 1000000000 - 500000000000")
    queries = counted_queries(monkeypatch)
    assert kernels_in(path) == expected
    assert len(queries) < 200


def test_names_are_found_in_one_pass_where_their_table_has_no_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_tables, "CHUNK_KEYS", 10)
    path = many_kernels(tmp_path / "r.sqlite", 2_000)
    names = set(opened(path).trace.names)
    changed(path, "CREATE TABLE plain AS SELECT * FROM StringIds", "DROP TABLE StringIds",
            "ALTER TABLE plain RENAME TO StringIds")  # fmt: skip
    queries = counted_queries(monkeypatch)
    assert set(opened(path).trace.names) == names
    assert sum('FROM "StringIds"' in query and "value" in query for query in queries) < 20
    monkeypatch.undo()
    changed(path, "CREATE INDEX by_id ON StringIds (id)")
    assert set(opened(path).trace.names) == names


HUGE: dict[str, tuple[str, ...]] = {
    "a blob as a time": (f"UPDATE {KERNELS} SET deviceId = zeroblob(40000000) WHERE rowid = 5",),
    "a blob as a name": ("UPDATE StringIds SET value = zeroblob(40000000) WHERE id = 5",),
    "a text as a time": (f"UPDATE {KERNELS} SET streamId = 'x' || hex(zeroblob(20000000)) WHERE rowid = 5",),
    "a blob as a range": ("UPDATE NVTX_EVENTS SET text = zeroblob(40000000) WHERE rowid = 1",),
    "a blob as a fact": ("UPDATE META_DATA_EXPORT SET value = zeroblob(40000000) WHERE rowid = 1",),
}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="older Pythons cannot limit the size of a value")
@pytest.mark.parametrize("statements", HUGE.values(), ids=HUGE)
def test_a_value_of_many_megabytes_is_one_line(
    tmp_path: Path, statements: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = changed(many_kernels(tmp_path / "r.sqlite", 300), *statements)
    text = path.read_bytes()
    monkeypatch.setattr(Path, "read_bytes", lambda _: text)
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=r"r\.sqlite: an SQLite file with a value over 2\.0 MiB"):
            opened(path)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


def test_a_value_of_many_megabytes_in_a_column_that_is_not_read_costs_nothing(tmp_path: Path) -> None:
    path = many_kernels(tmp_path / "r.sqlite", 300)
    changed(path, f"UPDATE {KERNELS} SET launchType = zeroblob(40000000) WHERE rowid = 5")
    assert kernels_in(path) == 303


SPOOFED = {
    "a recursive view": f'CREATE VIEW {KERNELS} AS {ENDLESS} SELECT n AS start, n AS "end" FROM endless',
    "a view of a product": (
        f'CREATE VIEW {KERNELS} AS SELECT a.start, b."end" FROM NVTX_EVENTS a, NVTX_EVENTS b, StringIds c, StringIds d'
    ),
}


@pytest.mark.parametrize("view", SPOOFED.values(), ids=SPOOFED)
def test_a_view_that_the_schema_calls_a_table_is_not_run(tmp_path: Path, view: str) -> None:
    path = many_kernels(tmp_path / "r.sqlite", 300)
    quoted = view.replace("'", "''")
    changed(path, f"UPDATE sqlite_master SET sql = '{quoted}' WHERE name = '{KERNELS}'")
    with ends("reading", cpu_seconds=60), pytest.raises(FormatError, match="malformed database schema"):
        opened(path)


@pytest.mark.parametrize("view", SPOOFED.values(), ids=SPOOFED)
def test_a_view_that_is_read_as_a_table_is_refused_by_sqlite(view: str) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for name in ("NVTX_EVENTS", "StringIds"):
            connection.execute(f'CREATE TABLE {name} (start, "end")')
        connection.execute(view)
        limits = SqliteLimits(0, "r.sqlite")
        limits.apply(connection)
        database = Database(connection, limits)
        database.tables.append(KERNELS)
        with ends("reading", cpu_seconds=60), pytest.raises(sqlite3.DatabaseError, match=r"not authorized|prohibited"):
            database.texts(KERNELS, "start")


def test_triggers_and_generated_columns_are_not_run(tmp_path: Path) -> None:
    path = training_step().write(tmp_path / "r.sqlite")
    changed(path, f"CREATE TRIGGER t AFTER INSERT ON {KERNELS} BEGIN DELETE FROM NVTX_EVENTS; END",
            f"ALTER TABLE {KERNELS} ADD COLUMN graphNodeId2 AS (hex(zeroblob(100000000)))",
            f"CREATE VIEW v AS {ENDLESS} SELECT n FROM endless")  # fmt: skip
    assert kernels_in(path) == 3


def test_reading_that_has_no_end_in_sight_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = many_kernels(tmp_path / "r.sqlite", 3_000)
    monkeypatch.setattr(sqlite_limits, "FREE_STEPS", 0)
    monkeypatch.setattr(sqlite_limits, "STEPS_PER_BYTE", 0.1)
    with pytest.raises(FormatError, match=r"r\.sqlite: an SQLite file that takes far longer to read than its size"):
        warplens.open(path, cache=False)


def test_more_text_than_fits_into_the_file_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = many_kernels(tmp_path / "r.sqlite", 3_000)
    monkeypatch.setattr(sqlite_limits, "FREE_TEXT_BYTES", 1000)
    monkeypatch.setattr(sqlite_limits, "TEXT_RATIO", 0)
    with pytest.raises(FormatError, match=r"r\.sqlite: an SQLite file with more text than its size explains"):
        warplens.open(path, cache=False)


def test_a_sound_file_takes_a_fraction_of_what_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = many_kernels(tmp_path / "r.sqlite", 3_000)
    monkeypatch.setattr(sqlite_limits, "FREE_STEPS", 0)
    monkeypatch.setattr(sqlite_limits, "STEPS_PER_BYTE", sqlite_limits.STEPS_PER_BYTE / 4)
    monkeypatch.setattr(sqlite_limits, "FREE_TEXT_BYTES", 0)
    assert kernels_in(path) == 3_003


BROKEN_SCHEMAS: dict[str, str] = {
    "names with line ends": 'CREATE TABLE "a\nb\x1b[2J" (x)',
    "a malformed entry": "INSERT INTO sqlite_master VALUES ('table', 'x\ny', 'x\ny', 3, 'CREATE TABLE x\ny (')",
    "an index on nothing": "INSERT INTO sqlite_master VALUES ('index', 'i', 'none\n', 3, 'CREATE INDEX i ON none(a)')",
}


@pytest.mark.parametrize("statement", BROKEN_SCHEMAS.values(), ids=BROKEN_SCHEMAS)
def test_a_hostile_schema_is_one_line(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "r.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t (x)")
    changed(path, statement)
    with pytest.raises(FormatError) as refused:
        warplens.open(path, cache=False)
    assert "\n" not in str(refused.value)


def in_log(path: Path, *statements: str) -> Path:
    """A copy of the database, with these changes in its write-ahead log only."""
    copy = path.with_name("logged.sqlite")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in ("PRAGMA journal_mode = WAL", "PRAGMA wal_autocheckpoint = 0", *statements):
            connection.execute(statement)
        for ending in ("", "-wal"):
            shutil.copy(f"{path}{ending}", f"{copy}{ending}")
    return copy


def test_changes_in_a_log_beside_the_file_are_noted(tmp_path: Path) -> None:
    """They were left out without a word: half of the kernels."""
    file = NsysFile()
    file.kernel("k", 1000, 2000)
    table = "CUPTI_ACTIVITY_KIND_KERNEL"
    path = in_log(file.write(tmp_path / "t.sqlite"), f"INSERT INTO {table} SELECT * FROM {table}")
    (note,) = [note for note in warplens.open(path, cache=False).trace.quality.notes if note.code == "sqlite_pending"]
    assert note.message.startswith("logged.sqlite-wal beside the file holds changes that are not read")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["logged.sqlite", "logged.sqlite-wal", "t.sqlite"]
    Path(f"{path}-wal").write_bytes(b"")
    assert "sqlite_pending" not in [note.code for note in warplens.open(path, cache=False).trace.quality.notes]


def test_tables_that_are_only_in_a_log_are_one_line(tmp_path: Path) -> None:
    path = in_log(tmp_path / "t.sqlite", "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start)")
    with pytest.raises(FormatError, match=r"whose tables are still in logged\.sqlite-wal") as caught:
        warplens.open(path, cache=False)
    assert caught.value.hint == "let SQLite finish what was begun: sqlite3 logged.sqlite .tables"


@pytest.mark.parametrize("is_hot", [True, False])
def test_a_journal_of_an_unfinished_change_is_noted_and_left_alone(tmp_path: Path, is_hot: bool) -> None:
    """The file has part of the change. A journal names files that SQLite would open, so it is not given to it."""
    file = NsysFile()
    file.kernel("k", 1000, 2000)
    path = file.write(tmp_path / "t.sqlite")
    journal = tmp_path / "t.sqlite-journal"
    journal.write_bytes((b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" if is_hot else bytes(8)) + bytes(504))
    codes = [note.code for note in warplens.open(path, cache=False).trace.quality.notes]
    assert ("sqlite_pending" in codes) is is_hot
    assert journal.stat().st_size == 512

"""Parquet files: what they take in memory is known from their footer, and limited before anything is read."""

from __future__ import annotations

from pathlib import Path
from random import Random

import polars as pl
import pytest

import warplens
from op_tables import Pipeline
from warplens.errors import FormatError, WarplensError
from warplens.readers import op_table, parquet
from warplens.readers.parquet import read_parquet
from warplens.readers.shared import parquet_footer
from warplens.readers.shared.parquet_footer import parquet_size

COLUMNS = (*op_table.SOURCES.values(), *op_table.TIMES)


def repeated(path: Path, rows: int) -> Path:
    """An op table of one op again and again: every column is a run of one value."""
    values = {name: "forward" if name == "optype" else 0 for name in COLUMNS}
    frame = pl.DataFrame(values).select(pl.all().repeat_by(rows).explode())
    frame.write_parquet(path, compression="zstd", row_group_size=rows)
    return path


@pytest.mark.parametrize("group", [7, 1000])
def test_the_footer_has_rows_columns_and_bytes(tmp_path: Path, group: int) -> None:
    path = tmp_path / "t.parquet"
    frame = pl.DataFrame({"a": range(1000), "text": [f"{number:050}" for number in range(1000)]})
    frame.write_parquet(path, row_group_size=group)
    size = parquet_size(path)
    assert (size.rows, size.columns) == (1000, 2)
    assert 50_000 < size.encoded_bytes < 120_000
    assert size.read_bytes() == size.encoded_bytes
    frame.clear().write_parquet(path)
    assert parquet_size(path).rows == 0


def test_a_table_that_unpacks_to_far_more_than_its_size_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = repeated(tmp_path / "trace-bomb.parquet", 1_000_000)
    assert path.stat().st_size < 20_000
    monkeypatch.setattr(parquet.pl, "read_parquet", lambda *_args, **_options: pytest.fail("it was read"))
    with pytest.raises(FormatError, match="unpacks to more than 512 times its size") as refusal:
        warplens.open(path)
    assert refusal.value.options == ("max_size",)


def test_texts_count_by_their_bytes(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pl.DataFrame({"text": ["x" * (40 << 20)]}).write_parquet(path, compression="zstd", statistics=False)
    assert path.stat().st_size < 50_000
    with pytest.raises(FormatError, match="unpacks to more than"):
        read_parquet(path)


def test_a_larger_size_can_be_allowed(tmp_path: Path) -> None:
    path = repeated(tmp_path / "trace-many.parquet", 500_000)
    with pytest.raises(FormatError, match="unpacks to more than"):
        read_parquet(path, COLUMNS)
    assert len(read_parquet(path, COLUMNS, max_bytes=1 << 30)) == 500_000
    assert len(read_parquet(path, COLUMNS[:2])) == 500_000


def test_footers_that_are_damaged_or_lie_are_one_error(tmp_path: Path, usual_table: Path) -> None:
    whole = usual_table.read_bytes()
    path, random = tmp_path / "trace-x.parquet", Random(7)
    for _ in range(300):
        at = random.randrange(len(whole) - 2000, len(whole))
        path.write_bytes(whole[:at] + bytes([random.randrange(256)]) + whole[at + 1 :])
        try:
            read_parquet(path)
        except WarplensError as error:
            assert "\n" not in str(error)


@pytest.fixture
def usual_table(tmp_path: Path) -> Path:
    return Pipeline().write(tmp_path / "trace-usual.parquet")


@pytest.mark.parametrize(
    "footer",
    [b"\x1c" * 1000, b"\x19" * 1000, b"\x19\xfc" + b"\xff" * 9 + b"\x01", b"\x18\xff\xff\xff\x7f", b"\x16" + b"\xff" * 50,
     b"\x1b\x00", b"\x19\x50", b""],
    ids=["structs", "lists", "long list", "long text", "long number", "map", "nothing in a list", "empty"],
)  # fmt: skip
def test_hostile_footers_are_one_error(tmp_path: Path, footer: bytes) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(FormatError, match="without a sound footer"):
        parquet_size(path)


def test_a_footer_of_megabytes_is_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.parquet"
    monkeypatch.setattr(parquet_footer, "MOST_BYTES", 10)
    pl.DataFrame({"a": [1]}).write_parquet(path)
    with pytest.raises(FormatError, match="without a sound footer"):
        parquet_size(path)


def test_workers_that_are_missing_are_counted_without_the_grid_of_all(tmp_path: Path) -> None:
    """3,000 ranks, stages and steps, one op each: the grid would have 27,000,000,000 rows."""
    rows = 3000
    numbers = dict.fromkeys(("dp_rank", "stage", "step"), range(rows))
    times = {"start_ts": [1.0] * rows, "duration": [0.1] * rows}
    values = {name: numbers.get(name, [0] * rows) for name in COLUMNS} | times | {"optype": ["forward"] * rows}
    path = tmp_path / "trace-wide.parquet"
    pl.DataFrame(values | {"rank": range(rows)}).write_parquet(path)
    job = op_table.read(path, ["forward"])
    note = next(note for note in job.quality.notes if note.code == "missing_workers")
    assert note.count == rows * rows
    assert note.detail.startswith("dp 0 stage 0, dp 0 stage 1, ")
    assert note.detail.endswith("…")

"""CSV, Parquet, JSON and Markdown: the same rows come back, and untrusted text stays text."""

from __future__ import annotations

import datetime
import decimal
import doctest
import io
import json
import math

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from warplens.model.table import Column, Table
from warplens.outputs import Document, markdown, rows_to_json
from warplens.outputs.json_text import json_bytes
from warplens.outputs.markdown import markdown_bytes
from warplens.outputs.tabular import csv_bytes, parquet_bytes

NASTY = [
    '=HYPERLINK("x")',
    "+1",
    "-1",
    "@sum",
    "a|b\n`c`",
    "[red]x[/red]",
    "\x1b[31mred\x1b[0m",
    'é核, "q"',
    "",
    None,
]


def table_of(frame: pl.DataFrame, name: str = "things", *notes: str) -> Table:
    return Table(
        name,
        "one row per thing",
        tuple(Column(c, f"the {c}", "", frame.schema[c]) for c in frame.columns),
        frame,
        notes,
    )


def document_of(*tables: Table) -> Document:
    return Document("Report", "trace.json", {"device": "H200"}, tables)


def nasty() -> Table:
    count = len(NASTY)
    return table_of(pl.DataFrame({"kernel": NASTY, "count": range(count), "total_us": [i / 7 for i in range(count)]}))


def nested() -> Table:
    frame = pl.DataFrame(
        {
            "shapes": [[[1, 2], [3]], [], None],
            "spec": [{"dtype": "bf16", "scale": math.nan}, {"dtype": None, "scale": 1.5}, None],
            "pair": pl.Series([[1, 2], None, [3, 4]], dtype=pl.Array(pl.Int64, 2)),
        }
    )
    return table_of(frame)


EMPTY = [
    table_of(pl.DataFrame(schema={"kernel": pl.String, "count": pl.Int64})),
    table_of(pl.DataFrame()),
    table_of(pl.DataFrame({"gone": [1, 2, 3]}).drop("gone")),
]


def test_csv_round_trips_and_leaves_the_data_verbatim() -> None:
    table = nasty()
    content = csv_bytes(document_of(table))
    assert_frame_equal(pl.read_csv(io.BytesIO(content)), table.frame)
    assert content.startswith(b'kernel,count,total_us\n"=HYPERLINK(""x"")",0,0.0\n')


def test_csv_keeps_nan_apart_from_null() -> None:
    content = csv_bytes(document_of(table_of(pl.DataFrame({"a": [math.nan, None, math.inf]}))))
    assert content == b"a\nNaN\n\ninf\n"


def test_csv_writes_nested_columns_as_json_text() -> None:
    read = pl.read_csv(io.BytesIO(csv_bytes(document_of(nested()))))
    assert read["shapes"].to_list() == ["[[1,2],[3]]", "[]", None]
    assert read["spec"].to_list() == ['{"dtype":"bf16","scale":null}', '{"dtype":null,"scale":1.5}', None]
    assert read["pair"].to_list() == ["[1,2]", None, "[3,4]"]


def test_csv_writes_durations_as_text() -> None:
    table = table_of(pl.DataFrame({"a": [datetime.timedelta(seconds=1)]}))
    assert csv_bytes(document_of(table)) == b'a\n"""PT1S"""\n'


@pytest.mark.parametrize("table", [nasty(), nested(), *EMPTY])
def test_parquet_round_trips(table: Table) -> None:
    assert_frame_equal(pl.read_parquet(io.BytesIO(parquet_bytes(document_of(table)))), table.frame)


def test_empty_tables_keep_their_header_in_csv() -> None:
    assert [csv_bytes(document_of(table)) for table in EMPTY] == [b"kernel,count\n", b"\n", b"\n"]


def test_rows_as_json_are_one_array_of_objects() -> None:
    assert json.loads(rows_to_json(nasty())) == nasty().to_dicts()
    assert [json.loads(rows_to_json(table)) for table in EMPTY] == [[], [], [{}] * len(EMPTY[2])]


def test_json_has_null_for_what_is_no_number() -> None:
    frame = pl.DataFrame({"a": [math.nan, math.inf, -math.inf, 1.0, None], "b": [[math.nan], [], None, [1.0], []]})
    rows = json.loads(rows_to_json(table_of(frame)), parse_constant=pytest.fail)
    assert [row["a"] for row in rows] == [None, None, None, 1.0, None]
    assert rows[0]["b"] == [None]


def test_json_holds_every_type_a_query_can_return() -> None:
    frame = pl.DataFrame(
        {
            "unsigned": pl.Series([2**64 - 1], dtype=pl.UInt64),
            "decimal": [decimal.Decimal("1.5")],
            "bytes": [b"\xff\x00"],
            "category": pl.Series(["x"], dtype=pl.Categorical),
            "when": [datetime.datetime(2024, 5, 6)],
            "flag": [True],
        }
    )
    (row,) = json.loads(rows_to_json(table_of(frame)))
    assert row["unsigned"] == 2**64 - 1
    assert row["decimal"] == 1.5
    assert row["bytes"] == "ff00"
    assert row["category"] == "x"
    assert row["when"].startswith("2024-05-06")
    assert row["flag"] is True


def test_a_json_document_says_what_it_holds() -> None:
    table = table_of(pl.DataFrame({"total_us": [1.5]}), "kernels", "a note")
    whole = json.loads(json_bytes(document_of(table, EMPTY[0])))
    assert isinstance(whole["warplens"]["version"], str)
    assert (whole["title"], whole["source"], whole["facts"]) == ("Report", "trace.json", {"device": "H200"})
    assert list(whole["tables"]) == ["kernels", "things"]
    assert whole["tables"]["kernels"] == {
        "meaning": "one row per thing",
        "columns": [{"name": "total_us", "unit": "", "dtype": "Float64", "meaning": "the total_us"}],
        "notes": ["a note"],
        "rows": [{"total_us": 1.5}],
    }
    assert whole["tables"]["things"]["rows"] == []


def test_a_file_name_that_is_not_utf8_can_be_written() -> None:
    document = Document("Report", "run\udcff.json", {"file": "run\udcff.json"}, [])
    assert json.loads(json_bytes(document))["source"] == "run?.json"
    assert b"run.json" in markdown_bytes(document)


def test_markdown_is_a_page_of_github_tables() -> None:
    frame = pl.DataFrame(
        {"kernel": ["gemm<T>"], "count": [1234], "total_us": [5678.91], "percent": [12.34], "bytes": [2048]}
    )
    page = markdown_bytes(document_of(table_of(frame, "kernels", "#1 counts"))).decode()
    assert page == (
        "# Report\n\nSource: trace.json\n\n- **device**: H200\n\n"
        "## kernels\n\none row per thing\n\n"
        "| kernel | count | total_us | percent | bytes |\n"
        "| --- | ---: | ---: | ---: | ---: |\n"
        "| gemm\\<T\\> | 1,234 | 5,678.9 | 12.3% | 2.0 KiB |\n\n"
        "> \\#1 counts\n"
    )


def test_markdown_escapes_what_could_become_markup() -> None:
    assert doctest.testmod(markdown).failed == 0
    lines = markdown_bytes(document_of(nasty())).decode().splitlines()
    rows = [line for line in lines if line.startswith("|")][2:]
    assert len(rows) == len(NASTY)
    assert rows[4].startswith("| a\\|b \\`c\\` | 4 |")
    assert rows[5].startswith("| \\[red\\]x\\[/red\\] |")
    assert rows[6].startswith("| red |")
    assert markdown.escape("![x](http://e)<img> &lt; *b* __c__ a_b") == (
        "!\\[x\\](http://e)\\<img\\> \\&lt; \\*b\\* \\_\\_c\\_\\_ a_b"
    )


def test_markdown_shows_the_head_of_a_long_table_and_cuts_long_names() -> None:
    frame = pl.DataFrame({"kernel": [f"{'k' * 500}{i}" for i in range(1234)]})
    page = markdown_bytes(document_of(table_of(frame))).decode()
    rows = [line for line in page.splitlines() if line.startswith("| k") and "…" in line]
    assert len(rows) == markdown.MAX_ROWS
    assert all(len(row) <= markdown.MAX_CELL + 4 for row in rows)
    assert rows[7].endswith("k7 |")
    assert "… and 1,184 more rows" in page


def test_markdown_prefers_the_short_kernel_name() -> None:
    page = markdown_bytes(document_of(table_of(pl.DataFrame({"kernel": ["long"], "kernel_short": ["short"]}))))
    assert b"| short |" in page
    assert b"long" not in page


def test_markdown_of_tables_without_rows_or_columns() -> None:
    for table in EMPTY:
        assert b"## things" in markdown_bytes(document_of(table))

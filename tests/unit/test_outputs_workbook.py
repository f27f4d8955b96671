"""The Excel workbook: read back, safe for untrusted text, and within Excel's limits."""

from __future__ import annotations

import io
import math
import re
import zipfile
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pytest

from warplens.model.table import Column, Table
from warplens.outputs import Document, sheet_rows, workbook
from warplens.outputs.workbook import workbook_bytes
from warplens_run.base.errors import WarplensError

MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


def table_of(frame: pl.DataFrame, name: str = "things", **units: str) -> Table:
    columns = tuple(
        Column(column, f"the {column}", units.get(column, ""), frame.schema[column]) for column in frame.columns
    )
    return Table(name, "one row per thing", columns, frame, ("mind the gap",))


def document_of(*tables: Table) -> Document:
    return Document("Report", "trace.json", {"device": "H200"}, tables)


def sheet_roots(content: bytes) -> dict[str, ElementTree.Element]:
    """Each sheet's XML by name, in order, with its texts in place of the numbers that stand for them.

    Parsing also proves that every part is well formed.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: ElementTree.fromstring(archive.read(name)) for name in archive.namelist()}
    texts = ["".join(item.itertext()) for item in parts["xl/sharedStrings.xml"]]
    names = [element.attrib["name"] for element in parts["xl/workbook.xml"].iter(f"{MAIN}sheet")]
    roots = {name: parts[f"xl/worksheets/sheet{number}.xml"] for number, name in enumerate(names, start=1)}
    for root in roots.values():
        for value in root.iterfind(f".//{MAIN}c[@t='s']/{MAIN}v"):
            value.text = texts[int(value.text or "")]
    return roots


def cells_of(root: ElementTree.Element) -> dict[str, str]:
    return {cell.attrib["r"]: "".join(cell.itertext()) for cell in root.iter(f"{MAIN}c")}


def test_a_cover_then_the_tables_then_what_the_columns_mean() -> None:
    frame = pl.DataFrame({"total_us": [1.5]})
    content = workbook_bytes(document_of(table_of(frame, "kernels", total_us="us"), table_of(frame, "ops")))
    sheets = sheet_roots(content)
    assert list(sheets) == ["about", "kernels", "ops", "columns"]
    about = cells_of(sheets["about"])
    assert [about[f"B{row}"] for row in (2, 3, 5, 6)] == ["Report", "trace.json", "H200", "mind the gap"]
    columns = cells_of(sheets["columns"])
    assert [columns[f"{letter}2"] for letter in "ABCD"] == ["kernels", "total_us", "us", "the total_us"]
    assert cells_of(sheets["kernels"]) == {"A1": "total_us", "A2": "1.5"}


def test_values_come_back_through_an_independent_reader() -> None:
    openpyxl: Any = pytest.importorskip("openpyxl")
    frame = pl.DataFrame(
        {
            "kernel": ["é核 <a> & b", " kept ", None],
            "count": [1, 2, None],
            "total_us": [1.25, math.nan, math.inf],
            "flag": [True, False, None],
            "shapes": [[[1, 2]], [], None],
            "address": pl.Series([2**63, 1, 2], dtype=pl.UInt64),
            "percent": [12.5, 0.0, 100.0],
        }
    )
    book = openpyxl.load_workbook(io.BytesIO(workbook_bytes(document_of(table_of(frame)))))
    page = book["things"]
    assert [[cell.value for cell in row] for row in page.iter_rows()] == [
        frame.columns,
        ["é核 <a> & b", 1, 1.25, True, "[[1,2]]", str(2**63), 12.5],
        [" kept ", 2, None, False, "[]", "1", 0],
        [None, None, None, None, None, "2", 100],
    ]
    assert (page.freeze_panes, page.auto_filter.ref, page.dimensions) == ("A2", "A1:G4", "A1:G4")
    assert all(cell.font.b for cell in page[1])
    assert [page[f"{letter}2"].number_format for letter in "BCG"] == ["#,##0", "#,##0.0", '0.0"%"']


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        *((text, text) for text in ('=HYPERLINK("x")', "+1+1", "-2", "@sum(1)", "http://x", "{=1}", "12", "")),
        ("<r>x</r>", "<r>x</r>\u200b"),
        ("<r><b></r>\x00", "<r><b></r>\u200b"),
    ],
)
def test_text_never_becomes_a_formula_a_link_a_number_or_markup(text: str, stored: str) -> None:
    root = sheet_roots(workbook_bytes(document_of(table_of(pl.DataFrame({"kernel": [text]})))))["things"]
    (cell,) = [cell for cell in root.iter(f"{MAIN}c") if cell.attrib["r"] == "A2"]
    assert cell.attrib["t"] == "s"
    assert "".join(cell.itertext()) == stored
    assert not list(root.iter(f"{MAIN}f"))
    assert not list(root.iter(f"{MAIN}hyperlink"))


def test_a_column_name_is_as_untrusted_as_a_cell() -> None:
    frame = pl.DataFrame({"=1+1\x00": [1], "<r></x></r>": [2]})
    cells = cells_of(sheet_roots(workbook_bytes(document_of(table_of(frame))))["things"])
    assert cells == {"A1": "=1+1", "B1": "<r></x></r>\u200b", "A2": "1", "B2": "2"}


def test_characters_that_xml_cannot_hold_go_and_look_alikes_are_guarded() -> None:
    frame = pl.DataFrame({"kernel": ["a\x00\x1b[31mb\x0b\ufffe", "_x0041_", "line\r\nbreak", "block_x"]})
    cells = cells_of(sheet_roots(workbook_bytes(document_of(table_of(frame))))["things"])
    assert cells["A2"] == "a[31mb"
    assert cells["A3"] == "_x005F_x0041_"
    assert cells["A4"] == "line_x000D_\nbreak"
    assert cells["A5"] == "block_x"


def test_sheet_names_are_short_allowed_and_distinct() -> None:
    frame = pl.DataFrame({"a": [1]})
    names = [
        "k" * 40,
        "k" * 40 + "2",
        "a/b:c?",
        "Columns",
        "'quoted'",
        "history",
        "ABOUT",
        "",
        "k" * 30 + "'s",
        "😀" * 31,
        "run\udcff",
    ]
    sheets = list(sheet_roots(workbook_bytes(document_of(*(table_of(frame, name) for name in names)))))
    assert all(1 <= len(name) <= 31 for name in sheets)
    assert len({name.lower() for name in sheets}) == len(names) + 2
    assert sheets[1:] == [
        "k" * 31,
        "k" * 29 + "~2",
        "a_b_c_",
        "Columns",
        "_quoted_",
        "_history",
        "ABOUT~2",
        "_",
        "k" * 30 + "_",
        "_" * 31,
        "run_",
        "columns~2",
    ]


def test_long_texts_are_cut_to_what_a_cell_holds() -> None:
    frame = pl.DataFrame({"kernel": ["k" * 40_000, "😀" * 20_000, "k" * 32_767, None, "<r>" + "k" * 32_760 + "</r>"]})
    cells = cells_of(sheet_roots(workbook_bytes(document_of(table_of(frame))))["things"])
    assert cells["A2"] == "k" * 32_766 + "…"
    assert cells["A3"] == "😀" * 16_383 + "…"
    assert cells["A4"] == "k" * 32_767
    assert "A5" not in cells
    assert cells["A6"] == "<r>" + "k" * 32_760 + "</r…"


def test_rows_beyond_a_sheet_are_cut_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbook, "MAX_ROWS", 6)
    sheets = sheet_roots(workbook_bytes(document_of(table_of(pl.DataFrame({"count": range(10)})))))
    assert cells_of(sheets["things"]) == {"A1": "count"} | {f"A{row + 2}": str(row) for row in range(6)}
    assert "a sheet holds 6 of its 10 rows" in cells_of(sheets["about"]).values()


@pytest.mark.parametrize(
    ("frame", "cells"),
    [
        (
            pl.DataFrame(schema={"kernel": pl.String, "total_us": pl.Float64}),
            {"A1": "kernel", "B1": "total_us"},
        ),
        (pl.DataFrame(), {}),
        (pl.DataFrame({"gone": [1, 2, 3]}).drop("gone"), {}),
        (pl.DataFrame({"nothing": [None, None]}), {"A1": "nothing"}),
    ],
)
def test_tables_without_rows_columns_or_values(frame: pl.DataFrame, cells: dict[str, str]) -> None:
    assert cells_of(sheet_roots(workbook_bytes(document_of(table_of(frame))))["things"]) == cells


def test_a_file_name_that_is_not_utf8_can_be_written() -> None:
    sheets = sheet_roots(workbook_bytes(Document("Report", "run\udcff.json", {}, [])))
    assert cells_of(sheets["about"])["B3"] == "run?.json"


def test_a_workbook_beyond_what_excel_opens_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 5_000)
    table = table_of(pl.DataFrame({"count": range(1_000)}))
    with pytest.raises(WarplensError, match="too large for Excel"):
        workbook_bytes(document_of(table))


def test_columns_are_as_wide_as_their_content_within_reason() -> None:
    frame = pl.DataFrame({"a": [1], "kernel": ["k" * 500], "total_us": [123_456_789.0]})
    root = sheet_roots(workbook_bytes(document_of(table_of(frame))))["things"]
    assert [int(float(column.attrib["width"])) for column in root.iter(f"{MAIN}col")] == [8, 60, 15]


def test_the_same_document_gives_the_same_bytes_whatever_the_clock_says() -> None:
    document = document_of(table_of(pl.DataFrame({"a": [1]})))
    content = workbook_bytes(document)
    assert content == workbook_bytes(document)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert {entry.date_time[0] for entry in archive.infolist()} == {1980}
        dates = re.findall(r"\d{4}-\d{2}-\d{2}T", archive.read("docProps/core.xml").decode())
    assert set(dates) == {"1980-01-01T"}


def test_rows_written_in_parts_are_numbered_through(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.DataFrame(
        {"number": [1, 2, None, 4, 5], "text": ["a", None, "b", "a", ""], "flag": [True, False] * 2 + [None]}
    )
    whole = workbook_bytes(document_of(table_of(frame)))
    monkeypatch.setattr(sheet_rows, "CHUNK_ROWS", 2)
    assert workbook_bytes(document_of(table_of(frame))) == whole
    rows = sheet_roots(whole)["things"].iterfind("{*}sheetData/{*}row")
    assert [row.get("r") for row in rows] == ["1", "2", "3", "4", "5", "6"]

"""A document as an Excel workbook: a cover, one sheet per table, and what every column means."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from warplens.outputs.cells import number_style
from warplens.outputs.tabular import explained, with_json_text
from warplens_run.base.errors import WarplensError
from warplens_run.base.printable import encodable
from warplens_run.base.text import unique_names

if TYPE_CHECKING:
    import polars as pl
    from xlsxwriter import Workbook
    from xlsxwriter.format import Format

    from warplens.model.table import Column, Table
    from warplens.outputs.document import Document
    from warplens.outputs.sheet_rows import RowSheet

MAX_ROWS = 1_048_575
"""Rows below the header that a sheet can hold."""
MAX_TEXT = 32_767
"""UTF-16 units that a cell can hold."""
MAX_EXACT = 10**15
"""Excel keeps 15 digits: larger integers (addresses, hashes) are written as text."""
MAX_SHEET_NAME = 31
# What Excel or XML forbids in a sheet's name, and the one name that Excel keeps to itself. An apostrophe may
# stand in the middle, but a cut could make it the end; a character beyond U+FFFF counts as two.
FORBIDDEN_IN_SHEET_NAME = r"[\[\]:*?/\\'\x00-\x1f\ud800-\udfff\ufffe-\U0010ffff]|(?i:^(?=history$))"
_NOT_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")

# A name like `=cmd()` stays text. In memory, every part of the package is dated 1980 whatever the clock says.
_PLAIN_TEXT = dict.fromkeys(("strings_to_formulas", "strings_to_urls", "strings_to_numbers"), False)
_OPTIONS = _PLAIN_TEXT | {"in_memory": True}
_CREATED = datetime(1980, 1, 1)


def workbook_bytes(document: Document) -> bytes:
    """The whole workbook; the same document gives the same bytes."""
    return plain_workbook_bytes([_about(document), *document.tables, _columns(document)])


def plain_workbook_bytes(tables: Sequence[Table]) -> bytes:
    """A workbook with a sheet per table and nothing else."""
    import xlsxwriter
    from xlsxwriter.exceptions import FileSizeError

    from warplens.outputs.sheet_rows import RowSheet, quickly_packed

    titles = [table.name for table in tables]
    names = unique_names(titles, forbidden=FORBIDDEN_IN_SHEET_NAME, limit=MAX_SHEET_NAME)
    buffer = io.BytesIO()
    try:
        with quickly_packed(), xlsxwriter.Workbook(buffer, _OPTIONS) as book:
            book.set_properties({"created": _CREATED})
            for name, table in zip(names, tables, strict=True):
                with explained(table, "an Excel sheet"):
                    _write_table(book, book.add_worksheet(name, RowSheet), table)
    except FileSizeError as error:
        # Larger files need ZIP64, and Excel offers to repair a package that uses it.
        raise WarplensError("a table is too large for Excel", hint="write a directory: -o tables/") from error
    return buffer.getvalue()


def _write_table(book: Workbook, sheet: RowSheet, table: Table) -> None:
    from warplens.outputs.sheet_rows import StoredColumn

    if not table.columns:
        return
    columns: list[StoredColumn] = []
    frame = with_json_text(table.frame.head(MAX_ROWS))
    bold = book.add_format({"bold": True})
    for at, (column, series) in enumerate(zip(table.columns, frame, strict=True)):
        stored, texts = _storable(series)
        columns.append(StoredColumn(stored, texts, _number_format(book, column, stored)))
        sheet.set_column(at, at, _width(stored, texts), columns[-1].number_format)
        sheet.write_string(0, at, _text(column.name), bold)
    sheet.store(columns)
    sheet.freeze_panes(1, 0)
    sheet.autofilter(0, 0, frame.height, frame.width - 1)


def _number_format(book: Workbook, column: Column, series: pl.Series) -> Format | None:
    if not series.dtype.is_numeric():
        return None
    return book.add_format({"num_format": number_style(column).excel})


def _storable(series: pl.Series) -> tuple[pl.Series, Sequence[str]]:
    """The column as something a cell can hold: booleans, finite numbers or texts; and the texts that differ."""
    import polars as pl

    from warplens.outputs.sheet_rows import distinct_texts

    dtype = series.dtype
    if dtype == pl.Boolean or (dtype.is_integer() and _largest(series) <= MAX_EXACT):
        return series, ()
    if dtype.is_float() or dtype.is_decimal():
        numbers: pl.Series = series.cast(pl.Float64)
        if math.isfinite(numbers.sum()):  # then every number is
            return numbers, ()
        return numbers.to_frame().select(pl.when(pl.first().is_finite()).then(pl.first())).to_series(), ()
    texts: pl.Series = series.cast(pl.String)
    written = distinct_texts(texts)
    cells = [_text(text) for text in written]
    if cells == written:  # as nearly always; to replace each text by itself takes longer than all else here
        return texts, written
    stored: pl.Series = texts.replace_strict(
        pl.Series(written, dtype=pl.String), pl.Series(cells, dtype=pl.String), default=None, return_dtype=pl.String
    )
    return stored, list(dict.fromkeys(cells))


def _largest(numbers: pl.Series) -> float:
    """The largest absolute value; 0 where there is none."""
    least, most = numbers.min(), numbers.max()
    return max(-least, most) if isinstance(least, int | float) and isinstance(most, int | float) else 0


def _width(series: pl.Series, texts: Sequence[str]) -> int:
    """Wide enough for the header with its filter button and for most cells; names end at 60 characters."""
    content = 0  # of booleans, which are shorter than any column is
    if series.dtype.is_numeric():
        largest = _largest(series)
        content = len(f"{largest:,.1f}") + 2 if series.count() and largest < 1e18 else 0
    elif texts:
        content = max(map(len, texts)) + 2
    return min(60, max(8, len(series.name) + 4, content))


def _text(text: str) -> str:
    """What a cell can hold of a text: characters that XML allows, no markup, and not too many."""
    text = _NOT_XML.sub("", text)
    if text.startswith("<r>") and text.endswith("</r>"):
        # xlsxwriter takes such a text for a rich string and would write it into the XML as it is.
        text += "\N{ZERO WIDTH SPACE}"
    # Every character takes at most two UTF-16 units, so only long texts need the exact count.
    if len(text) <= MAX_TEXT // 2 or len(units := text.encode("utf-16-le")) <= 2 * MAX_TEXT:
        return text
    return units[: 2 * (MAX_TEXT - 1)].decode("utf-16-le", "ignore") + "…"


def _about(document: Document) -> Table:
    rows = [
        ("title", document.title),
        ("source", document.source),
        ("verdict", document.answer.verdict),
        *document.facts.items(),
    ]
    for table in document.tables:
        rows += [(f"note on {table.name}", note) for note in table.notes]
        if len(table) > MAX_ROWS:
            rows.append((f"note on {table.name}", f"a sheet holds {MAX_ROWS:,} of its {len(table):,} rows"))
    return _text_table("about", ("fact", "value"), rows)


def _columns(document: Document) -> Table:
    rows = [(table.name, it.name, it.unit, it.meaning) for table in document.tables for it in table.columns]
    return _text_table("columns", ("table", "column", "unit", "meaning"), rows)


def _text_table(name: str, columns: Sequence[str], rows: Sequence[tuple[str, ...]]) -> Table:
    import polars as pl

    from warplens.model.table import Column, Table

    encoded = [tuple(map(encodable, row)) for row in rows]
    return Table.from_rows(name, "", [Column(column, "", "", pl.String) for column in columns], encoded)

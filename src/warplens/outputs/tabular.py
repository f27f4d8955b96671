"""One table as CSV or Parquet. Names and values are a contract: nothing is renamed, rounded or escaped.

The exception is asked for: CSV for a spreadsheet, in which no cell is taken for a formula.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from warplens_run.base.errors import WarplensError

if TYPE_CHECKING:
    import polars as pl

    from warplens.model.table import Table
    from warplens.outputs.document import Document


FORMULA = r"^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"
"""How a cell begins that a spreadsheet evaluates: it may call programs or send other cells elsewhere."""
NUMBER = r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$"
TEXT_MARK = "'"
"""Before a cell it makes a spreadsheet take the rest for text."""


def csv_bytes(document: Document) -> bytes:
    """UTF-8, one header line; lists and structs as JSON text; a null is empty, an empty string is `""`."""
    (table,) = document.tables
    return csv_of(table)


def safe_csv_bytes(document: Document) -> bytes:
    """The same with `'` before each text that a spreadsheet would take for a formula."""
    (table,) = document.tables
    return csv_of(table, safe=True)


def csv_of(table: Table, *, safe: bool = False) -> bytes:
    names = table.frame.columns
    if len(table.frame) == 0 and names and all(name.isidentifier() for name in names):
        # A third of the tables of a report: Polars takes 0.3 ms for each, as long as for a hundred rows.
        return f"{','.join(names)}\n".encode()
    frame = with_json_text(table.frame)
    if not frame.width:
        # Polars refuses rows without columns, and in CSV they look like none.
        frame = frame.clear()
    buffer = io.BytesIO()  # as text, it would be decoded and encoded again, a third of the time
    with explained(table, "CSV"):
        (without_formulas(frame) if safe else frame).write_csv(buffer)
    return buffer.getvalue()


def without_formulas(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with `'` before each text, and each column's name, that begins like a formula and is not a number.

    >>> import polars as pl
    >>> without_formulas(pl.DataFrame({"=a": ["=1+1", "-1.5", "gemm", None]})).to_dicts()[:2]
    [{"'=a": "'=1+1"}, {"'=a": '-1.5'}]
    """
    import polars as pl

    texts = [name for name, dtype in frame.schema.items() if dtype in (pl.String, pl.Categorical, pl.Enum)]
    columns = [frame[name].cast(pl.String) for name in texts]
    marked = [
        pl.select(
            pl.when(column.str.contains(FORMULA) & ~column.str.contains(NUMBER))
            .then(TEXT_MARK + column)
            .otherwise(column)
            .alias(column.name)
        ).to_series()
        for column in columns
    ]
    safe = frame.with_columns(marked)
    return safe.rename({name: TEXT_MARK + name for name in frame.columns if re.match(FORMULA, name)})


def parquet_bytes(document: Document) -> bytes:
    """Polars' own Parquet, types kept, lists and structs included."""
    (table,) = document.tables
    buffer = io.BytesIO()
    with explained(table, "Parquet"):
        table.frame.write_parquet(buffer)
    return buffer.getvalue()


def with_json_text(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with every list, array, struct and duration column as JSON text."""
    import polars as pl

    wide = [name for name, dtype in frame.schema.items() if dtype.is_nested() or dtype == pl.Duration]
    if not wide:
        return frame
    import msgspec

    def as_text(series: pl.Series) -> pl.Series:
        texts = [None if value is None else msgspec.json.encode(value).decode() for value in series.to_list()]
        return pl.Series(series.name, texts, dtype=pl.String)

    return frame.with_columns([as_text(frame[name]) for name in wide])


@contextmanager
def explained(table: Table, form: str) -> Iterator[None]:
    """Polars' reason for refusing a column, as one line that names the table."""
    import polars as pl

    try:
        yield
    except pl.exceptions.PolarsError as error:
        reason = str(error).partition("\n")[0]
        raise WarplensError(f"table {table.name} cannot be written as {form}: {reason}") from error

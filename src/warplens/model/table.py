"""`Table`: what every analysis returns and every output renders."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import polars as pl

from warplens.errors import MissingExtra


@dataclass(frozen=True)
class Column:
    """A column's name, unit and one-line meaning; the unit of a number also ends its name (`total_us`)."""

    name: str
    meaning: str
    unit: str = ""


@dataclass(frozen=True)
class Table:
    """A named frame whose columns explain themselves.

    >>> table = Table("sizes", "one row per tensor", (Column("bytes", "size in memory", "bytes"),),
    ...               pl.DataFrame({"bytes": [4, 8]}))
    >>> table.to_dicts()
    [{'bytes': 4}, {'bytes': 8}]
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    frame: pl.DataFrame
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        declared = [column.name for column in self.columns]
        if declared != self.frame.columns:
            raise ValueError(f"table {self.name}: declared {declared}, frame has {self.frame.columns}")

    def __len__(self) -> int:
        return self.frame.height

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def to_polars(self) -> pl.DataFrame:
        return self.frame

    def to_dicts(self) -> list[dict[str, Any]]:
        return self.frame.to_dicts()

    def to_pandas(self) -> Any:
        try:
            return self.frame.to_pandas()
        except ModuleNotFoundError as error:
            raise MissingExtra("pandas and pyarrow", "pandas", "Table.to_pandas()") from error


def table(name: str, meaning: str, columns: Iterable[Column], frame: pl.DataFrame, *notes: str) -> Table:
    """A `Table` with the frame's columns put in the declared order.

    Measured numbers keep six decimals (ms to the ns, µs to the fs): more are the noise of binary fractions.
    """
    listed = tuple(columns)
    chosen = frame.select(
        pl.col(column.name).round(6) if _is_measured(column, frame.schema[column.name]) else pl.col(column.name)
        for column in listed
    )
    return Table(name, meaning, listed, chosen, notes)


def _is_measured(column: Column, dtype: pl.DataType) -> bool:
    return bool(column.unit) and dtype.is_float()

"""`Table`: what every analysis returns and every output renders.

A table declares its columns once, with their types. It is made from rows (`Table.from_rows`) or from a frame
(`Table.from_frame`); both check what they get against the declaration, so an empty table has the types of a full one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import polars as pl

from warplens.model.notebook import shown
from warplens.model.records import records
from warplens_run.base.errors import MissingExtra
from warplens_run.base.units import plural

DType = pl.DataType | type[pl.DataType]
Record = TypeVar("Record")


@dataclass(frozen=True)
class Column:
    """A column's name, one-line meaning, unit and type; the unit of a number also ends its name (`total_us`).

    The unit is empty where there is none.
    """

    name: str
    meaning: str
    unit: str
    dtype: DType

    @property
    def is_measured(self) -> bool:
        """A decimal with a unit. It keeps six decimals (ms to the ns, µs to the fs): more are noise of the floats."""
        return bool(self.unit) and self.dtype.is_float()


@dataclass(frozen=True)
class Table:
    """A named frame whose columns explain themselves.

    >>> columns = (Column("tensor", "its name", "", pl.String), Column("size_bytes", "in memory", "bytes", pl.Int64))
    >>> table = Table.from_rows("sizes", "one row per tensor", columns, [("bias", 4), ("weight", 64)])
    >>> table.to_dicts()
    [{'tensor': 'bias', 'size_bytes': 4}, {'tensor': 'weight', 'size_bytes': 64}]

    To read rows, declare the columns that are needed as the fields of a frozen dataclass or a NamedTuple:

    >>> @dataclass(frozen=True)
    ... class Size:
    ...     tensor: str
    ...     size_bytes: int
    >>> [size.tensor for size in table.records(Size) if size.size_bytes > 8]
    ['weight']
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
        for column, dtype in zip(self.columns, self.frame.dtypes, strict=True):
            if dtype != column.dtype:
                raise TypeError(f"table {self.name}: column {column.name} is declared {column.dtype}, is {dtype}")

    @classmethod
    def from_frame(cls, name: str, meaning: str, columns: Iterable[Column], frame: pl.DataFrame, *notes: str) -> Table:
        """The declared columns of a frame, in their order; the frame may have more."""
        declared = tuple(columns)
        # A query takes four times as long, and of the tables of a report a third have no rows.
        if len(frame) == 0 or not any(column.is_measured for column in declared):
            chosen = frame[[column.name for column in declared]]
        else:
            chosen = frame.select(
                pl.col(column.name).round(6) if column.is_measured else column.name for column in declared
            )
        return cls(name, meaning, declared, chosen, notes)

    @classmethod
    def from_rows(
        cls, name: str, meaning: str, columns: Iterable[Column], rows: Iterable[object], *notes: str
    ) -> Table:
        """A table of rows: plain tuples in the order of the columns, mappings, or records with these attributes.

        A column that a mapping does not name is null in that row.

        >>> column = Column("size_bytes", "in memory", "bytes", pl.Int64)
        >>> Table.from_rows("sizes", "one row per tensor", [column], [{"size_bytes": 4}, {}]).to_dicts()
        [{'size_bytes': 4}, {'size_bytes': None}]
        """
        declared = tuple(columns)
        return cls.from_frame(name, meaning, declared, frame_of_rows(declared, rows, name), *notes)

    def __len__(self) -> int:
        return self.frame.height

    def __repr__(self) -> str:
        """One line: the rows of some tables would fill screens."""
        return f"<Table {self.name}: {plural(len(self), 'row')}, {plural(len(self.columns), 'column')}>"

    def _repr_html_(self) -> str:
        return shown("\n".join((f"{self.name}: {self.meaning}", *self.notes)), self.frame)

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def records(self, kind: type[Record]) -> list[Record]:
        """The rows as records of a dataclass or NamedTuple whose fields are columns of this table.

        A field's type has to fit its column, and a column with nulls needs a field that allows None.
        """
        return records(self.frame, kind)

    def to_polars(self) -> pl.DataFrame:
        return self.frame

    def to_dicts(self) -> list[dict[str, Any]]:
        return self.frame.to_dicts()

    def to_pandas(self) -> Any:
        try:
            return self.frame.to_pandas()
        except ModuleNotFoundError as error:
            raise MissingExtra("pandas and pyarrow", "pandas", "Table.to_pandas()") from error


def frame_of_rows(columns: Sequence[Column], rows: Iterable[object], name: str = "") -> pl.DataFrame:
    """The rows as a frame with the columns' types, for a table that still sorts or adds to them."""
    tuples = [_cells(row, columns) for row in rows]
    values = zip(*tuples, strict=True) if tuples else ((),) * len(columns)
    return pl.DataFrame([_series(column, cells, name) for column, cells in zip(columns, values, strict=True)])


def _cells(row: object, columns: Sequence[Column]) -> Sequence[object]:
    if isinstance(row, (tuple, list)) and not hasattr(row, "_fields"):
        return row
    names = [column.name for column in columns]
    if not isinstance(row, Mapping):
        return [getattr(row, name) for name in names]
    if unknown := set(row).difference(names):
        raise ValueError(f"no columns for {', '.join(sorted(map(str, unknown)))}; declared are {', '.join(names)}")
    return [row.get(name) for name in names]


def _series(column: Column, cells: Sequence[object], name: str) -> pl.Series:
    try:
        return pl.Series(column.name, cells, dtype=column.dtype, strict=True)
    except (TypeError, OverflowError, pl.exceptions.PolarsError) as error:
        reason = str(error).partition("\n")[0]
        raise TypeError(f"table {name}: column {column.name}: {reason}") from error

"""`Frame`: columns of plain values, in the form that pandas has them.

Cells of TraceLens' frames may be tuples, lists and dicts. Frames are computed in this form, so that a workbook needs no
pandas, and become pandas frames where they are handed out.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from warplens.model.table import Column, Table
from warplens_run.base.errors import MissingExtra, UsageError

Values = list[Any]


class Frame(dict[str, Values]):
    """Columns by name, all of one length.

    >>> frame = Frame.of_rows([{"op": "mm", "us": 3.0}, {"op": "add", "us": 1.0}, {"op": "mm", "us": 1.0}])
    >>> dict(frame.grouped(["op"], {"us": ["sum", "max"]}))
    {'op': ['mm', 'add'], 'us_sum': [4.0, 1.0], 'us_max': [3.0, 1.0]}
    """

    @classmethod
    def of_rows(cls, rows: Iterable[dict[str, Any]]) -> Frame:
        """One row per dict; the columns come in the order in which rows first have them."""
        rows = list(rows)
        names = dict.fromkeys(name for row in rows for name in row)
        return cls({name: [row.get(name) for row in rows] for name in names})

    @classmethod
    def of_pandas(cls, frame: Any) -> Frame:
        return cls({str(name): frame[name].tolist() for name in frame.columns})

    @property
    def height(self) -> int:
        return len(next(iter(self.values()), ()))

    def rows(self) -> Iterable[dict[str, Any]]:
        return (dict(zip(self, values, strict=True)) for values in zip(*self.values(), strict=True))

    def taken(self, rows: Sequence[int]) -> Frame:
        """Some of the rows, in this order."""
        return Frame({name: [values[row] for row in rows] for name, values in self.items()})

    def renamed(self, names: dict[str, str]) -> Frame:
        return Frame({names.get(name, name): values for name, values in self.items()})

    def where(self, is_chosen: Sequence[bool]) -> Frame:
        return self.taken([row for row, chosen in enumerate(is_chosen) if chosen])

    def head(self, count: int | None) -> Frame:
        """The first rows; all for None."""
        return self if count is None else self.taken(range(min(count, self.height)))

    def only(self, names: Iterable[str]) -> Frame:
        """The columns of these names that are there, in this order."""
        return Frame({name: self[name] for name in names if name in self})

    def sorted_by(self, column: str, then: str = "") -> Frame:
        """The largest of a column first; equal ones by the smallest of another, or as they are."""
        ties = self[then] if then in self else range(self.height)
        return self.taken(sorted(range(self.height), key=lambda row: (-self[column][row], ties[row])))

    def groups(self, keys: Sequence[str], *, as_text: bool = False) -> list[list[int]]:
        """The rows of each group, groups in the order of their first rows; `as_text` compares values by their text."""
        groups: dict[Hashable, list[int]] = {}
        columns = [_texts(self[key]) if as_text else self[key] for key in keys]
        for row, key in enumerate(zip(*columns, strict=True)):
            groups.setdefault(key, []).append(row)
        return list(groups.values())

    def grouped(
        self,
        keys: Sequence[str],
        aggregates: Mapping[str, Sequence[Aggregate]],
        *,
        as_text: bool = False,
        in_order: bool = False,
    ) -> Frame:
        """One row per group: its keys and `COLUMN_AGGREGATE` of the named columns; `in_order` of the keys."""
        groups = self.groups(keys, as_text=as_text)
        if in_order:
            groups.sort(key=lambda rows: tuple(_sortable(self[key][rows[0]]) for key in keys))
        result = Frame({key: [self[key][rows[0]] for rows in groups] for key in keys})
        for name, chosen in aggregates.items():
            values = self[name]
            members = [[value for row in rows if not is_missing(value := values[row])] for rows in groups]
            for aggregate in chosen:
                function, label = aggregate_of(aggregate)
                result[f"{name}_{label}"] = [function(group) for group in members]
        return result

    def with_shares(self, column: str, percent: str, cumulative: str) -> Frame:
        """With each row's share of the sum of a column, and the shares added up from the first row on."""
        whole = sum(self[column])
        shares = [value / whole * 100 if whole else float("nan") for value in self[column]]
        return Frame({**self, percent: shares, cumulative: np.cumsum(shares).tolist()})

    def to_pandas(self) -> Any:
        pandas = require_pandas()
        return pandas.DataFrame({name: pandas.Series(_cells(values)) for name, values in self.items()})

    def to_table(self, name: str) -> Table:
        """The frame as a table for a workbook; what is not a number or a flag becomes text."""
        series = [_series(column, values) for column, values in self.items()]
        columns = tuple(Column(it.name, "", "", it.dtype) for it in series)
        return Table(name, "", columns, pl.DataFrame(series))

    def to_csv(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self)
        writer.writerows(
            ["" if is_missing(value) else value for value in row] for row in zip(*self.values(), strict=True)
        )
        return text.getvalue()


def require_pandas() -> Any:
    try:
        import pandas
    except ModuleNotFoundError as error:
        command = "pandas: pip install 'warplens[pandas]'"
        raise MissingExtra(command, "pandas", "a frame in TraceLens' form") from error
    return pandas


def is_missing(value: object) -> bool:
    """None and NaN, as in pandas."""
    return value is None or (isinstance(value, float) and value != value)


Aggregate = str | Callable[[Values], Any]


def _number(function: Callable[[Any], Any]) -> Callable[[Values], Any]:
    """A function of numbers; NaN of none."""
    return lambda values: np.asarray(function(np.asarray(values))).item() if values else float("nan")


def _sample_deviation(values: Any) -> Any:
    return np.std(values, ddof=1) if len(values) > 1 else float("nan")


FUNCTIONS: Final[dict[str, Callable[[Values], Any]]] = {
    "mean": _number(np.mean),
    "median": _number(np.median),
    "std": _number(_sample_deviation),
    "var": _number(lambda values: _sample_deviation(values) ** 2),
    "min": _number(np.min),
    "max": _number(np.max),
    "sum": lambda values: sum(values),
    "count": len,
    "size": len,
    "first": lambda values: values[0] if values else None,
    "last": lambda values: values[-1] if values else None,
    "nunique": lambda values: len(set(values)),
    "set": lambda values: sorted(set(values)),
}


def aggregate_of(aggregate: Aggregate) -> tuple[Callable[[Values], Any], str]:
    """The function and the name that its column gets."""
    if callable(aggregate):
        return aggregate, getattr(aggregate, "__name__", "value")
    if aggregate not in FUNCTIONS:
        raise UsageError(f"unknown aggregate {aggregate!r}", hint=f"one of {', '.join(FUNCTIONS)}, or a function")
    return FUNCTIONS[aggregate], aggregate


def _texts(values: Values) -> list[str]:
    """The text of each value; most cells share their values, which are written once."""
    texts: dict[int, str] = {}
    for value in values:
        if id(value) not in texts:
            texts[id(value)] = str(value)
    return [texts[id(value)] for value in values]


def _sortable(value: object) -> tuple[bool, Any]:
    return is_missing(value), "" if is_missing(value) else value


def _cells(values: Values) -> Any:
    """Values as pandas is to take them: a column of lists is not a column of rows."""
    if not any(isinstance(value, (tuple, list, dict)) for value in values):
        return values
    cells = np.empty(len(values), object)
    cells[:] = values
    return cells


def _series(name: str, values: Values) -> pl.Series:
    kinds = {type(value) for value in values if not is_missing(value)}
    present = [None if is_missing(value) else value for value in values]
    if kinds <= {bool}:
        return pl.Series(name, present, dtype=pl.Boolean if kinds else pl.String)
    if kinds <= {int} and all(value is None or abs(value) < 2**63 for value in present):
        return pl.Series(name, present, dtype=pl.Int64)
    if kinds <= {int, float}:
        return pl.Series(name, [None if value is None else float(value) for value in present], dtype=pl.Float64)
    return pl.Series(name, [None if value is None else str(value) for value in present], dtype=pl.String)

"""JSON written by columns: one text per row from Polars, ten times as quick as encoding row by row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import numpy as np
import polars as pl

from warplens.model.trace import Ints

FRACTIONS: Final = [f".{number:03d}" for number in range(1000)]
TRUNCATED: Final = "001"
"""Appended to µs that lose a nanosecond where a viewer multiplies them by 1000 and drops the fraction: 1.001 × 1000 is
1000.9999999999999, and then a slice ends before those inside it. A picosecond more changes nothing else."""


def quoted(text: str) -> str:
    """A text as JSON; what no JSON can contain is replaced."""
    try:
        return msgspec.json.encode(text).decode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return msgspec.json.encode(text.encode(errors="replace").decode()).decode()


def quoted_column(values: pl.Series) -> pl.Series:
    """Each text as JSON; equal ones are encoded once. Null stays null."""
    distinct = values.unique().drop_nulls()
    texts = pl.Series([quoted(text) for text in distinct.to_list()], dtype=pl.String)
    written: pl.Series = values.replace_strict(distinct, texts, default=None, return_dtype=pl.String)
    return written


def as_json(text: str) -> str:
    """What is JSON already as it is, and anything else as a string."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return quoted(text)
    return text


def microseconds(ns: Ints) -> pl.Series:
    """Times from 0 on as decimals with all their nanoseconds.

    >>> microseconds(np.array([0, 1001, 2500])).to_list()
    ['0.000', '1.001001', '2.500']
    """
    whole, part = np.divmod(ns, 1000)
    is_short = np.floor(ns / 1000 * 1000) != ns
    fractions = pl.Series([*FRACTIONS, *(f"{fraction}{TRUNCATED}" for fraction in FRACTIONS)])
    return pl.select(
        pl.concat_str(pl.lit(pl.Series(whole)).cast(pl.String), pl.lit(fractions.gather(part + 1000 * is_short)))
    ).to_series()


def labelled(key: str, values: Ints) -> pl.Series:
    """`,"key":value` for numbers from 0 on, and nothing for those below."""
    column = pl.Series(values)
    return _shown(key, column.cast(pl.String), column >= 0)


def sparse(size: int, positions: Ints, texts: Sequence[str]) -> pl.Series:
    """A column of texts at some positions and nothing elsewhere; texts for one position follow each other."""
    column = [""] * size
    for position, text in zip(positions.tolist(), texts, strict=True):
        column[position] += text
    return pl.Series(column, dtype=pl.String)


def arguments(frame: pl.DataFrame) -> pl.Series:
    """The columns of a frame as `,"column":value`, without nulls, empty texts and -1."""
    texts = [_argument(column) for column in frame.iter_columns()]
    return joined(texts, frame.height)


def _argument(column: pl.Series) -> pl.Series:
    if column.dtype == pl.String:
        shown, is_shown = quoted_column(column), column != ""
    elif column.dtype.is_float():
        shown, is_shown = column.round(6).cast(pl.String), column.is_finite()
    elif column.dtype == pl.Boolean:
        shown, is_shown = column.cast(pl.String), column.is_not_null()
    else:
        shown, is_shown = column.cast(pl.String), column != -1
    return _shown(column.name, shown, is_shown.fill_null(False))


def _shown(key: str, values: pl.Series, is_shown: pl.Series) -> pl.Series:
    text = joined([f",{quoted(key)}:", values], len(values))
    return text.zip_with(is_shown, pl.Series([""], dtype=pl.String)) if len(text) else text


def joined(parts: Iterable[pl.Series | str], size: int) -> pl.Series:
    """Columns and constant texts next to each other."""
    columns = [pl.lit(part) for part in parts]
    if not columns or not size:
        return pl.repeat("", size, dtype=pl.String, eager=True)
    return pl.select(pl.concat_str(columns, ignore_nulls=True)).to_series()

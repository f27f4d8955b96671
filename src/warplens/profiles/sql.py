"""SQL over tables: `run_query`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import polars as pl

from warplens.model.table import Column, Table
from warplens.profiles.sql_checks import check_query
from warplens.profiles.sql_text import with_names
from warplens.profiles.unknown_table import unknown_table
from warplens_run.base.errors import UsageError

FrameMaker = Callable[[], pl.DataFrame]
MISSING_TABLE = re.compile(r"relation '(.{1,1000})' was not found")
"""How Polars reports a table that it does not know."""
ERRORS = (pl.exceptions.PolarsError, TypeError, ValueError)


def run_query(frames: Mapping[str, FrameMaker], query: str, lacking: Mapping[str, str] | None = None) -> Table:
    """The answer to `query` as a table; only the frames that it names are computed.

    `lacking`: tables that are known and do not exist here, with what each needs.

    What it computes is named by its own text, unless the query gives it a name.

    >>> sizes = pl.DataFrame({"name": ["a", "b"], "bytes": [1, 2]})
    >>> run_query({"sizes": lambda: sizes}, "select name from sizes where bytes > 1").to_dicts()
    [{'name': 'b'}]
    >>> run_query({"sizes": lambda: sizes}, "select count(*), sum(bytes) from sizes").to_dicts()
    [{'count(*)': 2, 'sum(bytes)': 3}]
    """
    check_query(query)
    words = {word.lower() for word in re.findall(r"\w+", query)}
    context = pl.SQLContext({name: make() for name, make in frames.items() if name in words}, eager=True)
    try:
        frame = _answer(context, query)
    except ERRORS as error:
        raise _explained(error, frames, lacking) from None
    columns = tuple(Column(name, "", "", dtype) for name, dtype in frame.schema.items())
    return Table("query", query, columns, frame)


def _explained(error: Exception, frames: Mapping[str, FrameMaker], lacking: Mapping[str, str] | None) -> UsageError:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    missing = MISSING_TABLE.search(reason)
    if missing:
        return unknown_table(missing[1], frames, lacking)
    return UsageError(f"SQL: {reason}", hint=f"tables: {', '.join(frames)}")


def _answer(context: pl.SQLContext[pl.DataFrame], query: str) -> pl.DataFrame:
    try:
        return context.execute(with_names(query))
    except ERRORS:
        # `order by total_us` may mean `sum(total_us)` by the name that Polars gives it.
        return context.execute(query)

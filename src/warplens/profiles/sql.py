"""SQL over tables: `run_query`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import polars as pl

from warplens.errors import UsageError
from warplens.model.table import Column, Table

FrameMaker = Callable[[], pl.DataFrame]


def run_query(frames: Mapping[str, FrameMaker], query: str) -> Table:
    """The answer to `query` as a table; only the frames that it names are computed.

    >>> sizes = pl.DataFrame({"name": ["a", "b"], "bytes": [1, 2]})
    >>> run_query({"sizes": lambda: sizes}, "select name from sizes where bytes > 1").to_dicts()
    [{'name': 'b'}]
    """
    words = {word.lower() for word in re.findall(r"\w+", query)}
    named = {name: make() for name, make in frames.items() if name in words}
    try:
        frame = pl.SQLContext(named, eager=True).execute(query)
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UsageError(f"SQL: {reason}", hint=f"tables: {', '.join(frames)}") from None
    columns = tuple(Column(name, "", "", dtype) for name, dtype in frame.schema.items())
    return Table("query", query, columns, frame)

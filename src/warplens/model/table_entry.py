"""`TableEntry`: how one table is made from a source, and the condition under which it exists."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, Generic, TypeVar, cast

import msgspec

from warplens.model.table import Table

Source = TypeVar("Source")


def always(source: object) -> bool:
    """The condition of tables that every source has; one without rows says in its notes why."""
    return True


class TableEntry(msgspec.Struct, Generic[Source], frozen=True):
    """One table of a registry.

    >>> import polars as pl
    >>> from warplens.model.table import Column
    >>> column = Column("size_bytes", "its size", "bytes", pl.Int64)
    >>> entry = TableEntry("sizes", lambda sizes: Table.from_rows("sizes", "one row per size", [column], sizes),
    ...                    exists=bool, needs="at least one size")
    >>> entry.exists([]), len(entry([(4,), (8,)]))
    (False, 2)
    """

    name: str
    make: Callable[[Source], Table]
    exists: Callable[[Source], bool] = always
    """Whether the source has what the table is made of."""
    needs: str = ""
    """The same condition in words, to complete "table x needs …"; empty where every source has the table."""
    in_report: bool = True
    """False for tables that are made only when they are asked for by name."""
    instead: Callable[[Source], str] | None = None
    """What follows `needs` where a source lacks the table: what that source has instead, empty for nothing."""

    def __call__(self, source: Source) -> Table:
        return self.make(source)


def entries(*makers: Callable[[Source], Table], in_report: bool = True) -> dict[str, TableEntry[Source]]:
    """The entries of tables that every source has, by name; a maker has the name of its table."""
    return {maker.__name__: TableEntry(maker.__name__, maker, in_report=in_report) for maker in makers}


def later(module: str, *names: str) -> dict[str, TableEntry[Any]]:
    """The entries of tables that no report has: the module that makes them is loaded when one is asked for."""

    def make(name: str, source: object) -> Table:
        return cast(Table, getattr(import_module(module), name)(source))

    return {name: TableEntry(name, partial(make, name), in_report=False) for name in names}


def when_needed(
    module: str,
    maker: str,
    *names: str,
    exists: Callable[[Any], bool],
    needs: str,
    instead: Callable[[Any], str] | None = None,
) -> dict[str, TableEntry[Any]]:
    """The entries of tables that some sources have: `maker` of the module, loaded then, makes each by its name."""

    def make(name: str, source: object) -> Table:
        return cast(Table, getattr(import_module(module), maker)(name, source))

    return {name: TableEntry(name, partial(make, name), exists, needs, instead=instead) for name in names}

"""Rows of a table as `--top`, `--sort`, `--where`, `--columns`, `--json` and `--csv` ask for them, on stdout."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from warplens.cli.showing import show_text
from warplens_run.base.errors import UsageError
from warplens_run.cli.options import TERMINAL_ROWS
from warplens_run.cli.printing import width, write_bytes

if TYPE_CHECKING:
    import polars as pl

    from warplens.model.table import Table


VALID_COLUMNS = re.compile(r"; valid columns: \[(?:(?!; valid columns: ).)*?\]\s*", re.DOTALL)


def print_rows(table: Table, args: argparse.Namespace, *, keep: Sequence[str] = (), title: bool = True) -> None:
    """The chosen rows of one table; `keep` are the columns hidden last on a narrow terminal."""
    chosen = choose_rows(table, args)
    if args.json:
        print_json(chosen, args.top)
    elif args.csv:
        from warplens.outputs.tabular import csv_of

        write_bytes(csv_of(_head(chosen, args.top)))
    else:
        from warplens.outputs import render_table

        columns, sorted_by = named_columns(args), [args.sort.lstrip("-")] if args.sort else []
        text = render_table(chosen, top=shown_rows(args), width=width(), columns=columns, keep=[*sorted_by, *keep],
                            title=title)  # fmt: skip
        show_text(text)


def print_json(table: Table, top: int | None = None) -> None:
    from warplens.outputs import rows_to_json

    write_bytes(rows_to_json(_head(table, top)))


def shown_rows(args: argparse.Namespace) -> int | None:
    """How many rows are printed as text; None for all."""
    top: int | None = args.top
    return top if top is not None or not sys.stdout.isatty() else TERMINAL_ROWS


def choose_rows(table: Table, args: argparse.Namespace) -> Table:
    """The table after `--where`, `--sort` and `--columns`; not yet cut by `--top`, which text reports below it."""
    from dataclasses import replace

    frame = _filtered(table.frame, args.where) if args.where else table.frame
    if args.sort:
        column = args.sort.removeprefix("-")
        require_columns(table, [column])
        frame = frame.sort(column, descending=column == args.sort, nulls_last=True, maintain_order=True)
    names = named_columns(args)
    if names is None:
        return replace(table, frame=frame)
    require_columns(table, names)
    return replace(table, frame=frame.select(names), columns=tuple(table.column(name) for name in names))


def named_columns(args: argparse.Namespace) -> list[str] | None:
    """The columns of `--columns`, each once; None for all."""
    names = [name.strip() for name in (args.columns or "").split(",")]
    return list(dict.fromkeys(filter(None, names))) or None


def require_columns(table: Table, names: Sequence[str]) -> None:
    columns = table.frame.columns
    for name in names:
        if name not in columns:
            raise UsageError(f"table {table.name} has no column {name!r}", hint=f"columns: {', '.join(columns)}")


def _filtered(frame: pl.DataFrame, condition: str) -> pl.DataFrame:
    import polars as pl

    from warplens.profiles.sql_checks import check_condition

    check_condition(condition)
    try:
        return frame.filter(pl.sql_expr(condition))
    except (pl.exceptions.PolarsError, TypeError, UnicodeEncodeError) as error:
        reason = VALID_COLUMNS.sub(". ", str(error)).strip()  # the hint lists them
        raise UsageError(f"--where {condition!r}: {reason}", hint=f"columns: {', '.join(frame.columns)}") from None


def _head(table: Table, top: int | None) -> Table:
    from dataclasses import replace

    return table if top is None else replace(table, frame=table.frame.head(top))

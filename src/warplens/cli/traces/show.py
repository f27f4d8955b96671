"""Show one table of a trace."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from warplens.cli.common import add_trace_options, open_profile, positive, show_text, width, write_bytes

if TYPE_CHECKING:
    from warplens.model.table import Table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_trace_options(parser)
    parser.add_argument("table", metavar="TABLE", help="name of the table (see: warplens explain tables)")
    parser.add_argument("--top", type=positive, default=None, metavar="N", help="first N rows (terminal: 30, else all)")
    parser.add_argument("--sort", metavar="COLUMN", help="largest first; smallest first with --sort=-COLUMN")
    parser.add_argument("--where", metavar="SQL", help="keep rows for which this SQL condition holds")
    parser.add_argument("--columns", metavar="A,B,…", help="only these columns")
    parser.add_argument("--roofline", action="store_true", help="the columns that say how far from the limit")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON array of row objects")
    form.add_argument("--csv", action="store_true", help="CSV")


def run(args: argparse.Namespace) -> int:
    from warplens.outputs import render_table, rows_to_json

    table = _chosen(open_profile(args).table(args.table), args)
    if args.json:
        write_bytes(rows_to_json(_head(table, args.top)))
    elif args.csv:
        from warplens.outputs.tabular import with_json_text

        write_bytes(with_json_text(_head(table, args.top).frame).write_csv().encode())
    else:
        top = args.top if args.top is not None or not sys.stdout.isatty() else 30
        show_text(render_table(table, top=top, width=width(), columns=_columns(args), keep=_sorted_by(args)))
    return 0


def _head(table: Table, top: int | None) -> Table:
    from dataclasses import replace

    return table if top is None else replace(table, frame=table.frame.head(max(0, top)))


def _chosen(table: Table, args: argparse.Namespace) -> Table:
    """The table after --where, --sort and --columns."""
    from dataclasses import replace

    import polars as pl

    from warplens.errors import UsageError

    frame = table.frame
    if args.where:
        try:
            frame = frame.filter(pl.sql_expr(args.where))
        except (pl.exceptions.PolarsError, TypeError) as error:
            raise UsageError(f"--where {args.where!r}: {error}", hint=f"columns: {', '.join(frame.columns)}") from None
    if args.sort:
        column, descending = args.sort.lstrip("-"), not args.sort.startswith("-")
        _require(frame.columns, [column], table.name)
        frame = frame.sort(column, descending=descending, nulls_last=True, maintain_order=True)
    columns = table.columns
    names = _columns(args) or (_roofline_columns(args.table, frame.columns) if args.roofline else None)
    if names:
        _require(frame.columns, names, table.name)
        frame, columns = frame.select(names), tuple(table.column(name) for name in names)
    return replace(table, frame=frame, columns=columns)


BESIDE_SHAPES = (
    "op", "input_dims", "count", "kernel_us_mean", "flop", "bytes", "tflops", "tbps", "bound", "roofline_us",
    "percent_of_roofline", "flag",
)  # fmt: skip
"""What `--roofline` shows of a table of shapes; the roofline's own tables begin with what it shows."""


def _roofline_columns(table: str, known: list[str]) -> list[str]:
    from warplens.errors import UsageError

    if "percent_of_roofline" not in known:
        raise UsageError(f"table {table} has no roofline", hint="op_shapes, roofline, gemm, attention … have")
    return list(BESIDE_SHAPES) if "input_dims" in known else known[: known.index("flag") + 1]


def _columns(args: argparse.Namespace) -> list[str] | None:
    """The columns asked for, each once; None for all."""
    names = [name.strip() for name in (args.columns or "").split(",")]
    return list(dict.fromkeys(filter(None, names))) or None


def _sorted_by(args: argparse.Namespace) -> list[str]:
    return [args.sort.lstrip("-")] if args.sort else []


def _require(known: list[str], names: list[str], table: str) -> None:
    from warplens.errors import UsageError

    for name in names:
        if name not in known:
            raise UsageError(f"table {table} has no column {name!r}", hint=f"columns: {', '.join(known)}")

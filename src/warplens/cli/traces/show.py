"""`warplens show`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from warplens.cli.opening import open_reported
from warplens.cli.options import add_rows, add_trace
from warplens.cli.rows import print_rows
from warplens_run.base.errors import UsageError
from warplens_run.cli.verb import Verb

if TYPE_CHECKING:
    from warplens.model.table import Table

BESIDE_SHAPES = (
    "op", "input_dims", "count", "kernel_us_mean", "flop", "bytes", "tflops", "tbps", "bound", "roofline_us",
    "percent_of_roofline", "flag",
)  # fmt: skip
"""What `--roofline` shows of a table of shapes; the roofline's own tables begin with what it shows."""


class ShowVerb(Verb):
    """Show one table of a trace."""

    name = "show"
    inputs = ("trace",)
    reads_jobs = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_trace(parser, jobs=True)
        parser.add_argument("table", metavar="TABLE", help="name of the table (see: warplens explain tables)")
        add_rows(parser)
        parser.add_argument("--roofline", action="store_true", help="only the columns about the roofline")

    def run(self, args: argparse.Namespace) -> int:
        table = open_reported(args).table(args.table)
        print_rows(_roofline_columns(table) if args.roofline and not args.columns else table, args)
        return 0


def _roofline_columns(table: Table) -> Table:
    from dataclasses import replace

    columns = table.frame.columns
    if "percent_of_roofline" not in columns:
        hint = "tables with one: op_shapes, roofline, gemm, attention, …"
        raise UsageError(f"table {table.name} has no roofline columns", hint=hint)
    names = list(BESIDE_SHAPES) if "input_dims" in columns else columns[: columns.index("flag") + 1]
    return replace(table, frame=table.frame.select(names), columns=tuple(table.column(name) for name in names))

"""Count the unique kernels of a trace, by each meaning of unique, and tell what could replay each.

How many names there are, how many with their grids, how many ops with their inputs; how many of them take most of the
time; and per kernel which API launches it again: a library, an op of PyTorch, an extension, a Triton source, a copy.
"""

from __future__ import annotations

import argparse
import sys

from warplens.cli.common import (
    add_trace_options,
    command_line,
    inputs_of,
    open_timeline,
    positive,
    show_text,
    tell_warnings,
    width,
    write_bytes,
)

KEPT_COLUMNS = {
    # by table: what is hidden last on a narrow screen
    "unique_kernels": ("api", "count", "total_us", "percent"),
    "units": ("op", "kernels", "count", "median_us", "percent"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_trace_options(parser)
    parser.add_argument("--table", choices=("unique", "unique_kernels", "units"), help="only this table")
    parser.add_argument("--top", type=positive, default=None, metavar="N", help="first N rows (terminal: 15, else all)")
    parser.add_argument(
        "-o", "--output", action="append", default=[], metavar="PATH", help="file or directory/ to write"
    )
    parser.add_argument("--tables", choices=("csv", "parquet"), default="csv", help="files of a directory output")
    parser.add_argument("--force", action="store_true", help="overwrite existing outputs")
    parser.add_argument("--json", action="store_true", help="one JSON array of row objects (of --table, else unique)")


def run(args: argparse.Namespace) -> int:
    from dataclasses import replace

    from warplens.analyses.units.unique import UNIT_TABLES
    from warplens.outputs import plan_outputs, render_table, rows_to_json, write

    shown = [args.table] if args.table else list(UNIT_TABLES)
    targets = plan_outputs(args.output, tables=args.tables, force=args.force, names=shown, inputs=inputs_of(args))
    profile = open_timeline(args)
    tell_warnings(profile)
    for target in targets:
        # The page is the trace's own, with these tables in it.
        names = (*profile.report_names, *UNIT_TABLES) if target.output.name == "html" else shown
        write(target, profile.document(names, command=command_line()))
    if args.json:
        table = profile.table(args.table or "unique")
        write_bytes(rows_to_json(table if args.top is None else replace(table, frame=table.frame.head(args.top))))
    else:
        top = args.top if args.top is not None or not sys.stdout.isatty() else 15
        for place, name in enumerate(shown):
            print(end="\n" if place else "")
            show_text(render_table(profile.table(name), top=top, width=width(), keep=KEPT_COLUMNS.get(name, ())))
    if targets:
        print(f"wrote {', '.join(args.output)}", file=sys.stderr)
    return 0

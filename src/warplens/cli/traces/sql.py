"""Ask a trace a question in SQL.

Every table is there under its name, and `events` holds every event (kinds and names written out). Sides of the
trace: lanes, specs, geometries, collectives, memory_events.
"""

from __future__ import annotations

import argparse

from warplens.cli.common import add_trace_options, open_profile, show_text, width, write_bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_trace_options(parser)
    parser.add_argument("query", metavar="SQL", help='for example: "select * from kernels limit 5"')
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON array of row objects")
    form.add_argument("--csv", action="store_true", help="CSV")


def run(args: argparse.Namespace) -> int:
    from warplens.outputs import render_table, rows_to_json
    from warplens.outputs.tabular import with_json_text

    table = open_profile(args).sql(args.query)
    if args.json:
        write_bytes(rows_to_json(table))
    elif args.csv:
        write_bytes(with_json_text(table.frame).write_csv().encode())
    else:
        show_text(render_table(table, top=None, width=width(), title=False))
    return 0

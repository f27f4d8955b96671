"""`warplens sql`."""

from __future__ import annotations

import argparse

from warplens.cli.opening import open_profile
from warplens.cli.options import add_forms, add_top, add_trace
from warplens.cli.rows import print_rows
from warplens.cli.verb import Verb


class SqlVerb(Verb):
    """Ask a trace a question in SQL.

    Every table has its own name, and `events` has every event (kinds and names written out). More tables of
    a trace: lanes, specs, geometries, collectives, memory_events.
    """

    name = "sql"
    uses_threads = True
    inputs = ("trace",)
    reads_jobs = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_trace(parser, jobs=True)
        parser.add_argument("query", metavar="SQL", help='for example: "select * from kernels limit 5"')
        add_top(parser)
        add_forms(parser)
        parser.set_defaults(sort=None, where=None, columns=None)  # which the query itself can say

    def run(self, args: argparse.Namespace) -> int:
        print_rows(open_profile(args).sql(args.query), args, title=False)
        return 0

"""`warplens sql`."""

from __future__ import annotations

import argparse
from contextlib import nullcontext

from warplens.cli.opening import open_reported
from warplens.cli.options import add_forms, add_trace
from warplens.cli.rows import print_rows
from warplens.cli.supervision import time_limit
from warplens_run.cli.options import add_top, not_negative_number
from warplens_run.cli.verb import Verb

TIMEOUT_S = 60.0


class SqlVerb(Verb):
    """Ask a trace a question in SQL.

    Every table has its own name, and `events` has every event (kinds and names written out). More tables of
    a trace: lanes, specs, geometries, collectives, memory_events. Only queries are run: they change nothing and
    read no files.
    """

    name = "sql"
    runs_queries = True
    uses_threads = True
    inputs = ("trace",)
    reads_jobs = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_trace(parser, jobs=True)
        parser.add_argument("query", metavar="SQL", help='for example: "select * from kernels limit 5"')
        parser.add_argument("--timeout", type=not_negative_number, default=TIMEOUT_S, metavar="SECONDS",
                            help=f"end a query that takes longer (default {TIMEOUT_S:g}; 0: no limit)")  # fmt: skip
        add_top(parser)
        add_forms(parser)
        parser.set_defaults(sort=None, where=None, columns=None)  # which the query itself can say

    def run(self, args: argparse.Namespace) -> int:
        profile = open_reported(args)
        with time_limit(args.timeout) if getattr(args, "is_supervised", False) else nullcontext():
            answer = profile.sql(args.query)
        print_rows(answer, args, title=False)
        return 0

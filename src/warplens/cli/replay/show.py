"""`warplens replay show`."""

from __future__ import annotations

import argparse
from pathlib import Path

from warplens.analyses.units.replayed import REPLAY_TABLES, WholeRun
from warplens.cli.options import add_outputs, add_rows, add_theme
from warplens.cli.rows import print_rows
from warplens.cli.showing import themed
from warplens.outputs import plan_outputs, write
from warplens.profiles.replay import open_replay
from warplens.profiles.unknown_table import unknown_table
from warplens_run.base.errors import UsageError
from warplens_run.cli.options import above_zero
from warplens_run.cli.printing import print_out, report_written
from warplens_run.cli.verb import Verb

KEPT_COLUMNS = ("op", "replayed_us", "ratio", "same_kernel", "active_mj")
"""Of the tables of a result, the columns that are hidden last on a narrow terminal."""


class ShowResultVerb(Verb):
    """Show the tables of a result."""

    name = "show"
    inputs = ("result",)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("result", metavar="RESULT", help="result of a run; - reads stdin")
        parser.add_argument("table", nargs="?", metavar="TABLE",
                            help="replay, replay_units, replay_categories, replay_ops or replay_left")  # fmt: skip
        parser.add_argument("--whole-joules", type=above_zero, metavar="J",
                            help="measured energy of the traced period as a whole")  # fmt: skip
        parser.add_argument("--whole-seconds", type=above_zero, metavar="S",
                            help="length of that measurement: gives the energy closure")  # fmt: skip
        add_outputs(parser, "x.html, x.xlsx, x.json, x.md", tables=True)
        add_theme(parser)
        add_rows(parser, "TABLE (default replay_units)")

    def run(self, args: argparse.Namespace) -> int:
        if args.table is not None and args.table not in REPLAY_TABLES:
            raise unknown_table(args.table, REPLAY_TABLES)
        if (args.whole_joules is None) != (args.whole_seconds is None):
            raise UsageError("--whole-joules and --whole-seconds belong together", hint="give both")
        names = (args.table,) if args.table else tuple(REPLAY_TABLES)
        targets = plan_outputs(args.output, tables=args.tables, force=args.force, names=names, inputs=[args.result])
        whole = None if args.whole_joules is None else WholeRun(args.whole_joules, args.whole_seconds)
        opened = open_replay(Path(args.result), whole)
        for target in targets:
            write(target, themed(opened.document(names), args))
        report_written(args.output)
        if args.json or args.csv:
            names = (args.table or "replay_units",)
        for number, name in enumerate(names):
            print_out(end="\n" if number else "")
            print_rows(opened.table(name), args, keep=KEPT_COLUMNS)
        return 0

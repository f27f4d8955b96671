"""`warplens kernel diff`."""

from __future__ import annotations

import argparse
from pathlib import Path

from warplens.cli.options import add_rows
from warplens.cli.printing import print_err
from warplens.cli.rows import print_rows
from warplens.cli.verb import Verb
from warplens.units import plural


class DiffFactsVerb(Verb):
    """Compare the facts of two compilations.

    The exit status is 1 where something is worse: a gate for CI.
    """

    name = "diff"
    inputs = ("before", "after")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("before", metavar="A.json", help="facts, as written by kernel check -o A.json")
        parser.add_argument("after", metavar="B.json", help="the facts that they are compared with")
        parser.add_argument("--all", action="store_true", help="also what did not change")
        add_rows(parser)

    def run(self, args: argparse.Namespace) -> int:
        from dataclasses import replace

        import polars as pl

        from warplens.kernel_lab.comparing import compare_files, regressions

        tables = compare_files(Path(args.before), Path(args.after))
        worse = sum(len(regressions(table)) for table in tables)
        if not args.all:
            is_changed = pl.col("verdict") != "same"
            tables = [replace(table, frame=table.frame.filter(is_changed)) for table in tables]
        if args.json or args.csv:
            tables = [replace(tables[0], frame=pl.concat([table.frame for table in tables]))]
        for table in tables:
            print_rows(table, args)
        if worse:
            print_err(plural(worse, "regression"))
        return 1 if worse else 0

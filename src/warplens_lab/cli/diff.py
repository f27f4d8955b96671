"""`warplens kernel diff`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from warplens.cli.options import add_rows
from warplens.cli.rows import print_rows
from warplens_lab.cli.check_run import checked_run, is_run
from warplens_lab.comparing.compilations import compare_facts, compare_files, regressions
from warplens_run.base.units import plural
from warplens_run.cli.printing import note, print_err
from warplens_run.cli.verb import Verb

if TYPE_CHECKING:
    from warplens.model.table import Table


class DiffFactsVerb(Verb):
    """Compare the facts of two compilations.

    The exit status is 1 where something is worse: a gate for CI.
    """

    name = "diff"
    inputs = ("before", "after")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "before", metavar="A.json", help="facts, as written by kernel check -o A.json; or a bundle, as recorded"
        )
        parser.add_argument("after", metavar="B.json", help="the facts, or the bundle, that they are compared with")
        parser.add_argument("--allow-source", action="store_true",
                            help="compile the kernels of bundles, which runs their recorded sources")  # fmt: skip
        parser.add_argument("--all", action="store_true", help="also what did not change")
        add_rows(parser)

    def run(self, args: argparse.Namespace) -> int:
        from dataclasses import replace

        import polars as pl

        if is_run(args.before) and not args.before.endswith(".json"):
            tables = compare_runs(args)
        else:
            tables = compare_files(Path(args.before), Path(args.after))
        worse = sum(len(regressions(table)) for table in tables)
        if not args.all:
            is_changed = pl.col("verdict") != "same"
            tables = [replace(table, frame=table.frame.filter(is_changed)) for table in tables]
        if args.json or args.csv:
            tables = [replace(tables[0], frame=pl.concat([table.frame for table in tables]))]
        changed = [table for table in tables if len(table) or table.notes]
        for table in changed or tables[:1]:
            print_rows(table, args)
        if len(tables) > 1 and len(changed) < len(tables):
            note(f"{plural(len(tables) - len(changed), 'compilation')} without a difference; --all shows them")
        if worse:
            print_err(plural(worse, "regression"))
        return 1 if worse else 0


def compare_runs(args: argparse.Namespace) -> list[Table]:
    """The kernels of two recorded runs, with their mean times."""
    before, after = (checked_run(path, allow_source=args.allow_source) for path in (args.before, args.after))
    return compare_facts(
        [check.facts for check in before.checks],
        [check.facts for check in after.checks],
        [check.measured.mean_us if check.measured else None for check in before.checks],
        [check.measured.mean_us if check.measured else None for check in after.checks],
    )

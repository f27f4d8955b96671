"""`warplens unique`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from warplens.analyses import UNIT_TABLES
from warplens.cli.opening import inputs_of, note_warnings, open_job, open_timeline
from warplens.cli.options import add_outputs, add_rows, add_theme, add_trace
from warplens.cli.rank_choice import names_job
from warplens.cli.rows import print_rows
from warplens.cli.showing import themed
from warplens.outputs import plan_outputs, write
from warplens_run.base.errors import UsageError
from warplens_run.cli.printing import command_line, print_out, report_written
from warplens_run.cli.verb import Verb

if TYPE_CHECKING:
    from warplens.profiles.job import JobProfile
    from warplens.profiles.trace import Profile

KEPT_COLUMNS = {
    # by table: what is hidden last on a narrow terminal
    "unique_kernels": ("api", "ranks", "count", "total_us", "percent"),
    "units": ("op", "kernels", "count", "median_us", "percent"),
}


class UniqueVerb(Verb):
    """Count the unique kernels of a trace, by several definitions of unique, and show what could replay each.

    How many names there are, how many with their grids, how many ops with their inputs; how many of them take most of
    the time; and per kernel which API launches it again: a library, an op of PyTorch, an extension, a Triton source, a
    copy. Of a job one table: the kernels of all ranks, with the number of ranks that run each.
    """

    name = "unique"
    inputs = ("trace",)
    reads_jobs = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_trace(parser, jobs=True)
        parser.add_argument("--table", choices=("unique", "unique_kernels", "units"), help="only this table")
        add_outputs(parser, "x.html, x.xlsx, x.json, x.md", tables=True)
        add_theme(parser)
        add_rows(parser, "--table (default unique)")

    def run(self, args: argparse.Namespace) -> int:
        is_job = names_job(args)
        every = ("unique_kernels",) if is_job else tuple(UNIT_TABLES)
        names = [args.table] if args.table else list(every)
        if names[0] not in every:
            message = f"{args.table} is a table of one trace, not of a job"
            raise UsageError(message, hint="--rank N opens one of its ranks")
        targets = plan_outputs(args.output, tables=args.tables, force=args.force, names=names, inputs=inputs_of(args))
        profile: JobProfile | Profile = open_job(args) if is_job else open_timeline(args)
        note_warnings(profile)
        for target in targets:
            # The page is the trace's own, with these tables in it.
            contents = (*profile.report_names, *every) if target.output.name == "html" else names
            write(target, themed(profile.document(contents, command=command_line()), args))
        for number, name in enumerate(names[:1] if args.json or args.csv else names):
            print_out(end="\n" if number else "")
            print_rows(profile.table(name), args, keep=KEPT_COLUMNS.get(name, ()))
        report_written(args.output)
        return 0

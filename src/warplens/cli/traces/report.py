"""`warplens report`."""

from __future__ import annotations

import argparse

from warplens.cli.opening import inputs_of, open_profile
from warplens.cli.options import add_json, add_outputs, add_ranks, add_theme, add_top, add_trace
from warplens.cli.printing import command_line, report_written, show_text, themed, width
from warplens.cli.rows import print_json
from warplens.cli.verb import Verb


class ReportVerb(Verb):
    """Report where the time of a trace goes: a summary here, and every table in the files you name.

    Outputs are chosen by path: x.html (a page that opens from disk), x.xlsx, x.json, x.md, or a directory ending in /
    with one file per table (CSV, or Parquet with --tables parquet).
    """

    name = "report"
    inputs = ("trace",)
    reads_jobs = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_trace(parser, jobs=True)
        add_outputs(parser, "x.html, x.xlsx, x.json, x.md", tables=True)
        add_ranks(parser, "whose timelines the page has too, besides those that matter")
        add_theme(parser)
        add_top(parser, "the findings that --json prints")
        add_json(parser, "the findings, instead of the summary")
        parser.add_argument("-q", "--quiet", action="store_true", help="no summary, only the outputs")

    def run(self, args: argparse.Namespace) -> int:
        from warplens.model.finding import findings_table
        from warplens.outputs import plan_outputs, write
        from warplens.profiles.trace import TABLE_NAMES

        inputs = inputs_of(args)
        # Once before the work, so that a bad path is reported at once; and again for the tables that this profile has.
        plan_outputs(args.output, tables=args.tables, force=args.force, names=TABLE_NAMES, inputs=inputs)
        profile = open_profile(args)
        names = profile.report_names
        targets = plan_outputs(args.output, tables=args.tables, force=args.force, names=names, inputs=inputs)
        written = [
            path for target in targets for path in write(target, themed(profile.document(command=command_line()), args))
        ]
        if args.json:
            print_json(findings_table(profile.findings()), args.top)
        elif not args.quiet:
            from warplens.outputs.summary import render_summary

            show_text(render_summary(profile.document(), width=width(120), written=args.output))
        if args.quiet or args.json:
            report_written(args.output, len(written))
        return 0

"""Report where the time of a trace goes: a summary here, and every table in the files you name.

Outputs are chosen by path and may be given several times: x.html (a page that opens from disk), x.xlsx, x.json, x.md,
or a directory ending in / with one file per table (CSV, or Parquet with --tables parquet).
"""

from __future__ import annotations

import argparse
import sys

from warplens.cli.common import add_trace_options, command_line, inputs_of, open_profile, show_text, width, write_bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_trace_options(parser)
    parser.add_argument(
        "-o", "--output", action="append", default=[], metavar="PATH", help="file or directory/ to write"
    )
    parser.add_argument("--tables", choices=("csv", "parquet"), default="csv", help="files of a directory output")
    parser.add_argument("--force", action="store_true", help="overwrite existing outputs")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON instead of the summary")
    parser.add_argument("-q", "--quiet", action="store_true", help="no summary, only the outputs")


def run(args: argparse.Namespace) -> int:
    from warplens.model.finding import findings_table
    from warplens.outputs import plan_outputs, rows_to_json, write
    from warplens.profiles.trace import TABLE_NAMES

    inputs = inputs_of(args)
    # Once before the work, so that a bad path is told at once; and again for the tables that this profile has.
    plan_outputs(args.output, tables=args.tables, force=args.force, names=TABLE_NAMES, inputs=inputs)
    profile = open_profile(args)
    names = profile.report_names
    targets = plan_outputs(args.output, tables=args.tables, force=args.force, names=names, inputs=inputs)
    written = [path for target in targets for path in write(target, profile.document(command=command_line()))]
    if args.json:
        write_bytes(rows_to_json(findings_table(profile.findings())))
    elif not args.quiet:
        from warplens.outputs.summary import render_summary

        summary = render_summary(profile.document(), width=min(width(), 120), written=args.output)
        show_text(summary)
    if written and (args.quiet or args.json):
        print(f"wrote {', '.join(args.output)} ({len(written)} file{'s' * (len(written) != 1)})", file=sys.stderr)
    return 0

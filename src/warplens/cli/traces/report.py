"""`warplens report`."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from warplens.cli.opening import inputs_of, keep_report, open_profile, options_given, reopen, report_name
from warplens.cli.options import add_outputs, add_ranks, add_theme, add_trace
from warplens.cli.rows import print_json
from warplens.cli.showing import show_text, themed
from warplens.interrupts import ending_at_once
from warplens_run.cli.options import add_json, add_top
from warplens_run.cli.printing import command_line, report_written, width
from warplens_run.cli.verb import Verb

if TYPE_CHECKING:
    from warplens.model.table import Table
    from warplens.outputs import Document
    from warplens.profiles.opened import Opened


class ReportVerb(Verb):
    """Report where the time of a trace goes: a summary here, and every table in the files you name.

    Outputs are chosen by path: x.html (a page that opens from disk), x.xlsx, x.json, x.md, x.hatchet (call paths, for
    proton-viewer and Hatchet), or a directory ending in / with one file per table (CSV, or Parquet with --tables
    parquet).
    """

    name = "report"
    inputs = ("trace",)
    reads_jobs = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_trace(parser, jobs=True)
        add_outputs(parser, "x.html, x.xlsx, x.json, x.md, x.hatchet", tables=True)
        add_ranks(parser, "whose timelines the page has too, besides those that matter")
        add_theme(parser)
        add_top(parser, "the findings that --json prints")
        add_json(parser, "the findings, instead of the summary")
        parser.add_argument("-q", "--quiet", action="store_true", help="no summary, only the outputs")

    def run(self, args: argparse.Namespace) -> int:
        from warplens.outputs import plan_outputs, write

        name, inputs = report_name(args), inputs_of(args)
        profile = reopen(args, name)
        is_kept = profile is not None
        if profile is None:
            with ending_at_once():
                from warplens.profiles.trace import TABLE_NAMES

            # Once before the work, so that a bad path is reported at once.
            plan_outputs(args.output, tables=args.tables, force=args.force, names=TABLE_NAMES, inputs=inputs)
            profile = open_profile(args)
        names = profile.report_names
        targets = plan_outputs(args.output, tables=args.tables, force=args.force, names=names, inputs=inputs)
        document = _document(profile, args)
        written = [path for target in targets for path in write(target, document)]
        self._print(args, profile, document)
        if args.quiet or args.json:
            report_written(args.output, len(written))
        if not is_kept:
            keep_report(name, profile)
        return 0

    def _print(self, args: argparse.Namespace, profile: Opened, document: Document) -> None:
        if args.json:
            print_json(_findings(profile), args.top)
        elif not args.quiet:
            from warplens.outputs.summary import render_summary

            show_text(render_summary(document, width=width(120), written=args.output))


def _document(profile: Opened, args: argparse.Namespace) -> Document:
    """Of the profile as it was opened: the commands that it proposes have the same options."""
    document = themed(profile.document(command=command_line()), args)
    given = options_given(args)
    commands = (
        command if command.startswith("warplens explain ") else " ".join([command, *given])
        for command in document.answer.next
    )
    return replace(document, answer=replace(document.answer, next=tuple(commands)))


def _findings(profile: Opened) -> Table:
    if "findings" in profile.report_names:
        return profile.table("findings")
    from warplens.model.finding import findings_table

    return findings_table(profile.findings())

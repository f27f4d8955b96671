"""`warplens replay export-cpp`."""

from __future__ import annotations

import argparse
from pathlib import Path

from warplens.replay.cpp import export
from warplens_run.base.files import check_inputs
from warplens_run.base.units import plural
from warplens_run.cli.files import folder_to_write
from warplens_run.cli.options import add_output
from warplens_run.cli.printing import print_err
from warplens_run.cli.verb import Verb
from warplens_run.formats import replay_plan as plan_file


class ExportCppVerb(Verb):
    """Write a plan as a C++ project."""

    name = "export-cpp"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("plan", metavar="PLAN", help="plan to export")
        add_output(parser, "the project to this folder", metavar="DIR", required=True)
        parser.add_argument("--readable", action="store_true", help="each unit also as a plain at:: call")

    def run(self, args: argparse.Namespace) -> int:
        path, folder = Path(args.plan), folder_to_write(args.output)
        check_inputs([folder / "plan.json"], [path])
        written = export(plan_file.load(path), folder, readable=args.readable, force=args.force)
        count = plural(len(written), "file")
        print_err(f"wrote {count} to {args.output}; its README.md has the build command")
        return 0

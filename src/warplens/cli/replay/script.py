"""`warplens replay script`."""

from __future__ import annotations

import argparse

from warplens.replay.script import unit_script
from warplens_run.base.errors import UsageError
from warplens_run.base.files import check_free, write_whole
from warplens_run.cli.files import file_to_write, plan_to_read
from warplens_run.cli.options import SEVERAL, add_output
from warplens_run.cli.printing import report_written, write_bytes
from warplens_run.cli.verb import Verb
from warplens_run.formats import replay_plan as plan_file
from warplens_run.replay.options import MODULE


class ScriptVerb(Verb):
    """Write one unit of a plan as a plain Python file: for a bug report or a notebook.

    It builds the inputs and calls the op or launches the kernel, with nothing but PyTorch and Triton.
    """

    name = "script"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("plan", metavar="PLAN", help="plan that has the unit")
        parser.add_argument("--unit", required=True, metavar="u7", help="unit to write")
        parser.add_argument(
            "--import", dest="imports", action="append", default=[], metavar="MODULE",
            help=f"allow the ops of a module besides those of aten and prims, and import it; {SEVERAL}",
        )  # fmt: skip
        add_output(parser, "the file instead of printing it", metavar="FILE.py")

    def run(self, args: argparse.Namespace) -> int:
        path = plan_to_read(args.plan)
        target = file_to_write(args.output, ending=".py", inputs=[path]) if args.output else None
        if target is not None:
            check_free([target], force=args.force)
        if not all(map(MODULE.fullmatch, args.imports)):
            raise UsageError("--import takes names of modules")
        text = unit_script(plan_file.load(path), args.unit, args.imports).encode()
        if target is None:
            write_bytes(text)
        else:
            write_whole(target, text, force=args.force)
            report_written([str(target)])
        return 0

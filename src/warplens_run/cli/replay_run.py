"""`warplens replay run`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from warplens_run.base.errors import WarplensError
from warplens_run.base.units import listed, plural
from warplens_run.cli.files import file_to_write, plan_to_read
from warplens_run.cli.measuring import UNSET, add_measuring, add_running, run_options
from warplens_run.cli.printing import print_err, print_out, report_written, width
from warplens_run.cli.progress import progress_bar
from warplens_run.cli.verb import Verb
from warplens_run.replay.supervisor import run_plan
from warplens_run.replay.text import summary

if TYPE_CHECKING:
    from pathlib import Path

    from warplens_run.formats.replay_result import ReplayResult


class RunVerb(Verb):
    """Run a plan on a GPU: whether the same kernels run, their time and their energy.

    Finished units are not repeated: the same command continues an interrupted run.
    """

    name = "run"
    runs_programs = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add = parser.add_argument
        add("plan", metavar="PLAN", help="plan to run")
        add("-o", "--output", default="", metavar="RESULT", help="result to write (default: PLAN with .result.json)")
        add("--units", type=_unit_names, default=UNSET, metavar="u1,u2", help="only these units of the plan")
        add_running(parser)
        add("--fresh", action="store_true",
            help="start over and replace an earlier result, even of another plan, GPU or options")  # fmt: skip
        add("-q", "--quiet", action="store_true", help="no table at the end")
        add_measuring(parser)

    def run(self, args: argparse.Namespace) -> int:
        plan = plan_to_read(args.plan)
        default = plan.with_name(plan.name.removesuffix(".json") + ".result.json")
        output = file_to_write(args.output or str(default), inputs=[plan])
        if args.allow_source:
            warning = "--allow-source runs the kernel code in the plan; use it only with plans you trust"
            print_err(f"warning: {warning}")
        try:
            with progress_bar() as show_progress:
                result = run_plan(plan, output, run_options(args), show_progress, fresh=args.fresh)
        except KeyboardInterrupt:
            if output.exists():
                print_err(f"finished units are in {output}; the same command continues with the rest")
            raise
        if not args.quiet:
            print_out(summary(result, width()))
        report_written([str(output)])
        if not args.quiet:
            print_err(f"all tables: warplens replay show {output}")
        _refuse_failures(result, output)
        return 0


def _refuse_failures(result: ReplayResult, output: Path) -> None:
    """A run in which units failed is not a success, though all the others are in its result."""
    hint = f"reasons: warplens replay show {output} replay_left"
    failed = [unit.id for unit in result.units if unit.status == "failed"]
    if failed:
        more = [f"{len(failed) - 3} more"] if len(failed) > 3 else []
        raise WarplensError(f"{plural(len(failed), 'unit')} failed: {listed([*failed[:3], *more])}", hint=hint)
    if result.units and not any(unit.status == "done" for unit in result.units):
        raise WarplensError("no unit of the plan ran", hint=hint)


def _unit_names(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if not names:
        raise argparse.ArgumentTypeError(f"{text!r} names no unit")
    return names

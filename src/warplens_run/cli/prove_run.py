"""`warplens prove run`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from warplens_run.base.errors import WarplensError
from warplens_run.cli.files import file_to_write, plan_to_read
from warplens_run.cli.measuring import add_measuring, add_running, run_options
from warplens_run.cli.printing import print_err, print_out, report_written
from warplens_run.cli.progress import progress_bar
from warplens_run.cli.prove_show import proof_lines
from warplens_run.cli.verb import Verb
from warplens_run.proof.supervisor import run_proof

if TYPE_CHECKING:
    from warplens_run.formats.proof_result import ProofResult

PLAN_ENDING = ".plan.json"


class RunProofVerb(Verb):
    """Run a proof plan on a GPU: time, energy and outputs before and after each change.

    Finished units are not repeated: the same command continues an interrupted run.
    """

    name = "run"
    runs_programs = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add = parser.add_argument
        add("plan", metavar="PLAN", help="plan to run")
        add(
            "-o",
            "--output",
            default="",
            metavar="PROOF",
            help="proof to write (default: PLAN without .plan, or with .proof)",
        )
        add_running(parser)
        add("--fresh", action="store_true", help="start over instead of continuing an interrupted run")
        add_measuring(parser)

    def run(self, args: argparse.Namespace) -> int:
        plan = plan_to_read(args.plan)
        output = file_to_write(args.output or str(_default_output(plan)), inputs=[plan])
        result = run_experiments(plan, output, args)
        print_out("\n".join(proof_lines(result)))
        report_written([str(output)])
        print_err(f"next: warplens report {result.trace} --proof {output}")
        return 0


def _default_output(plan: Path) -> Path:
    """`proof.json` for `proof.plan.json`, `x.proof.json` for any other `x.json`."""
    stem = plan.name.removesuffix(PLAN_ENDING)
    return plan.with_name(f"{stem}.json" if stem != plan.name else plan.name.removesuffix(".json") + ".proof.json")


def run_experiments(plan: Path, output: Path, args: argparse.Namespace) -> ProofResult:
    """The proof; it is a failure if no experiment could be run at all."""
    try:
        with progress_bar() as show_progress:
            result = run_proof(plan, output, run_options(args), show_progress, fresh=args.fresh)
    except KeyboardInterrupt:
        print_err("the same command continues with what is left")
        raise
    variants = [variant for experiment in result.experiments for variant in experiment.variants]
    if variants and not any(variant.swaps for variant in variants):
        failure = variants[0].failures[0]
        hint = "--allow-source runs it" if "allow_source" in failure else ""
        raise WarplensError(f"no experiment could be run: {failure}", hint=hint)
    return result

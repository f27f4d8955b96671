"""`warplens prove TRACE`: plan, run and advise."""

from __future__ import annotations

import argparse

from warplens.cli.opening import inputs_of, note_warnings, open_timeline
from warplens.cli.options import add_trace
from warplens.cli.proving.plan import experiment_lines, proof_plan
from warplens.cli.showing import show_text
from warplens.cli.traces.advise import advice_text
from warplens_run.base.units import plural
from warplens_run.cli.files import file_to_write
from warplens_run.cli.measuring import add_measuring, add_running
from warplens_run.cli.printing import print_err, print_out, report_written, width
from warplens_run.cli.prove_run import PLAN_ENDING, run_experiments
from warplens_run.cli.verb import Verb
from warplens_run.formats import proof_plan as plan_file


class ProveAllVerb(Verb):
    """Plan and run the experiments for a trace's findings, and advise with what was measured.

    Needs the trace, a GPU and PyTorch on one host; `prove plan` and `prove run` do it on two. `all` can be left out.
    """

    name = "all"
    inputs = ("trace",)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_trace(parser)
        parser.add_argument("-o", "--output", default="proof.json", metavar="PROOF",
                            help="proof to write (default proof.json); its plan is written beside it")  # fmt: skip
        add_running(parser)
        parser.add_argument("--fresh", action="store_true", help="start over instead of continuing an interrupted run")
        add_measuring(parser)

    def run(self, args: argparse.Namespace) -> int:
        output = file_to_write(args.output, inputs=inputs_of(args))
        plan_path = output.with_name(output.name.removesuffix(".json") + PLAN_ENDING)
        profile = open_timeline(args)
        note_warnings(profile)
        plan = proof_plan(profile, args)
        if not any(experiment.variants for experiment in plan.experiments):
            print_out("\n".join(experiment_lines(plan)))
            return 0
        plan_file.save(plan_path, plan)
        if plan.replay.sources and not args.allow_source:
            count = plural(len(plan.replay.sources), "kernel source")
            print_err(f"note: {count} of the program will not run without --allow-source")
        run_experiments(plan_path, output, args)
        args.proof = str(output)
        proved = open_timeline(args)
        show_text(advice_text(proved, width(120)))
        report_written([str(plan_path), str(output)])
        return 0

"""`warplens prove plan`."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from warplens.cli.opening import inputs_of, note_warnings, open_timeline
from warplens.cli.options import add_trace
from warplens.cli.progress import spinner
from warplens.profiles.options import parse_size
from warplens.profiles.what_if import members
from warplens.proof.experiments import make_proof_plan
from warplens_run.base.files import check_free
from warplens_run.base.units import plural
from warplens_run.cli.files import file_to_write
from warplens_run.cli.options import add_output
from warplens_run.cli.printing import print_err, print_out, report_written
from warplens_run.cli.verb import Verb
from warplens_run.formats import proof_plan as plan_file

if TYPE_CHECKING:
    from warplens.profiles.trace import Profile
    from warplens_run.formats.proof_plan import ProofPlan


class PlanProofVerb(Verb):
    """Plan experiments for the findings of a trace: what to run before and after each change.

    Needs neither a GPU nor PyTorch. Each op of a finding is a unit that can run alone, as in a replay plan; findings
    for which nothing can be run say why. With --allow-source also for what the kernel lab suggests for the trace's
    Triton kernels, which needs the triton package.
    """

    name = "plan"
    inputs = ("trace",)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_trace(parser)
        add_output(parser, "the plan", metavar="PLAN", default="proof.plan.json")
        parser.add_argument("--allow-source", action="store_true",
                            help="compile the trace's Triton kernels, which runs their sources, and plan what the "
                            "kernel lab suggests for them")  # fmt: skip

    def run(self, args: argparse.Namespace) -> int:
        target = file_to_write(args.output, inputs=inputs_of(args))
        check_free([target], force=args.force)
        profile = open_timeline(args)
        note_warnings(profile)
        plan = proof_plan(profile, args)
        plan_file.save(target, plan, force=args.force)
        print_out("\n".join(experiment_lines(plan)))
        report_written([str(target)])
        if any(experiment.variants for experiment in plan.experiments):
            command = f"warplens prove run {shlex.quote(args.output)}" + " --allow-source" * bool(plan.replay.sources)
            print_err(f"next, on a host with a GPU and PyTorch: {command}")
        return 0


def proof_plan(profile: Profile, args: argparse.Namespace) -> ProofPlan:
    """The experiments for what the profile finds."""
    with spinner("planning; compiling Triton kernels takes some seconds each", is_slow=args.allow_source):
        return make_proof_plan(
            profile.workspace,
            Path(args.trace),
            profile.findings(),
            members(profile.workspace, profile.table),
            allow_source=args.allow_source,
            max_bytes=parse_size(args.max_size),
        )


def experiment_lines(plan: ProofPlan) -> list[str]:
    """One line per finding, and one per variant or with the reason why there is none."""
    lines: list[str] = []
    for experiment in plan.experiments:
        lines.append(f"{experiment.finding}  {experiment.title}")
        lines += [
            f"    {variant.name}: {plural(len(variant.swaps), 'change')} to run" for variant in experiment.variants
        ]
        if experiment.reason:
            lines.append(f"    not run: {experiment.reason}")
    notes = [f"note: {note}" for note in plan.notes]
    return [*(lines or ["no findings: there is nothing to prove"]), *notes]

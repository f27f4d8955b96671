"""`warplens prove show`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from warplens_run.cli.options import add_json, add_top
from warplens_run.cli.printing import print_out, write_bytes
from warplens_run.cli.verb import Verb
from warplens_run.formats import proof_result as result_file

if TYPE_CHECKING:
    from warplens_run.formats.proof_result import ExperimentResult, ProofResult, VariantResult


class ShowProofVerb(Verb):
    """Show what was measured of each finding."""

    name = "show"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("proof", metavar="PROOF", help="proof to show")
        add_top(parser, "the variants that --json prints")
        add_json(parser, "the variants")

    def run(self, args: argparse.Namespace) -> int:
        result = result_file.load(Path(args.proof))
        if args.json:
            write_bytes((json.dumps(variant_rows(result)[: args.top], ensure_ascii=False, indent=1) + "\n").encode())
        else:
            print_out("\n".join(proof_lines(result)))
        return 0


def variant_rows(result: ProofResult) -> list[dict[str, object]]:
    """One row per variant of each experiment."""
    return [_row(experiment, variant) for experiment in result.experiments for variant in experiment.variants]


def _row(experiment: ExperimentResult, variant: VariantResult) -> dict[str, object]:
    joules, difference, step = variant.joules, variant.difference, variant.whole_step
    return {
        "finding": experiment.finding,
        "place": experiment.place,
        "variant": variant.name,
        "status": variant.status,
        "gpu_ms_before": variant.before_ns / 1e6 if variant.swaps else None,
        "gpu_ms_after": variant.after_ns / 1e6 if variant.swaps else None,
        "step_ms_before": step.before.ns / 1e6 if step else None,
        "step_ms_after": step.after.ns / 1e6 if step else None,
        "joules_before": joules[0] if joules else None,
        "joules_after": joules[1] if joules else None,
        "is_equal": difference.is_equal if difference else None,
        "largest_difference": difference.relative if difference else None,
        "largest_absolute_difference": difference.absolute if difference else None,
        "failures": list(variant.failures),
        "notes": list(variant.notes),
    }


def proof_lines(result: ProofResult) -> list[str]:
    """Plain text: GPU hosts may have nothing but Python."""
    lines = [f"on {result.device}" + (", per step" if result.per_step else "")]
    for experiment in result.experiments:
        lines.append(f"{experiment.finding}  {experiment.title}")
        lines += [line for variant in experiment.variants for line in _variant_lines(variant)]
        if experiment.reason:
            lines.append(f"    not run: {experiment.reason}")
    return [*lines, *(f"note: {note}" for note in result.notes)]


def _variant_lines(variant: VariantResult) -> list[str]:
    failures = [f"        failed: {failure}" for failure in variant.failures]
    if not variant.swaps:
        return [f"    {variant.name}: could not be run", *failures]
    parts = [f"{variant.before_ns / 1e6:.3f} → {variant.after_ns / 1e6:.3f} ms"]
    if step := variant.whole_step:
        parts.append(f"{step.before.ns / 1e6:.3f} → {step.after.ns / 1e6:.3f} ms for all calls of the step")
    if variant.joules is not None:
        parts.append(f"{variant.joules[0]:.3g} → {variant.joules[1]:.3g} J")
    difference = variant.difference
    if difference is not None:
        words = f"outputs differ by up to {difference.relative:.1g} of the largest"
        parts.append("outputs equal" if difference.is_equal else words)
    notes = [f"        {note}" for note in variant.notes]
    return [f"    {variant.name}: {', '.join(parts)}", *notes, *failures]

"""What both sides of a swap give for the same inputs, found in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from warplens.errors import FormatError
from warplens.proof.plan_file import ProofPlan, Swap
from warplens.proof.result_file import Difference
from warplens.replay.records import decode
from warplens.replay.running.options import RunOptions
from warplens.replay.running.process import environment

START_SECONDS: Final = 300.0


@dataclass(frozen=True)
class ComparedOutputs:
    """How far they differ, or why that is not known."""

    difference: Difference | None = None
    reason: str = ""


Outputs = dict[Swap, ComparedOutputs]


def compare_outputs(
    plan_path: Path, plan: ProofPlan, options: RunOptions, report: Callable[[str], None] = lambda variant: None
) -> Outputs:
    """Of every swap that has a reference; one process per variant, since a fault on the GPU ends it.

    `report` is called with the name of each variant before it is compared, and with none at the end.
    """
    outputs: Outputs = {}
    for experiment, place in plan.compared():
        variant = plan.experiments[experiment].variants[place]
        report(variant.name)
        swaps = [swap for swap in variant.swaps if swap.reference]
        answers = _answers(plan_path, experiment, place, len(swaps), options)
        outputs |= dict(zip(swaps, answers, strict=True))
    report("")
    return outputs


def _answers(plan_path: Path, experiment: int, variant: int, count: int, options: RunOptions) -> list[ComparedOutputs]:
    words = [str(plan_path.resolve()), str(experiment), str(variant), options.device, str(options.seed)]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "warplens.proof.running.comparing", *words],
            capture_output=True,
            text=True,
            encoding="utf-8",
            env=environment(),
            timeout=START_SECONDS + count * options.unit_timeout,
            check=False,
        )
        lines, ending = done.stdout.splitlines(), f"its process ended with {done.returncode}"
    except subprocess.TimeoutExpired as error:
        lines, ending = _text(error.stdout).splitlines(), "its process took too long"
    answers = [_answer(line) for line in lines[:count]]
    return [*answers, *[ComparedOutputs(reason=ending)] * (count - len(answers))]


def _text(output: str | bytes | None) -> str:
    return output.decode("utf-8", "replace") if isinstance(output, bytes) else output or ""


def _answer(line: str) -> ComparedOutputs:
    try:
        return decode(ComparedOutputs, json.loads(line))
    except (ValueError, FormatError) as error:
        return ComparedOutputs(reason=f"its process answered with something else ({error})")

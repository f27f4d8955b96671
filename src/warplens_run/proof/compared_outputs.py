"""What both sides of a swap give for the same inputs, found in a process of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from warplens_run.base.errors import FormatError
from warplens_run.formats.proof_plan import ProofPlan, Swap
from warplens_run.formats.proof_result import Difference
from warplens_run.formats.records import decode
from warplens_run.processes.child import Child, ChildEnded
from warplens_run.replay.options import RunOptions

START_SECONDS: Final = 300.0


@dataclass(frozen=True)
class ComparedOutputs:
    """How far they differ, or why that is not known."""

    difference: Difference | None = None
    reason: str = ""


Outputs = dict[Swap, ComparedOutputs]


def compare_outputs(
    plan_path: Path, plan: ProofPlan, options: RunOptions, report: Callable[[str], None] = lambda unit: None
) -> Outputs:
    """Of every swap that has a reference. A fault on the GPU ends the process: the others go on in a new one.

    `report` is called with the first unit of each swap before it is compared, and with none at the end.
    """
    waiting = plan.compared()
    outputs: Outputs = {}
    while waiting:
        words = [str(plan_path.resolve()), options.device, str(options.seed)]
        with TemporaryDirectory(prefix="warplens-") as folder:
            words += [folder if options.allow_source else "", ",".join(options.imports), *waiting]
            with Child("warplens_run.proof.comparing", *words) as child:
                for place, swap in list(waiting.items()):
                    report(swap.after[0].unit)
                    del waiting[place]
                    try:
                        outputs[swap] = _answer(child.receive(START_SECONDS + options.unit_timeout))
                    except (TimeoutError, ChildEnded) as error:
                        outputs[swap] = ComparedOutputs(reason=str(error))
                        break
    report("")
    return outputs


def _answer(line: str) -> ComparedOutputs:
    try:
        return decode(ComparedOutputs, json.loads(line))
    except (ValueError, FormatError) as error:
        return ComparedOutputs(reason=f"its process answered with something else ({error})")

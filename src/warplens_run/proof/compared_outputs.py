"""What both sides of a swap give for the same inputs, found in a process of its own."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from warplens_run.base.errors import FormatError
from warplens_run.base.temporary import temporary_folder
from warplens_run.formats.proof_plan import Swap
from warplens_run.formats.proof_result import Difference
from warplens_run.formats.records import decode
from warplens_run.processes.child import Child, ChildEnded
from warplens_run.replay.options import RunOptions
from warplens_run.replay.supervisor import LEAST_SECONDS, not_reached

START_SECONDS: Final = 300.0


@dataclass(frozen=True)
class ComparedOutputs:
    """How far they differ, or why that is not known."""

    difference: Difference | None = None
    reason: str = ""


Outputs = dict[Swap, ComparedOutputs]


def compare_outputs(
    plan_path: Path,
    swaps: Mapping[str, Swap],
    options: RunOptions,
    report: Callable[[str], None] = lambda unit: None,
    deadline: float = math.inf,
) -> Outputs:
    """Of every swap, by its place in the plan. A fault on the GPU ends the process: the others go on in a new one.

    After the `deadline` (of `time.monotonic()`) no more are compared. `report` is called with the first unit of each
    swap before it is compared, and with none at the end.
    """
    waiting = dict(swaps)
    outputs: Outputs = {}
    while waiting and time.monotonic() < deadline:
        words = [str(plan_path.resolve()), options.device, str(options.seed)]
        with temporary_folder() as folder:
            words += [folder if options.allow_source else "", ",".join(options.imports), *waiting]
            with Child("warplens_run.proof.comparing", *words) as child:
                for place, swap in list(waiting.items()):
                    if time.monotonic() >= deadline:
                        break
                    report(swap.after[0].unit)
                    del waiting[place]
                    limit = START_SECONDS + options.unit_timeout
                    left = max(deadline - time.monotonic(), LEAST_SECONDS)
                    try:
                        outputs[swap] = _answer(child.receive(min(limit, left)))
                    except (TimeoutError, ChildEnded) as error:
                        is_late = isinstance(error, TimeoutError) and left < limit
                        reason = not_reached(options.seconds) if is_late else str(error)
                        outputs[swap] = ComparedOutputs(reason=reason)
                        break
    outputs |= dict.fromkeys(waiting.values(), ComparedOutputs(reason=not_reached(options.seconds)))
    report("")
    return outputs


def _answer(line: str) -> ComparedOutputs:
    try:
        return decode(ComparedOutputs, json.loads(line))
    except (ValueError, FormatError) as error:
        return ComparedOutputs(reason=f"its process answered with something else ({error})")

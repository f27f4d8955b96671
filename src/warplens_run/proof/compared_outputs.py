"""What both sides of a swap give for the same inputs, found in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from warplens_run.base.errors import FormatError
from warplens_run.formats.proof_plan import ProofPlan, Swap
from warplens_run.formats.proof_result import Difference
from warplens_run.formats.records import decode
from warplens_run.replay.options import RunOptions
from warplens_run.replay.process import environment

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
        with _comparing(plan_path, list(waiting), options) as process:
            for place, swap in list(waiting.items()):
                report(swap.after[0].unit)
                line = process.line(START_SECONDS + options.unit_timeout)
                del waiting[place]
                outputs[swap] = _answer(line) if line else ComparedOutputs(reason=process.ending())
                if not line:
                    break
    report("")
    return outputs


class ComparingProcess:
    """Its lines, each of which must come within a time."""

    def __init__(self, words: list[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "warplens_run.proof.comparing", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env=environment(),
        )
        self._is_late = False

    def line(self, seconds: float) -> str:
        """Empty where it has ended."""
        timer = threading.Timer(seconds, self._stop)
        timer.start()
        try:
            return self._process.stdout.readline() if self._process.stdout is not None else ""
        finally:
            timer.cancel()

    def _stop(self) -> None:
        self._is_late = True
        self._process.kill()

    def ending(self) -> str:
        status = self._process.wait()
        return "its process took too long" if self._is_late else f"its process ended with {status}"

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


@contextmanager
def _comparing(plan_path: Path, places: list[str], options: RunOptions) -> Iterator[ComparingProcess]:
    with TemporaryDirectory(prefix="warplens-") as folder:
        sources = folder if options.allow_source else ""
        words = [str(plan_path.resolve()), options.device, str(options.seed), sources, ",".join(options.imports)]
        process = ComparingProcess([*words, *places])
        try:
            yield process
        finally:
            process.close()


def _answer(line: str) -> ComparedOutputs:
    try:
        return decode(ComparedOutputs, json.loads(line))
    except (ValueError, FormatError) as error:
        return ComparedOutputs(reason=f"its process answered with something else ({error})")

"""Which of several calls of a unit is the one in the trace: the first that launches the right kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warplens_run.formats.replay_plan import Unit
from warplens_run.replay import kernels
from warplens_run.replay.graphs import Candidate, OpCall
from warplens_run.replay.inputs import Inputs
from warplens_run.replay.same import difference
from warplens_run.replay.timing import WARM_UPS


@dataclass(frozen=True)
class WorkingCall:
    """A candidate that runs without an error, bound to its inputs."""

    candidate: Candidate
    call: OpCall


def working_calls(candidates: Sequence[Candidate], inputs: Inputs, synchronize: OpCall) -> list[WorkingCall]:
    """Those that run without an error, warmed up. Where none does, the first one's error is raised."""
    working: list[WorkingCall] = []
    first: Exception | None = None
    for candidate in candidates:
        try:
            call = candidate(inputs)
            for _ in range(WARM_UPS):
                inputs.reset()
                call()
            synchronize()
        except Exception as error:  # noqa: BLE001 - any op may raise anything, and another choice may not
            first = first or error
        else:
            working.append(WorkingCall(candidate, call))
    if not working:
        raise first or ValueError("nothing to choose from")
    return working


def first_matching_trace(candidates: Sequence[WorkingCall], unit: Unit, inputs: Inputs, folder: Path) -> WorkingCall:
    """The first whose launches are the plan's; else the first of all."""
    if len(candidates) == 1:
        return candidates[0]
    launched = kernels.record(lambda mark: _run_each(candidates, inputs, mark), folder)
    # Configurations of one generated kernel can differ in nothing but the size of a block.
    blocks = unit.triton is not None
    alike = (
        working
        for number, working in enumerate(candidates)
        if not difference(unit.kernels, launched.get(number, ()), blocks)
    )
    return next(alike, candidates[0])


def _run_each(candidates: Sequence[WorkingCall], inputs: Inputs, mark: Any) -> None:
    for number, working in enumerate(candidates):
        inputs.reset()
        with mark(number):
            working.call()

"""Which of several ways to call a unit is the one of the trace: the first that launches the right kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warplens.replay.plan_file import Unit
from warplens.replay.running import kernels
from warplens.replay.running.graphs import Candidate, OpCall
from warplens.replay.running.inputs import Inputs
from warplens.replay.running.same import difference
from warplens.replay.running.timing import WARM_UPS


@dataclass(frozen=True)
class Way:
    """A way that ran."""

    candidate: Candidate
    call: OpCall


def ways(candidates: Sequence[Candidate], inputs: Inputs, synchronize: OpCall) -> list[Way]:
    """Those that run without an error, warmed up. Where none does, the first one's error is raised."""
    found: list[Way] = []
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
            found.append(Way(candidate, call))
    if not found:
        raise first or ValueError("nothing to choose from")
    return found


def first_like_the_trace(found: Sequence[Way], unit: Unit, inputs: Inputs, folder: Path) -> Way:
    """The first whose launches are the plan's; else the first of all."""
    if len(found) == 1:
        return found[0]
    launched = kernels.record(lambda mark: _each_once(found, inputs, mark), folder)
    # Configurations of one generated kernel can differ in nothing but the size of a block.
    blocks = unit.triton is not None
    alike = (way for place, way in enumerate(found) if not difference(unit.kernels, launched.get(place, ()), blocks))
    return next(alike, found[0])


def _each_once(found: Sequence[Way], inputs: Inputs, mark: Any) -> None:
    for place, way in enumerate(found):
        inputs.reset()
        with mark(place):
            way.call()

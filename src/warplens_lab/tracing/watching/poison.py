"""Poison: values that are undefined on a GPU, followed from the load to where they matter.

A lane that a mask switches off without `other=`, and memory that nothing has written, are undefined. The interpreter
has zeros there, which hide the mistake of using them. Beside the values goes an array of marks: 0 where a value is
defined, else a bit for each load that it came from. It is made when such a load happens, and a kernel without one pays
nothing. `interpreter/poison_taps.py` hands it on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from warplens_lab.tracing.records import Fault
from warplens_lab.tracing.watching.faults import Program, program_text
from warplens_lab.tracing.watching.remedies import FILL, INITIALISE

if TYPE_CHECKING:
    from warplens_lab.tracing.watching.recorder import Recorder

Mark = np.uint32
Marks = npt.NDArray[np.uint32]
Bools = npt.NDArray[np.bool_]
POISON: Final = "warplens_poison"
MOST_ORIGINS: Final = 32
"""Loads beyond share the last bit."""
MASKED: Final = "masked_lane_used"
NEVER_WRITTEN: Final = "uninitialised_read"


@dataclass(frozen=True)
class Load:
    """Undefined lanes of one load: described only when one of them is used."""

    tag: int | None
    pointers: npt.NDArray[np.uint64]
    lanes: Bools
    itemsize: int


@dataclass
class Origin:
    """A statement whose load gave undefined values: the first of the present program, and how many lanes since."""

    kind: str
    site: int
    first: Load
    tensor: int
    program: Program
    lanes: int = 0


class Poison:
    """Marks loads, and reports those whose values are used."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._origins: dict[tuple[str, int, int], int] = {}
        self._listed: list[Origin] = []

    def mark(self, kind: str, load: Load) -> int:
        """The mark of such values."""
        site, program = self.recorder.sites.running(), self.recorder.program
        address = int(load.pointers.reshape(-1)[int(load.lanes.argmax())])
        tensor, _ = self.recorder.memory.owner(load.tag, address)
        at = self._origins.get((kind, site, tensor))
        if at is None:
            at = min(len(self._listed), MOST_ORIGINS - 1)
            self._origins[kind, site, tensor] = at
            if at == len(self._listed):
                self._listed.append(Origin(kind, site, load, tensor, program))
        origin = self._listed[at]
        if origin.program != program or not origin.lanes:
            origin.first, origin.program, origin.lanes = load, program, 0
        origin.lanes += int(np.count_nonzero(load.lanes))
        return 1 << at

    def used(self, marks: Marks, use: str) -> None:
        """Values with these marks are used by the running statement, as `use` says."""
        together = int(np.bitwise_or.reduce(marks, axis=None))
        for at, origin in enumerate(self._listed):
            if together >> at & 1 and origin.lanes and origin.program == self.recorder.program:
                fault = self._fault(origin, use)
                origin.lanes = 0  # once in a program is enough
                self.recorder.report(fault)

    def _fault(self, origin: Origin, use: str) -> Fault:
        recorder, load = self.recorder, origin.first
        site, program = recorder.sites.running(), recorder.program
        line, used_at = recorder.sites.line(origin.site), recorder.sites.line(site)
        lane = tuple(int(at) for at in np.unravel_index(int(load.lanes.argmax()), load.lanes.shape))
        spot = recorder.checks.spot(origin.tensor, load.pointers, lane, load.itemsize)
        where = f"{use} at line {used_at}"
        if origin.kind == MASKED:
            loads = f"{program_text(program)} loads {spot.tensor} at line {line}"
            message = f"{loads} with lanes switched off and no other=: their undefined values {where}"
            remedy = FILL.format(line, used_at)
        else:
            message = f"{program_text(program)} loads {spot.text}, which nothing has written: it {_once(where)}"
            remedy = INITIALISE.format(spot.tensor, line)
        return Fault(
            origin.kind,
            origin.site,
            "load",
            spot.tensor,
            program,
            spot.index,
            lane,
            message,
            origin.lanes,
            other_site=site,
            place=spot.place,
            remedy=remedy,
        )


def _once(use: str) -> str:
    """
    >>> _once("reach out_ptr[3] at line 5"), _once("decide a branch")
    ('reaches out_ptr[3] at line 5', 'decides a branch')
    """
    first, _, rest = use.partition(" ")
    return f"{first}{'es' if first.endswith('ch') else 's'} {rest}"


def marks_of(handle: Any) -> Marks | None:
    marks: Marks | None = getattr(handle, POISON, None)
    return marks


def put(handle: Any, marks: Marks) -> None:
    """Marks go with the value, in its shape."""
    shape = handle.data.shape
    if marks.shape != shape:
        marks = np.broadcast_to(marks, shape) if marks.size != handle.data.size else marks.reshape(shape)
    setattr(handle, POISON, marks)


def joined(*marks: Marks | None) -> Marks | None:
    """Undefined where any of them is."""
    result: Marks | None = None
    for each in marks:
        if each is not None:
            result = each if result is None else result | each
    return result

"""Where poison comes in, and where it matters: loads, stores and atomics."""

from __future__ import annotations

from typing import Any

import numpy as np

from warplens_lab.tracing.interpreter.poison_taps import PoisonTaps
from warplens_lab.tracing.watching.poison import (
    MASKED,
    NEVER_WRITTEN,
    Load,
    Mark,
    Marks,
    Poison,
    joined,
    marks_of,
    put,
)
from warplens_lab.tracing.watching.recorder import Recorder


class PoisonedAccesses:
    """Called by the taps with what they tapped; most calls of a kernel without poison end at their first line."""

    def __init__(self, interpreter: Any, recorder: Recorder) -> None:
        self.recorder = recorder
        self.poison = Poison(recorder)
        self.taps = PoisonTaps(interpreter, self.poison)

    def loaded(self, result: Any, pointers: Any, mask: Any, other: Any, tag: int | None) -> None:
        recorder = self.recorder
        if not (self.taps.installed or recorder.undefined is not None or (other is None and recorder.switched_off)):
            return
        if not recorder.options.checks:
            return
        lanes = _lanes(mask, pointers.data.shape)
        if self.taps.installed:
            self._decides(pointers, mask, lanes, "a load")
        marks: list[Marks | None] = [marks_of(mask)]
        if other is None and recorder.switched_off:
            marks.append(self._marks(MASKED, pointers, ~lanes, result, tag))
        elif (own := marks_of(other)) is not None:
            marks.append(np.where(lanes, Mark(0), own))
        if recorder.undefined is not None:
            marks.append(self._marks(NEVER_WRITTEN, pointers, recorder.undefined, result, tag))
        together = joined(*marks)
        if together is not None and together.any():
            self.taps.install()
            put(result, together)

    def stored(self, op: str, value: Any, pointers: Any, mask: Any, tag: int | None) -> None:
        if not self.taps.installed or not self.recorder.options.checks:
            return
        lanes = _lanes(mask, pointers.data.shape)
        self._decides(pointers, mask, lanes, "a store" if op == "store" else f"an {op}")
        marks = marks_of(value)
        if marks is None:
            return
        active = np.where(lanes, np.broadcast_to(marks, lanes.shape), Mark(0))
        if not active.any():
            return
        lane = tuple(int(at) for at in np.unravel_index(int((active > 0).argmax()), active.shape))
        address = pointers.data[lane]
        tensor, _ = self.recorder.memory.owner(tag, int(address))
        spot = self.recorder.checks.spot(tensor, pointers.data, lane, value.data.dtype.itemsize)
        self.poison.used(active, f"reach {spot.text}")

    def _decides(self, pointers: Any, mask: Any, lanes: Any, what: str) -> None:
        marks = marks_of(pointers)
        if marks is not None:
            active = np.where(lanes, marks, Mark(0))
            if active.any():
                self.poison.used(active, f"decide the address of {what}")
        marks = marks_of(mask)
        if marks is not None and marks.any():
            self.poison.used(marks, f"decide the mask of {what}")

    def _marks(self, kind: str, pointers: Any, lanes: Any, result: Any, tag: int | None) -> Marks | None:
        if not lanes.any():
            return None
        load = Load(tag, pointers.data, lanes, result.data.dtype.itemsize)
        marks: Marks = lanes.astype(Mark) * Mark(self.poison.mark(kind, load))
        return marks


def _lanes(mask: Any, shape: tuple[int, ...]) -> Any:
    if mask is None:
        return np.ones(shape, bool)
    data = mask if isinstance(mask, np.ndarray) else mask.data
    return np.broadcast_to(data.astype(bool, copy=False), shape)

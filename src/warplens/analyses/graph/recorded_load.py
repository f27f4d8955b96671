"""How long a thread was inside recorded ops between two moments: what recording costs the host is a share of that."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import msgspec
import numpy as np

from warplens.analyses.graph.records import Floats
from warplens.model.arrays import numbered, places_by_value
from warplens.model.kinds import CODE, NONE
from warplens.model.trace import Bools, Ints, Trace

FRAME_NS: Final = 1_500.0
"""A recorded Python frame costs as much as this much time in ops."""
LONGEST_OVERHEAD_NS: Final = 50_000
"""An op that usually takes longer, a call that it makes and beside those ops that it calls, computes, waits or loads
data: that is not shortened."""
LONGEST_PAUSE_NS: Final = 20_000_000
"""A host that is shared stops for milliseconds. An op that once takes longer sets something up, as CUDA."""


class RecordedLoad(msgspec.Struct, frozen=True, dict=True):
    """The time of a trace's threads inside ops, or inside calls where no ops are recorded; frames are added to it."""

    trace: Trace

    def between(self, lane: Ints, begin_ns: Ints, end_ns: Ints) -> Floats:
        """Of each range of time on a lane how much is inside ops, and what its frames cost."""
        load = np.zeros(len(lane))
        for number, chosen in places_by_value(lane.astype(np.int64)).items():
            begin, end = begin_ns[chosen], end_ns[chosen]
            if number in self._inside_ops:
                moments, inside_ns = self._inside_ops[number]
                load[chosen] = np.interp(end, moments, inside_ns) - np.interp(begin, moments, inside_ns)
            if number in self._frames:
                entered = np.searchsorted(self._frames[number], np.stack([begin, end]))
                load[chosen] += FRAME_NS * (entered[1] - entered[0])
        return np.maximum(load, 0.0)

    @cached_property
    def _inside_ops(self) -> dict[int, tuple[Floats, Floats]]:
        """By thread the moments at which ops begin and end, and the time inside ops until each."""
        ops = self._ops
        caller, computes = self._op_around(ops), self._computes
        start, dur = (self.trace.ints(name)[ops].astype(float) for name in ("start_ns", "dur_ns"))
        # From one moment to the next its thread is in the op that has begun last, or in the one that called it.
        moments = np.concatenate([start, start + dur])
        is_inside = np.concatenate([~computes, (caller != NONE) & ~computes[caller]])
        found = {}
        for lane, chosen in places_by_value(np.tile(self.trace.ints("lane")[ops].astype(np.int64), 2)).items():
            # At one moment inner ops end before outer ones, and outer ones begin before inner ones.
            begins = chosen < len(ops)
            order = np.lexsort((np.where(begins, chosen, -chosen), begins, moments[chosen]))
            times, inside = moments[chosen][order], is_inside[chosen][order]
            found[lane] = times, np.append(0.0, np.cumsum(np.diff(times) * inside[:-1]))
        return found

    @cached_property
    def _ops(self) -> Ints:
        """In the order of rows: what calls others comes before them."""
        kind = self.trace.ints("kind")
        is_op = kind == CODE["op"]
        return np.flatnonzero(is_op if is_op.any() else kind == CODE["runtime"])

    def _op_around(self, rows: Ints) -> Ints:
        """The place among ops of the one that calls each event, frames and annotations between aside; -1 for none."""
        place = np.full(len(self.trace) + 1, NONE, np.int64)  # no parent is -1: the last
        place[self._ops] = np.arange(len(self._ops))
        parents = np.append(self.trace.ints("parent"), NONE)
        above = parents[rows].astype(np.int64)
        while (between := (above != NONE) & (place[above] == NONE)).any():
            above[between] = parents[above[between]]
        around: Ints = place[above]
        return around

    @cached_property
    def _computes(self) -> Bools:
        """Which ops take longer than overhead does, as is usual for their name or far more than that."""
        ops, duration = self._ops, self.trace.ints("dur_ns")
        called_ns = np.bincount(self._op_around(ops) + 1, duration[ops], len(ops) + 1)[1:]
        calls = np.bincount(self._op_around(self.trace.runtime_rows) + 1, minlength=len(ops) + 1)[1:]
        whole_ns = duration[ops] - called_ns
        own_ns = whole_ns / (1 + calls)
        names, number = numbered(self.trace.ints("name")[ops])
        order = np.lexsort((own_ns, number))
        count = np.bincount(number, minlength=len(names))
        usual_ns = own_ns[order][np.cumsum(count) - count + count // 2]
        computes: Bools = (usual_ns[number] > LONGEST_OVERHEAD_NS) | (whole_ns > LONGEST_PAUSE_NS)
        return computes

    @cached_property
    def _frames(self) -> dict[int, Ints]:
        """By thread, when the recorded Python frames were entered, in order."""
        kind = self.trace.ints("kind")
        rows = np.flatnonzero((kind == CODE["python"]) | (kind == CODE["module"]))
        start = self.trace.ints("start_ns")[rows]
        by_lane = places_by_value(self.trace.ints("lane")[rows].astype(np.int64))
        return {lane: np.sort(start[at]) for lane, at in by_lane.items()}

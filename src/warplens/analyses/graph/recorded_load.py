"""How much was recorded on a thread between two moments: what recording cost the host there."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import msgspec
import numpy as np

from warplens.analyses.graph.records import Floats
from warplens.model.arrays import places_by_value
from warplens.model.kinds import CODE
from warplens.model.trace import Ints, Trace

WEIGHT: Final = {"op": 1.0, "annotation": 1.0, "comm": 1.0, "runtime": 0.5, "python": 0.1, "module": 0.1}
"""Cost of a record by its kind, in ops."""


class RecordedLoad(msgspec.Struct, frozen=True, dict=True):
    """The records of a trace's threads, by the time at which they began."""

    trace: Trace

    def between(self, lane: Ints, begin_ns: Ints, end_ns: Ints) -> Floats:
        """Records on each lane that began in each range of time, in ops."""
        load = np.zeros(len(lane))
        for number, chosen in places_by_value(lane.astype(np.int64)).items():
            first, last = np.searchsorted(self._lanes, [number, number + 1])
            starts, total = self._starts[first:last], self._total[first : last + 1]
            until, since = (np.searchsorted(starts, moments[chosen]) for moments in (end_ns, begin_ns))
            load[chosen] = total[until] - total[since]
        return np.maximum(load, 0.0)

    @cached_property
    def _rows(self) -> Ints:
        """Records that cost something, by thread and time."""
        kind = self.trace.ints("kind")
        rows = np.flatnonzero(np.isin(kind, [CODE[name] for name in WEIGHT]))
        return rows[np.lexsort((self.trace.ints("start_ns")[rows], self.trace.ints("lane")[rows]))]

    @cached_property
    def _lanes(self) -> Ints:
        lanes: Ints = self.trace.ints("lane")[self._rows]
        return lanes

    @cached_property
    def _starts(self) -> Ints:
        starts: Ints = self.trace.ints("start_ns")[self._rows]
        return starts

    @cached_property
    def _total(self) -> Floats:
        """Records before each, in ops."""
        weights = np.zeros(len(CODE))
        weights[[CODE[name] for name in WEIGHT]] = list(WEIGHT.values())
        return np.append(0.0, np.cumsum(weights[self.trace.ints("kind")[self._rows]]))

"""Offsets and drifts of clocks from moments that they should agree on: least absolute distances.

The equations are never written down: they would grow with the square of the clocks, 3.2 GB for 10,000 of them. What is
kept grows with the ends alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from warplens.analyses.graph.records import Floats
from warplens.model.trace import Ints

ROUNDS: Final = 30
"""With 12, one clock in 2,000 was still drawn 34 µs away by a single end that was 10 ms late; with 20 none."""
LEAST_SPAN_NS: Final = 50_000_000
CLOSE_NS: Final = 500.0
"""Distances below this count alike."""
MOST_STEPS: Final = 4_000
"""Of a round. Groups that cross each other take tens, a chain of 256 clocks that only neighbours join over 400."""
EXACT_NS: Final = 1e-2
"""Clocks that would be moved by less are there; far below it, the rounding of floats keeps them moving for ever."""


@dataclass(frozen=True)
class Ends:
    """Ends of collectives (`match`, from 0 on), each by the clock `own`."""

    own: Ints
    match: Ints
    end: Floats
    clocks: int
    matches: int

    def by_clock(self, values: Floats) -> Floats:
        return _sums(self.own, values, self.clocks)

    def by_match(self, values: Floats) -> Floats:
        return _sums(self.match, values, self.matches)


def _sums(group: Ints, values: Floats, count: int) -> Floats:
    sums: Floats = np.bincount(group, values, count).astype(np.float64, copy=False)
    return sums


def fitted(own: Ints, match: Ints, end: Floats, clocks: int) -> tuple[Floats, Floats]:
    """Offsets and drifts with which the ends of each collective are closest to each other.

    By weighted least squares, each end weighted with the inverse of its last distance. When a collective ended is
    eliminated, which leaves two unknowns per clock.
    """
    solution = np.zeros(2 * clocks)
    offset, slope = solution[:clocks], solution[clocks:]
    if not len(end) or clocks < 2:
        return offset, slope
    ends = Ends(own, match, end, clocks, int(match.max()) + 1)
    weight, when, span = np.ones(len(end)), np.zeros(ends.matches), 1.0
    for number in range(ROUNDS):
        # When a collective ended, by all ranks: with a clock's own time its offset and its drift would be one thing.
        equations = Equations(ends, when[ends.match] / span, weight)
        solution = equations.solved(solution)
        offset, slope = solution[:clocks], solution[clocks:]
        rest = ends.end - offset[ends.own] - slope[ends.own] * equations.moment
        when = ends.by_match(weight * rest) / equations.total
        span = max(1.0, float(np.ptp(when))) if np.ptp(when) >= LEAST_SPAN_NS else np.inf
        if number:
            weight = 1.0 / np.maximum(np.abs(rest - when[ends.match]), CLOSE_NS)
    # What all clocks have in common cannot be told from the true time.
    drift = np.zeros(clocks) if not np.isfinite(span) else (slope - np.median(slope)) / span
    return offset - np.median(offset), drift


class Equations:
    """The normal equations of one round: for each clock an offset, and behind all of these a slope."""

    def __init__(self, ends: Ends, moment: Floats, weight: Floats) -> None:
        self.ends = ends
        self.moment = moment
        self.weight = weight
        self.total = np.maximum(ends.by_match(weight), 1e-300)
        mean = ends.by_match(weight * ends.end) / self.total
        self.right = self._sums(weight * (ends.end - mean[ends.match]))

    def _sums(self, values: Floats) -> Floats:
        return np.concatenate([self.ends.by_clock(values), self.ends.by_clock(values * self.moment)])

    def solved(self, start: Floats) -> Floats:
        """By conjugate gradients from the last round's solution: only products with the equations are needed."""
        ends = self.ends
        alone = self.weight * (1.0 - self.weight / self.total[ends.match])
        scale = np.concatenate([ends.by_clock(alone), ends.by_clock(alone * self.moment**2)])
        scale = np.where(scale > 0, 1.0 / np.maximum(scale, 1e-300), 0.0)
        solution: Floats = start.copy()
        residual = self.right - self._times(solution)
        step = scaled = scale * residual
        size = float(residual @ scaled)
        for _ in range(MOST_STEPS):
            if np.abs(scaled).max() < EXACT_NS:
                break
            product = self._times(step)
            length = size / max(float(step @ product), 1e-300)
            solution += length * step
            residual -= length * product
            scaled = scale * residual
            size, last = float(residual @ scaled), size
            step = scaled + (size / last) * step
        return solution

    def _times(self, solution: Floats) -> Floats:
        """The product of the equations' left side with a vector."""
        ends = self.ends
        offset, slope = solution[: ends.clocks], solution[ends.clocks :]
        values = offset[ends.own] + slope[ends.own] * self.moment
        mean = ends.by_match(self.weight * values) / self.total
        return self._sums(self.weight * (values - mean[ends.match]))

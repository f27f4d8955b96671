"""How long a step takes in A and in B, on which clock, and whether the steps show a difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, log
from statistics import fmean
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from warplens.analyses.diff.noise import noise_us, sample_variance
from warplens.analyses.diff.summary import span_us
from warplens.model.diff_rows import MeasureDiff
from warplens.model.table import Table

SAME: Final = 1.005
"""Smaller ratios are not worth a sentence."""
LEAST_APART: Final = 1.02
"""So much longer steps are in the mean, where all of one run are longer than all of the other."""
OTHERWISE: Final = 1.1
"""The recorded times are named where their ratio differs from that of the unprofiled ones by so much."""
MOST_OF_IT: Final = 0.5
"""Of the recorded step: what is simulated has to be at least that long."""
STEP, BUSY, HOST, TOTAL = "step", "busy", "host", "total"
MEASURED, ESTIMATED, RECORDED = "measured", "estimated", "recorded"


class UnprofiledSteps(NamedTuple):
    """The unprofiled steps of both runs: both measured or given, or both estimated from these recorded ones."""

    a_ms: float
    b_ms: float
    is_measured: bool
    a_recorded_ms: float = inf
    b_recorded_ms: float = inf


class StepChange(NamedTuple):
    """A step of A and of B on one clock."""

    a_us: float
    b_us: float
    clock: str
    """`per unprofiled step (estimated)`."""
    is_shown: bool
    """The difference is more than steps differ anyway, or the steps are apart."""
    is_apart: bool
    """Every step of one run is longer than every step of the other."""
    unseen_percent: float | None
    """A change up to this would not be seen; None where a run has one step, or none is marked."""
    counts: tuple[int, int] | None
    """Of the steps; None where these were asked for."""

    @property
    def delta_us(self) -> float:
        return self.b_us - self.a_us

    @property
    def ratio(self) -> float:
        low, high = sorted((self.a_us, self.b_us))
        return high / low if low else inf

    @property
    def span(self) -> str:
        return f"{span_us(self.a_us, self.b_us)} {self.clock}".rstrip()

    @property
    def unseen(self) -> str:
        """What change the steps would not show."""
        counts = f"{self.counts[0]} and {self.counts[1]} steps" if self.counts else "these steps"
        if self.unseen_percent is None:
            return f"cannot tell how much steps differ anyway, with {counts}: record three or more"
        return f"a change of less than {self.unseen_percent:.2g} % would not be seen with {counts}"


def step_change(
    measures: Mapping[str, MeasureDiff],
    steps: Table,
    unprofiled: UnprofiledSteps | None,
    runs: tuple[int, int] | None,
    *,
    per_step: bool,
) -> StepChange:
    """On the clock of the unprofiled step where both have one; else as recorded: the step, or the whole trace.

    `runs` are the steps that the measures are means of.
    """
    recorded = measures[STEP] if per_step and STEP in measures else measures[TOTAL]
    as_recorded = unprofiled is None or not _is_of_whole_steps(unprofiled, recorded)
    if unprofiled is None or as_recorded or _differs_without_evidence(unprofiled, measures):
        clock = "per recorded step" if per_step else "as recorded"
        return _change(steps, recorded.a_us, recorded.b_us, clock, recorded, STEP if per_step else TOTAL, runs)
    a_us, b_us = 1e3 * unprofiled.a_ms, 1e3 * unprofiled.b_ms
    # What limits the unprofiled step is what varies with it: the GPU's work, or the step with the host in it.
    limits = {_nearest(measures, side, us) for side, us in (("a", a_us), ("b", b_us))}
    name = max(limits, key=lambda each: _noise_share(measures[each]) or 0.0)
    source = MEASURED if unprofiled.is_measured else ESTIMATED
    differs = abs(log(b_us / a_us) - log(max(recorded.b_us, 1e-9) / max(recorded.a_us, 1e-9))) > log(OTHERWISE)
    more = f"; {span_us(recorded.a_us, recorded.b_us)} recorded" if differs else ""
    return _change(steps, a_us, b_us, f"per unprofiled step ({source}{more})", measures[name], name, runs)


def change_of_steps(a_ms: Sequence[float], b_ms: Sequence[float], clock: str) -> StepChange:
    """Of the lengths of steps that two runs recorded: their medians."""
    a, b = (np.array(lengths) * 1e3 for lengths in (a_ms, b_ms))
    noise = float(noise_us([sample_variance(a)], [sample_variance(b)], len(a), len(b))[0])
    mean = (a.mean() + b.mean()) / 2
    share = None if np.isnan(noise) or not mean else noise / mean
    return _judged(float(np.median(a)), float(np.median(b)), clock, share, (a.tolist(), b.tolist()), (len(a), len(b)))


def _change(
    steps: Table, a_us: float, b_us: float, clock: str, varies: MeasureDiff, name: str, runs: tuple[int, int] | None
) -> StepChange:
    series = (_lengths(steps, "a", name), _lengths(steps, "b", name)) if name != TOTAL else ([], [])
    return _judged(a_us, b_us, clock, _noise_share(varies), series, runs)


def _judged(
    a_us: float,
    b_us: float,
    clock: str,
    share: float | None,
    series: tuple[Sequence[float], Sequence[float]],
    runs: tuple[int, int] | None,
) -> StepChange:
    delta, mean = b_us - a_us, (a_us + b_us) / 2
    low, high = (series[0], series[1]) if delta > 0 else (series[1], series[0])
    is_apart = min(len(low), len(high)) >= 2 and max(low) < min(high) and fmean(high) > LEAST_APART * fmean(low)
    is_shown = share is None or abs(delta) > share * mean or is_apart
    return StepChange(a_us, b_us, clock, is_shown, is_apart, None if share is None else 100 * share, runs)


def _is_of_whole_steps(unprofiled: UnprofiledSteps, recorded: MeasureDiff) -> bool:
    """Whether what was simulated is the step: of steps that hardly launch anything, the graph has a few µs."""
    pairs = ((unprofiled.a_recorded_ms, recorded.a_us), (unprofiled.b_recorded_ms, recorded.b_us))
    return unprofiled.is_measured or all(1e3 * simulated >= MOST_OF_IT * marked for simulated, marked in pairs)


def _differs_without_evidence(unprofiled: UnprofiledSteps, measures: Mapping[str, MeasureDiff]) -> bool:
    """Whether estimates differ by more than steps do, though neither the recorded steps nor the GPU's work differ.

    The estimate is of all steps, also of a last one that nothing ends and no table has.
    """
    if unprofiled.is_measured or not all(measures[name].within_noise for name in (STEP, BUSY) if name in measures):
        return False
    mean = (unprofiled.a_ms + unprofiled.b_ms) / 2
    shares = [_noise_share(measures[name]) or 0.0 for name in (STEP, BUSY) if name in measures]
    return abs(unprofiled.b_ms - unprofiled.a_ms) > max(shares) * mean


def _lengths(steps: Table, side: str, name: str) -> Sequence[float]:
    column = {BUSY: pl.col(f"{side}_busy_us"), HOST: pl.col(f"{side}_host_us")}.get(
        name, pl.max_horizontal(f"{side}_us", f"{side}_host_us")
    )
    found: list[float] = steps.frame.filter(pl.col(f"{side}_step").is_not_null()).select(column)[:, 0].to_list()
    return found


def _nearest(measures: Mapping[str, MeasureDiff], side: str, us: float) -> str:
    """The measure that the unprofiled step of a side is nearest to."""
    times = {name: max(float(getattr(measures[name], f"{side}_us")), 1e-9) for name in (BUSY, STEP) if name in measures}
    return min(times, key=lambda name: abs(log(times[name] / us)))


def _noise_share(row: MeasureDiff) -> float | None:
    """The noise of a measure as a share of its mean."""
    mean = (row.a_us + row.b_us) / 2
    return None if row.noise_us is None or not mean else row.noise_us / mean

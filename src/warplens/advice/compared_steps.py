"""How long a step takes in A and in B, on which clock, and whether the steps show a difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, hypot, inf, log
from statistics import fmean
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from warplens.analyses.diff.noise import noise_us, sample_variance
from warplens.analyses.diff.summary import span_us
from warplens.model.answer import CANNOT_TELL
from warplens.model.clock import ESTIMATED, MEASURED, RECORDED, WIDE, Clock
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
CORRECTED: Final = "corrected"
"""Times less what recording cost: estimates."""
STEP, BUSY, HOST, TOTAL = "step", "busy", "host", "total"
LEAST_MS: Final = 1e-6
"""Times are recorded in ns."""

Clocks = tuple[Clock, Clock]
"""Of A and of B, as the reports of both have them."""


class Ratio(NamedTuple):
    """B's step over A's, with the interval that those of both steps leave."""

    value: float
    low: float
    high: float

    @property
    def is_decided(self) -> bool:
        """Both ends say which step is longer."""
        return self.low > 1 or self.high < 1

    @property
    def share(self) -> float:
        """Half of the interval."""
        return (self.high - self.low) / 2

    @property
    def text(self) -> str:
        """`1.53× slower (1.44 to 1.62)`, or `1.2 to 2.4× slower` where the interval is wide."""
        is_longer = self.value > 1
        value, low, high = self if is_longer else (1 / self.value, 1 / self.high, 1 / self.low)
        direction = "slower" if is_longer else "faster"
        if low == high:
            return f"{value:.2f}× {direction}"
        if max(high - value, value - low) > WIDE * value:
            return f"{low:.2f} to {high:.2f}× {direction}"
        return f"{value:.2f}× {direction} ({low:.2f} to {high:.2f})"


def ratio_of(a: Clock, b: Clock) -> Ratio:
    """The errors of two estimates are independent, so their shares add up as squares do.

    A host's pace differs from recording to recording by as much as the estimates err: of 56 pairs of programs whose
    unprofiled steps are known, 52 ratios are in this interval, and 10 in the one of an error that both share.
    """
    ratio = b.step_ms / a.step_ms
    shorter = hypot(log(b.step_ms / max(b.low_ms, LEAST_MS)), log(a.high_ms / a.step_ms))
    longer = hypot(log(b.high_ms / b.step_ms), log(a.step_ms / max(a.low_ms, LEAST_MS)))
    return Ratio(ratio, ratio * exp(-shorter), ratio * exp(longer))


class StepChange(NamedTuple):
    """A step of A and of B on one clock."""

    a_us: float
    b_us: float
    span: str
    """`75.9 → 49.7 ms per recorded step`."""
    compared: Ratio
    is_shown: bool
    """The difference is more than steps differ anyway, or the steps are apart."""
    is_apart: bool
    """Every step of one run is longer than every step of the other, as recorded."""
    varies: str
    """Of what the spread is: the step, or the GPU's work in it."""
    unseen_percent: float | None
    """A change up to this would not be seen; None where a run has one step, or none is marked."""
    seen_in: str
    """What shows a change or not: `3 and 3 steps`."""
    certainty: str = MEASURED
    undecided: str = ""
    """The unprofiled steps, where their intervals leave open which is longer; the rest is of recorded steps then."""
    whole: str = "step"
    """What is compared: step, iteration or run."""
    is_recorded: bool = True
    """As recorded; else without the profiler."""

    @property
    def delta_us(self) -> float:
        return self.b_us - self.a_us

    @property
    def ratio(self) -> float:
        low, high = sorted((self.a_us, self.b_us))
        return high / low if low else inf

    @property
    def unseen(self) -> str:
        """What change the steps would not show."""
        if self.unseen_percent is None:
            return f"cannot tell how much steps differ anyway, with {self.seen_in}: record three or more"
        return f"a change of less than {self.unseen_percent:.2g} % would not be seen with {self.seen_in}"


def step_change(
    measures: Mapping[str, MeasureDiff],
    steps: Table,
    clocks: Clocks | None,
    runs: tuple[int, int] | None,
    *,
    per_step: bool,
    is_corrected: bool = False,
) -> StepChange:
    """On the clock of the unprofiled step where both have one; else as recorded: the step, or the whole trace.

    `runs` are the steps that the measures are means of. With clocks a step takes what the report of its trace says.
    """
    marked = measures[STEP] if per_step and STEP in measures else measures[TOTAL]
    name = STEP if per_step else TOTAL
    if clocks is None or not _are_of_whole_steps(clocks, marked):
        made = CORRECTED if is_corrected else RECORDED
        span = f"{span_us(marked.a_us, marked.b_us)} {f'per {made} step' if per_step else f'on the GPU, as {made}'}"
        change = _change(steps, (marked.a_us, marked.b_us), span, marked, name, runs)
        return change._replace(span=f"{span} (estimated)", certainty=ESTIMATED) if is_corrected else change
    recorded = _as_recorded(clocks, _change(steps, _us(clocks, recorded=True), "", marked, name, runs), marked)
    is_recorded = any(clock.source == RECORDED for clock in clocks)
    if is_recorded or _differ_without_evidence(clocks, measures):
        return recorded
    a_us, b_us = _us(clocks, recorded=False)
    # What limits the unprofiled step is what varies with it: the GPU's work, or the step with the host in it.
    limits = {_nearest(measures, side, us) for side, us in (("a", a_us), ("b", b_us))}
    name = max(limits, key=lambda each: _noise_share(measures[each]) or 0.0)
    differs = abs(log(b_us / a_us) - log(max(recorded.b_us, 1e-9) / max(recorded.a_us, 1e-9))) > log(OTHERWISE)
    more = f"{amounts(clocks, recorded=True)} recorded" if differs else ""
    change = _change(steps, (a_us, b_us), _span(clocks, more), measures[name], name, runs)
    change = change._replace(whole=recorded.whole, is_recorded=False)
    estimates = sum(clock.source == ESTIMATED for clock in clocks)
    if not estimates:
        return change
    compared = ratio_of(*clocks)
    if not compared.is_decided and recorded.is_shown and recorded.ratio >= SAME:
        return recorded._replace(certainty=CANNOT_TELL, undecided=_undecided(clocks))
    change = change._replace(compared=compared, certainty=ESTIMATED, is_shown=change.is_shown and compared.is_decided)
    if change.is_shown or 100 * compared.share < (change.unseen_percent or 0.0):
        return change
    seen_in = "these estimates" if estimates > 1 else "this estimate"
    return change._replace(unseen_percent=100 * compared.share, seen_in=seen_in)


def _as_recorded(clocks: Clocks, change: StepChange, marked: MeasureDiff) -> StepChange:
    """The recorded steps of both reports; they show no difference that the steps of the tables do not show."""
    whole = _whole(clocks)
    is_shown = change.is_shown and (change.is_apart or not marked.within_noise)
    unseen = change.unseen_percent
    if unseen is not None and not is_shown:
        unseen = max(unseen, 200 * abs(change.delta_us) / max(change.a_us + change.b_us, 1e-9))
    span = f"{amounts(clocks, recorded=True)} per recorded {whole}"
    return change._replace(span=span, whole=whole, is_shown=is_shown, unseen_percent=unseen)


def change_of_steps(a_ms: Sequence[float], b_ms: Sequence[float], span: str) -> StepChange:
    """Of the lengths of steps that two runs recorded: their medians, which `span` names."""
    a, b = (np.array(lengths) * 1e3 for lengths in (a_ms, b_ms))
    noise = float(noise_us([sample_variance(a)], [sample_variance(b)], len(a), len(b))[0])
    mean = (a.mean() + b.mean()) / 2
    share = None if np.isnan(noise) or not mean else noise / mean
    medians = (float(np.median(a)), float(np.median(b)))
    return _judged(medians, span, share, STEP, (a.tolist(), b.tolist()), (len(a), len(b)))


def _change(
    steps: Table, us: tuple[float, float], span: str, varies: MeasureDiff, name: str, runs: tuple[int, int] | None
) -> StepChange:
    series = (_lengths(steps, "a", name), _lengths(steps, "b", name)) if name != TOTAL else ([], [])
    return _judged(us, span, _noise_share(varies), name, series, runs)


def _judged(
    us: tuple[float, float],
    span: str,
    share: float | None,
    name: str,
    series: tuple[Sequence[float], Sequence[float]],
    runs: tuple[int, int] | None,
) -> StepChange:
    a_us, b_us = us
    delta, mean = b_us - a_us, (a_us + b_us) / 2
    low, high = (series[0], series[1]) if delta > 0 else (series[1], series[0])
    is_apart = min(len(low), len(high)) >= 2 and max(low) < min(high) and fmean(high) > LEAST_APART * fmean(low)
    is_shown = share is None or abs(delta) > share * mean or is_apart
    ratio = max(b_us, 1e3 * LEAST_MS) / max(a_us, 1e3 * LEAST_MS)
    unseen = None if share is None else 100 * share
    seen_in = counted_steps(runs) if runs else "these steps"
    return StepChange(a_us, b_us, span, Ratio(ratio, ratio, ratio), is_shown, is_apart, name, unseen, seen_in)


def counted_steps(runs: tuple[int, int]) -> str:
    """
    >>> counted_steps((3, 2)), counted_steps((1, 1))
    ('3 and 2 steps', 'one step each')
    """
    return "one step each" if runs == (1, 1) else f"{runs[0]} and {runs[1]} steps"


def _us(clocks: Clocks, *, recorded: bool) -> tuple[float, float]:
    """Of both sides, as recorded or without the profiler."""
    a, b = (1e3 * (clock.recorded_ms if recorded else clock.step_ms) for clock in clocks)
    return a, b


def _whole(clocks: Clocks) -> str:
    return clocks[0].whole if clocks[0].whole == clocks[1].whole else "step"


def amounts(clocks: Clocks, *, recorded: bool) -> str:
    """`35.2 → 42.8 ms`, with the digits of the reports."""
    times = zip(clocks, _us(clocks, recorded=recorded), strict=True)
    a, b = (clock.of_step(us / 1e3).rpartition(" ") for clock, us in times)
    return f"{a[0]}{'' if a[2] == b[2] else f' {a[2]}'} → {b[0]} {b[2]}"


def _span(clocks: Clocks, more: str) -> str:
    """`75.9 → 49.7 ms per unprofiled step (measured)`; a word for each side where theirs differ."""
    step = f"per unprofiled {_whole(clocks)}"
    if len({clock.certainty for clock in clocks}) > 1:
        return f"{_with_words(clocks)} {step}{f' ({more})' if more else ''}"
    return f"{_with_intervals(clocks)} {step} ({'; '.join(filter(None, (clocks[0].certainty, more)))})"


def _undecided(clocks: Clocks) -> str:
    if len({clock.certainty for clock in clocks}) > 1:
        return _with_words(clocks)
    return f"{_with_intervals(clocks)} ({clocks[0].certainty})"


def _with_words(clocks: Clocks) -> str:
    return " → ".join(clock.text for clock in clocks)


def _with_intervals(clocks: Clocks) -> str:
    if all(clock.sure == clock.known for clock in clocks):
        return amounts(clocks, recorded=False)
    return " → ".join(
        clock.amount if clock.is_wide or clock.sure == clock.known else f"{clock.amount} ({clock.interval})"
        for clock in clocks
    )


def _are_of_whole_steps(clocks: Clocks, marked: MeasureDiff) -> bool:
    """Whether what was simulated is the step: of steps that hardly launch anything, the graph has a few µs."""
    pairs = zip(clocks, (marked.a_us, marked.b_us), strict=True)
    return all(clock.source != ESTIMATED or 1e3 * clock.recorded_ms >= MOST_OF_IT * us for clock, us in pairs)


def _differ_without_evidence(clocks: Clocks, measures: Mapping[str, MeasureDiff]) -> bool:
    """Whether estimates differ by more than steps do, though neither the recorded steps nor the GPU's work differ.

    The estimate is of all steps, also of a last one that nothing ends and no table has.
    """
    rows = [measures[name] for name in (STEP, BUSY) if name in measures]
    if all(clock.source != ESTIMATED for clock in clocks) or not all(row.within_noise for row in rows):
        return False
    a, b = clocks
    return abs(b.step_ms - a.step_ms) > max(_noise_share(row) or 0.0 for row in rows) * (a.step_ms + b.step_ms) / 2


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

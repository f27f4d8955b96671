"""What the turns of a trial show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from warplens_run.trying.trial import PLAIN, Turn


@dataclass(frozen=True)
class TrialResult:
    """One variant against the program as it is: medians of the rounds, and the least and the most of them.

    Figures are None where no round is whole.
    """

    fix: str
    """As it was named."""
    fixes: tuple[str, ...]
    device: str
    rounds: int
    steps: int
    off_ms: float | None = None
    on_ms: float | None = None
    gain_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    off_joules: float | None = None
    on_joules: float | None = None
    off_peak_bytes: int = 0
    on_peak_bytes: int = 0
    watched: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)
    """By name: the mean without the fixes, and with them; None where it is not a number."""
    failure: str = ""
    """Why there are no more rounds."""


def result_of(turns: Sequence[Turn], side: int, fix: str, fixes: Sequence[str], *, failure: str = "") -> TrialResult:
    off, on = ([turn for turn in turns if turn.side == wanted] for wanted in (PLAIN, side))
    rounds = min(len(off), len(on))
    off, on = off[:rounds], on[:rounds]
    if not rounds:
        return TrialResult(fix, tuple(fixes), turns[0].device if turns else "", 0, 0, failure=failure)
    gains = [without.step_ms - with_fixes.step_ms for without, with_fixes in zip(off, on, strict=True)]
    names = dict.fromkeys(name for turn in (*off, *on) for name in turn.watched)
    return TrialResult(
        fix,
        tuple(fixes),
        on[0].device,
        rounds,
        steps=off[0].steps,
        off_ms=median(turn.step_ms for turn in off),
        on_ms=median(turn.step_ms for turn in on),
        gain_ms=median(gains),
        low_ms=min(gains),
        high_ms=max(gains),
        off_joules=_per_step(off),
        on_joules=_per_step(on),
        off_peak_bytes=max(turn.peak_bytes for turn in off),
        on_peak_bytes=max(turn.peak_bytes for turn in on),
        watched={name: (_mean(off, name), _mean(on, name)) for name in names},
        failure=failure,
    )


def _per_step(turns: Sequence[Turn]) -> float | None:
    joules = [turn.joules / turn.steps for turn in turns if turn.joules is not None]
    return median(joules) if len(joules) == len(turns) else None


def _mean(turns: Sequence[Turn], name: str) -> float | None:
    values = [turn.watched[name] for turn in turns if name in turn.watched]
    mean = fmean(values) if values else math.nan
    return mean if math.isfinite(mean) else None

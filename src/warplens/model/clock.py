"""`Clock`: how long one step takes without the profiler, and how that is known; all of a screen is of this step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from warplens_run.base.units import format_short_ms, plural

MEASURED: Final = "measured"
GIVEN: Final = "given"
ESTIMATED: Final = "estimated"
RECORDED: Final = "recorded"
SOURCES: Final = {
    MEASURED: "timed without the profiler, in the same run",
    GIVEN: "as --step-time says",
    ESTIMATED: "the recorded step, less what recording its ops is estimated to have cost the host",
    RECORDED: "as recorded: what recording cost is not taken off",
}
WIDE: Final = 0.1
"""From this share of the step to either side on, the interval is said and not the point."""


@dataclass(frozen=True)
class Clock:
    """Of a step, or of the whole run where no steps are marked; an iteration is the step of a served model."""

    step_ms: float
    low_ms: float
    high_ms: float
    source: str
    recorded_ms: float
    whole: str = "step"
    """What it is of: step, iteration or run."""
    steps: int = 0
    """How many were recorded; 0 for a run."""
    reason: str = ""
    """Why it is no better known, or how much recording may have cost."""

    @property
    def is_wide(self) -> bool:
        return max(self.high_ms - self.step_ms, self.step_ms - self.low_ms) > WIDE * self.step_ms

    @property
    def certainty(self) -> str:
        """The word for it: a recorded step is measured, as what it is."""
        return ESTIMATED if self.source == ESTIMATED else MEASURED

    @property
    def known(self) -> str:
        """The same with where it is from: `measured, given`."""
        return {GIVEN: f"{MEASURED}, {GIVEN}", RECORDED: f"{MEASURED}, as {RECORDED}"}.get(self.source, self.source)

    @property
    def hint(self) -> str:
        """What would make it narrower."""
        return f"--step-time T, with a measured {self.whole}, narrows it" if self.is_wide else ""

    @property
    def one(self) -> str:
        """`a step`, `an iteration`"""
        return f"{'an' if self.whole == 'iteration' else 'a'} {self.whole}"

    @property
    def interval(self) -> str:
        """`31 to 52`, in the step's unit."""
        return self.between(self.low_ms, self.high_ms).rpartition(" ")[0]

    @property
    def sure(self) -> str:
        """How sure it is, with the interval where that is seen: `31 to 52, estimated`."""
        seen = {self.of_step(ms) for ms in (self.low_ms, self.high_ms)}
        return f"{self.interval}, {self.known}" if len(seen) > 1 else self.known

    @property
    def amount(self) -> str:
        """`39.6 ms`, or `31 to 52 ms` where the interval is wide."""
        if not self.is_wide:
            return self.of_step(self.step_ms)
        return self.between(self.low_ms, self.high_ms)

    @property
    def text(self) -> str:
        """`39.6 ms (38.0 to 41.2, estimated)`, or `31 to 52 ms (estimated)` where the interval is wide."""
        return f"{self.amount} ({self.known if self.is_wide else self.sure})"

    def between(self, least_ms: float, most_ms: float) -> str:
        """`31 to 52 ms`, in the step's unit; one number where that is all that is seen."""
        least, most = self.of_step(least_ms), self.of_step(most_ms)
        return most if least == most else f"{least.rpartition(' ')[0]} to {most}"

    def share(self, ms: float) -> str:
        """`37.1 %` of the step, with its interval: `37.1 % (35.2 to 39.0)`, or `32 to 51 %` where that is wide."""
        expected, least, most = (
            f"{min(100.0, 100 * ms / step):.1f}" for step in (self.step_ms, self.high_ms, max(self.low_ms, 1e-9))
        )
        if least == most:
            return f"{expected} %"
        return f"{least} to {most} %" if self.is_wide else f"{expected} % ({least} to {most})"

    def rate(self, per_s: float, shown: Callable[[float], str]) -> str:
        """`1,400 to 1,900`: what a rate of the expected step is in the longest and in the shortest."""
        least, most = (shown(per_s * self.step_ms / max(ms, 1e-9)) for ms in (self.high_ms, self.low_ms))
        return most if least == most else f"{least} to {most}"

    @property
    def counted(self) -> str:
        """`3 steps`, `2 passes`; empty for a run."""
        return plural(self.steps, self.whole, {"pass": "passes"}.get(self.whole, "")) if self.steps else ""

    def of_step(self, ms: float) -> str:
        """A part of the step, in the step's unit."""
        return format_short_ms(ms, self.step_ms)

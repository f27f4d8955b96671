"""Which steps of a run are recorded, for backends that have no schedule of their own."""

from __future__ import annotations

from warplens_run.capture.plan import RecordingPlan


class StepWindow:
    """Counts steps; says when recording is to begin and to end.

    >>> window = StepWindow(RecordingPlan(steps=1, wait=1))
    >>> [window.is_open, window.step(), window.is_open, window.step(), window.is_open]
    [False, 'open', True, 'close', False]
    """

    def __init__(self, plan: RecordingPlan) -> None:
        self._first = plan.wait + plan.warmup
        self._last = self._first + plan.steps if plan.steps else None
        self.steps_seen = 0

    @property
    def is_open(self) -> bool:
        return self.steps_seen >= self._first and (self._last is None or self.steps_seen < self._last)

    def step(self) -> str:
        """Count a step; "open", "close" or "" for what has to happen now."""
        before = self.is_open
        self.steps_seen += 1
        return "" if before == self.is_open else "close" if before else "open"

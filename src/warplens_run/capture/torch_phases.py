"""Which step of a run PyTorch's profiler records, and for what."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from warplens_run.base.units import plural
from warplens_run.capture.plain_steps import AFTER, AFTER_STEPS, BEFORE, LEAST_STEPS, MOST_STEPS
from warplens_run.capture.plan import RecordingPlan

START: Final = "start"
"""Before a step is found: without Python frames, since nearly all of them are imports."""
FIRST: Final = "first"
"""The first steps that are found: kept only where the program ends before a later one has been recorded."""
MEASURED: Final = "measured"
ARGUMENTS: Final = "arguments"
"""For the ExecutionTrace, and for the trace of the same step, which ties the two together."""
LIGHT: Final = "light"
"""The GPU's activity only: launches nearly as they come without a profiler."""
NOTHING: Final = ""
FULL: Final = (START, FIRST, MEASURED)
"""What may become the bundle's profile; the later, the better."""


class RecordingPhases:
    """Counts the steps of a plan.

    >>> phases = RecordingPhases(RecordingPlan(steps=1, wait=2, light_steps=1), can_be_light=True)
    >>> names = []
    >>> for _ in range(5):
    ...     names.append(phases.now)
    ...     phases.advance()
    >>> names
    ['', 'arguments', 'measured', 'arguments', 'light']
    >>> phases = RecordingPhases(RecordingPlan(steps=1, wait=2, early=True), can_be_light=False)
    >>> names = [phases.now]
    >>> phases.begin_work()
    >>> for _ in range(4):
    ...     names.append(phases.now)
    ...     phases.advance()
    >>> names
    ['start', 'first', 'first', 'measured', 'arguments']
    """

    def __init__(self, plan: RecordingPlan, *, can_be_light: bool) -> None:
        self._plan = plan
        self._first = plan.wait + plan.warmup
        is_light = can_be_light and plan.steps and plan.data == "trace"
        self._light_wanted = plan.light_steps if is_light else 0
        self._has_begun = False
        self.begin_anew()
        self._before = self._steps_before()

    def begin_anew(self) -> None:
        """Count from 0: what has been counted, if anything, were not steps."""
        plan = self._plan
        self.steps_seen = self.measured = 0
        self.has_arguments = plan.data == "tree" or plan.execution_trace != "step" or not plan.steps
        """Whether the ExecutionTrace is recorded, or none is requested."""
        self._light_left = self._light_wanted
        self._done_at: int | None = None
        self._is_cut = False

    def _steps_before(self) -> range:
        """The steps to time before the recorded ones: none of ours has been loaded, and the program's first is over."""
        plan = self._plan
        if not plan.steps or plan.early:
            return range(0)
        end = plan.wait if self.has_arguments else self._first - 1
        steps = range(max(1, end - MOST_STEPS), end)
        return steps if len(steps) >= LEAST_STEPS else range(0)

    @property
    def now(self) -> str:
        """What the step that runs now is recorded for."""
        plan, first = self._plan, self._first
        if not plan.steps:
            return MEASURED
        if first <= self.steps_seen < first + plan.steps:
            return MEASURED
        if plan.early and self.steps_seen < first:
            return NOTHING if self._is_cut else FIRST if self._has_begun else START
        if not self.has_arguments and self.steps_seen in (first - 1, first + plan.steps):
            return ARGUMENTS
        return LIGHT if self._light_left and self.steps_seen >= first + plan.steps else NOTHING

    def advance(self, *, is_recorded: bool = False) -> None:
        """The step that runs now has ended."""
        self.measured += is_recorded and self.now == MEASURED
        self._light_left -= self.now == LIGHT
        self.steps_seen += 1
        self._has_begun, self._is_cut = True, False

    def begin_work(self) -> None:
        """Begin the first step that may be found."""
        self._has_begun, self._is_cut = True, False

    def cut(self) -> None:
        """Do not record the step that runs now to its end."""
        self._is_cut = True

    def record_rest(self) -> None:
        """Record everything from now on, as the program chooses."""
        self._plan, self._light_wanted = replace(self._plan, steps=0, wait=0, warmup=0, early=False), 0
        self.begin_anew()

    @property
    def is_early(self) -> bool:
        """Whether what comes before the steps is recorded as well."""
        return self._plan.early

    @property
    def is_whole(self) -> bool:
        """Whether all of the run is recorded, or all from some time on."""
        return not self._plan.steps

    def end_light(self) -> None:
        """No more steps of the light pass."""
        self._light_left = 0

    @property
    def is_warming(self) -> bool:
        """Whether the profiler is to be loaded now; a step for the ExecutionTrace does that as well."""
        plan = self._plan
        return plan.wait <= self.steps_seen < plan.wait + plan.warmup and self.has_arguments

    def plain_window(self) -> tuple[str, int] | None:
        """Where a window of unrecorded steps begins with the step that runs now: its position, and its steps."""
        if self._before and self.steps_seen == self._before.start:
            return BEFORE, len(self._before)
        if not self._plan.steps or self.steps_seen < self._first + self._plan.steps or self.now:
            return None
        if self._done_at is None:
            self._done_at = self.steps_seen
        begin = self._done_at + 1  # the first step after a recording still pays for its end
        for steps in AFTER_STEPS:
            if self.steps_seen == begin:
                return AFTER, steps
            begin += steps
        return None

    @property
    def begins_sampled(self) -> bool:
        """Whether the windows of plain steps end with the step before: one for samples of counters may follow."""
        return (
            self._plan.counters
            and self._done_at is not None
            and self.steps_seen == self._done_at + 1 + sum(AFTER_STEPS)
        )

    def notes(self, light_steps: int) -> list[str]:
        """What of the plan could not be had; `light_steps` of the light pass are whole."""
        plan = self._plan
        if plan.steps and self.measured < plan.steps:
            if plan.early:
                return []
            needed = self._first + plan.steps
            return [
                f"{self.steps_seen} steps were marked and {self.measured} recorded; wait={plan.wait}, warmup="
                f"{plan.warmup} and steps={plan.steps} need {needed} (steps are marked by "
                "warplens.step(), the optimizer's step, or the forward of a module that is called again)"
            ]
        notes = []
        if not self.has_arguments:
            notes.append(
                "no ExecutionTrace: the program ended before its step"
                + ("" if plan.early else "; with wait=1 or more it comes before the recorded steps")
            )
        if light_steps < self._light_wanted:
            notes.append(
                f"the light pass has {light_steps} of {plural(self._light_wanted, 'step')}: the program ended, or the "
                "recording was paused, before the others"
            )
        return notes

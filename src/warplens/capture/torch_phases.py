"""Which step of a run PyTorch's profiler records, and for what."""

from __future__ import annotations

from typing import Final

from warplens.capture.plan import RecordingPlan

MEASURED: Final = "measured"
ARGUMENTS: Final = "arguments"
"""For the ExecutionTrace, and for the trace of the same step, which ties the two together."""
NOTHING: Final = ""


class RecordingPhases:
    """Counts the steps of a plan.

    >>> phases = RecordingPhases(RecordingPlan(steps=1, wait=2))
    >>> names = []
    >>> for _ in range(4):
    ...     names.append(phases.now)
    ...     phases.steps_seen += 1
    >>> names
    ['', 'arguments', 'measured', 'arguments']
    """

    def __init__(self, plan: RecordingPlan) -> None:
        self._plan = plan
        self.steps_seen = self.measured = 0
        self.has_arguments = plan.data == "tree" or plan.execution_trace != "step" or not plan.steps
        """Whether the ExecutionTrace is recorded, or none is requested."""

    @property
    def now(self) -> str:
        """What the step that runs now is recorded for."""
        plan = self._plan
        if not plan.steps:
            return MEASURED
        first = plan.wait + plan.warmup
        if first <= self.steps_seen < first + plan.steps:
            return MEASURED
        is_beside = self.steps_seen == first - 1 or self.steps_seen == first + plan.steps
        return ARGUMENTS if is_beside and not self.has_arguments else NOTHING

    @property
    def is_warming(self) -> bool:
        """Whether the profiler is to be loaded now; a step for the ExecutionTrace does that as well."""
        plan = self._plan
        return plan.wait <= self.steps_seen < plan.wait + plan.warmup and self.has_arguments

    def notes(self) -> list[str]:
        """What of the plan could not be had."""
        plan = self._plan
        if plan.steps and self.measured < plan.steps:
            needed = plan.wait + plan.warmup + plan.steps
            return [
                f"{self.steps_seen} steps were marked and {self.measured} recorded; wait={plan.wait}, warmup="
                f"{plan.warmup} and steps={plan.steps} need {needed} (a step ends with Optimizer.step() or "
                "warplens.step())"
            ]
        if not self.has_arguments:
            return [
                "no ExecutionTrace: the program ended before its step; with wait=1 or more it comes before the "
                "recorded steps"
            ]
        return []

"""Times of steps while nothing is recorded: what a step takes without the profiler.

Only the host's clock is read at the marks of steps. A window of such steps begins and ends with a wait for the GPU, so
that its time is that of all its steps' work, wherever the host was ahead.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Final

from warplens_run.formats import bundle_files
from warplens_run.formats.bundle import Staging

BEFORE: Final = "before"
AFTER: Final = "after"
LEAST_STEPS: Final = 2
MOST_STEPS: Final = 10
AFTER_STEPS: Final = (LEAST_STEPS, MOST_STEPS - LEAST_STEPS)
"""Windows after the recorded steps, one after the other. How many steps are to come is not known, and a window counts
only with the wait at its last mark, so a short one comes first."""

SAMPLED_SECONDS: Final = 1.0
"""Of the window after those, where counters are sampled: ten steps may be over before power is renewed twice."""
MOST_SAMPLED_STEPS: Final = 5000


@dataclass(frozen=True)
class PlainWindow:
    """Unrecorded steps one after the other, before or after the recorded ones."""

    position: str
    steps: int
    seconds: float
    """From the wait for the GPU before the first to the end of the one after the last."""
    step_seconds: Sequence[float]
    """Between the marks: of the host, which may be ahead of the GPU. The last one ends after the wait."""
    start_ns: int = 0
    """When the window began: nanoseconds since 1970."""


class PlainSteps:
    """Times windows of steps; `settle` waits for the GPU, and is False where that is not possible now.

    >>> seconds = iter([10.0, 10.5, 11.5])
    >>> plain = PlainSteps(lambda: True, clock=lambda: next(seconds), now_ns=lambda: 7)
    >>> plain.begin("before", steps=2)
    >>> plain.mark()
    >>> plain.mark()
    >>> plain.windows
    [PlainWindow(position='before', steps=2, seconds=1.5, step_seconds=(0.5, 1.0), start_ns=7)]
    """

    def __init__(
        self,
        settle: Callable[[], bool],
        *,
        has_gpu: bool = True,
        clock: Callable[[], float] = time.perf_counter,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.windows: list[PlainWindow] = []
        self._settle, self._clock, self._now_ns, self._has_gpu = settle, clock, now_ns, has_gpu
        self._position, self._steps, self._start_ns = "", 0, 0
        self._marks: list[float] = []
        """Of the window that is open: when it began, and the ends of its steps; empty where none is open."""

    def begin(self, position: str, steps: int) -> None:
        """Open a window of this many steps; the first begins now."""
        if self._settle():
            self._position, self._steps = position, steps
            self._start_ns = self._now_ns()
            self._marks = [self._clock()]

    def begin_sampled(self) -> None:
        """Open a window that is long enough for a mean of samples, by the last one's times; none where that one is."""
        if not self.windows or self.windows[-1].seconds >= SAMPLED_SECONDS:
            return
        last = self.windows[-1]
        steps = math.ceil(SAMPLED_SECONDS * last.steps / last.seconds) if last.seconds > 0 else MOST_SAMPLED_STEPS
        self.begin(AFTER, min(steps, MOST_SAMPLED_STEPS))

    @property
    def is_open(self) -> bool:
        """Whether the steps that run now are timed."""
        return bool(self._marks)

    def mark(self) -> None:
        """A step has ended."""
        if not self._marks:
            return
        is_last = len(self._marks) == self._steps
        if is_last and not self._settle():
            self.drop()
            return
        self._marks.append(self._clock())
        if is_last:
            self._keep()

    def finish(self) -> None:
        """No more steps come. Without a GPU every mark ends a window; with one it lacks the wait at its last mark."""
        if len(self._marks) > LEAST_STEPS and not self._has_gpu:
            self._keep()
        self.drop()

    def drop(self) -> None:
        """Forget the window that is open: something other than steps happens in it."""
        self._marks = []

    def _keep(self) -> None:
        marks = self._marks
        steps = tuple(round(end - start, 9) for start, end in pairwise(marks))
        seconds = round(marks[-1] - marks[0], 9)
        self.windows.append(PlainWindow(self._position, len(steps), seconds, steps, self._start_ns))
        self.drop()


def write_timing(staging: Staging, windows: Sequence[PlainWindow], light_marks_ns: Sequence[int]) -> None:
    """Write the bundle's file of times, where there are any.

    `light_marks_ns` are the ends of the steps of the light pass, and before them its begin: nanoseconds since 1970.
    """
    if windows or light_marks_ns:
        facts: dict[str, Any] = {"version": bundle_files.TIMING_VERSION}
        facts |= {"windows": [asdict(window) for window in windows], "light_marks_ns": list(light_marks_ns)}
        staging.write_json(bundle_files.TIMING, facts)


def wait_for_gpu(torch: Any) -> bool:
    """Wait until the GPU has done all that was launched; False where that is not possible now."""
    if not (torch.cuda.is_available() and torch.cuda.is_initialized()):
        return True
    try:
        # A wait would spoil the graph that the program is capturing.
        if torch.cuda.is_current_stream_capturing():
            return False
        torch.cuda.synchronize()
    except RuntimeError:  # of a kernel that failed before: the program meets it as well
        return False
    return True

"""The search for the steps of a run: what is recorded until one is found, and again where a better mark comes later."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

from warplens_run.capture.backend_facts import BackendFacts
from warplens_run.capture.forward_watch import watch_compiler
from warplens_run.capture.recorded_files import RecordedPart
from warplens_run.capture.steps import StepSource
from warplens_run.capture.ticker import is_importing, is_inside_op
from warplens_run.capture.torch_phases import FIRST, MEASURED, NOTHING, START, RecordingPhases
from warplens_run.formats.bundle_files import STEPS_FOUND_BY

SEARCH_SECONDS: Final = 2.0
"""How much is recorded of a program in which no step is found, from its first op on."""
WORK_SECONDS: Final = 0.25
"""Where Python frames are wanted, how much is recorded without them before the first look for ops in it; twice as much
before each look after it."""
NOT_FOUND: Final = "no steps were found (no warplens.step(), no optimizer's step, no module that is called again)"


class SearchHost(Protocol):
    """The backend for which steps are searched."""

    busy: threading.Lock
    """Held while recordings begin and end."""

    def may_switch(self) -> bool:
        """Whether what is being recorded can end now, on this thread."""

    def switch(self, before: str, after: str) -> None:
        """End what is recorded for one phase, and begin for another."""

    def has_work(self) -> bool:
        """Whether anything of the program's work is in what has been recorded."""

    def forget_steps(self, *, with_profile: bool) -> None:
        """What was counted were no steps; `with_profile` whatever is recorded next is better than what is kept."""

    def step(self) -> None: ...


class StepSearch:
    """Takes the marks of a run for a backend."""

    def __init__(self, phases: RecordingPhases, host: SearchHost, *, wants_frames: bool) -> None:
        self.source, self._at_begin = StepSource.NONE, False
        self._phases, self._host, self._wants_frames = phases, host, wants_frames
        self._began = time.monotonic()
        self._work_seconds = WORK_SECONDS
        self._is_at_work = False
        """Whether the program has been seen at something other than its imports."""
        self._unwatch: Callable[[], None] | None = None
        self._since = 0.0
        """When what is recorded of it began, or the program to work."""

    def step(self) -> None:
        self._host.step()

    def work_begins(self) -> None:
        """Record with frames from here: the first call of a module begins, and with it the first possible step."""
        with self._host.busy:
            before = self._phases.now
            if not self._phases.is_early or not self._host.may_switch():
                return
            self._phases.begin_work()
            self._host.switch(before, self._phases.now)
            self._since = time.monotonic()
        if self._unwatch is None:
            self._unwatch = watch_compiler(self._on_compile)

    def _on_compile(self) -> None:
        """Stop recording: a part of the program is being compiled, which takes long and is not a step."""
        if self._phases.now != FIRST or is_inside_op():
            return
        with self._host.busy:
            if self._host.may_switch():
                self._host.switch(FIRST, NOTHING)
                self._phases.cut()

    def stop(self) -> None:
        if self._unwatch is not None:
            self._unwatch()

    def found(self, source: StepSource, *, is_anew: bool, at_begin: bool) -> None:
        if is_anew and not self._phases.is_whole:
            with self._host.busy:
                if self._host.may_switch():
                    self._host.switch(self._phases.now, NOTHING)
                self._host.forget_steps(with_profile=False)
                self._phases.begin_anew()
        self.source, self._at_begin = source, at_begin

    def record_rest(self, *, is_better: bool = True) -> bool:
        """Record everything from now on, as the program chooses; False where the user has chosen steps.

        With `is_better` it replaces whatever has been recorded.
        """
        with self._host.busy:
            if not self._phases.is_early or not self._host.may_switch():
                return False
            self._host.switch(self._phases.now, NOTHING)
            self._host.forget_steps(with_profile=is_better)
            self._phases.record_rest()
            self._host.switch(NOTHING, MEASURED)
            return True

    def pauses(self) -> None:
        """Record everything but what the program pauses, if it does so before a step is found."""
        if not self._phases.steps_seen:
            self.record_rest(is_better=False)

    def look(self) -> None:
        """Called now and then on the main thread, between two of the program's own instructions."""
        if self._phases.steps_seen or self._phases.now not in (START, FIRST):
            return
        now = time.monotonic()
        if not self._is_at_work:
            if not is_importing():
                self._is_at_work, self._since = True, max(self._since, now)
        elif now - self._since < self._part_seconds or is_inside_op():
            return
        elif self._host.busy.acquire(blocking=False):
            try:
                self._end_part(self._phases.now)
            finally:
                self._host.busy.release()

    @property
    def _part_seconds(self) -> float:
        """How much is recorded before it ends: a short program shall have Python frames too, if they are wanted."""
        is_without = self._wants_frames and self._phases.now == START
        return min(self._work_seconds, SEARCH_SECONDS) if is_without else SEARCH_SECONDS

    def _end_part(self, phase: str) -> None:
        """End what is recorded of a run without steps, or begin again where there is nothing in it yet."""
        self._host.switch(phase, NOTHING)
        if phase == FIRST or (self._host.has_work() and not self._wants_frames):
            self._phases.cut()
            return
        self._work_seconds *= 2
        if self._host.has_work():  # once more, with Python frames
            self._phases.begin_work()
        self._host.switch(NOTHING, self._phases.now)
        self._since = time.monotonic()

    @property
    def steps_seen(self) -> int:
        """How many steps the program made; the last one has no mark where marks come at the beginning of the next."""
        return self._phases.steps_seen + self._at_begin

    def facts(self, part: RecordedPart | None, *, gpu: bool, recorded: int | None) -> BackendFacts:
        """The facts for the manifest; `recorded` is how many steps are, where they were not searched for."""
        if part is None or self._phases.is_whole:
            return BackendFacts(self._phases.steps_seen, gpu, recorded)
        found_by = part.source.name.lower()
        return BackendFacts(self.steps_seen, gpu, part.steps, found_by, round(part.seconds, 3))

    def summary(self, part: RecordedPart | None, wanted: int) -> list[str]:
        """A note on how much of the run is recorded, where steps were searched for and there is anything."""
        is_early = self._phases.is_early
        if part is None or not part.has_ops or self._phases.is_whole or not (is_early or part.steps >= wanted > 0):
            return []
        if not part.steps:
            seen = self.steps_seen
            why = f"no whole step of {seen} was recorded" if seen else NOT_FOUND
            what = f"{part.seconds:.1f} s of {time.monotonic() - self._began:.1f} s"
            frames = ", without Python frames" if self._wants_frames and part.phase == START else ""
            return [f"{why}: the profile has {what}{frames} (--steps all records everything)"]
        if not part.source:
            return []
        of = f" of {self.steps_seen}" if self.source is part.source else ""
        found_by = STEPS_FOUND_BY[part.source.name.lower()]
        short = f"; {wanted} were wanted" if part.steps < wanted else ""
        return [f"recorded {part.steps}{of} steps, found by {found_by}{short}"]

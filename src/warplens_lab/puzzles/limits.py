"""How long a learner's code may run, and how it is stopped.

An exception raised by a timer lands anywhere: in the interpreter, in a clean-up, in a handler that swallows it. So the
timer only notes the statement that is running; the exception is raised at the next line of the learner's file, where
nothing of the checker is half done. Whatever then comes out, the note decides what is reported.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, Final

Program = tuple[int, int, int]
INTERVAL_SECONDS: Final = 0.1
"""CPU time between two signals once the time is up."""
PATIENT_SIGNALS: Final = 20
"""After so many of them without a line of the learner's file, the exception is raised wherever the code is."""


class OutOfTime(BaseException):
    """The learner's code ran longer than it may; no error, so that code which handles errors does not catch it."""


@dataclass(frozen=True)
class Expiry:
    """Where the time ran out: the line of the learner's file, 0 outside of it, and the program that was running."""

    line: int
    program: Program | None


class TimeLimit:
    """CPU time that the code of one file may take, over all its launches: on a busy machine it is only slower.

    >>> limit = TimeLimit(10.0, "answer.py")
    >>> with limit.running():
    ...     pass
    >>> limit.expiry is None
    True

    Code that waits without computing, or a system without such signals, is left to the parent process.
    """

    def __init__(self, seconds: float | None, file: str) -> None:
        self.expiry: Expiry | None = None
        self.forced = False
        """Whether the exception was raised outside of the learner's file: this process may not be reused."""
        self._file = file
        self._remaining_seconds = seconds if hasattr(signal, "setitimer") else None
        self._signals = 0

    def running(self, program: Callable[[], Program | None] = lambda: None) -> _Running:
        """A block that runs the learner's code; it raises `OutOfTime`, and nothing else, if the time ends in it."""
        return _Running(self, program)


class _Running:
    def __init__(self, limit: TimeLimit, program: Callable[[], Program | None]) -> None:
        self._limit = limit
        self._program = program
        self._counting = False
        self._handler: Any = None
        self._tracer: Any = None

    def __enter__(self) -> None:
        if self._limit._remaining_seconds is None:
            return
        self._tracer = sys.gettrace()
        self._counting = True
        self._handler = signal.signal(signal.SIGPROF, self._on_signal)
        signal.setitimer(signal.ITIMER_PROF, max(self._limit._remaining_seconds, 1e-6), INTERVAL_SECONDS)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        limit = self._limit
        if limit._remaining_seconds is None:
            return
        self._counting = False
        remaining_seconds, _ = signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self._handler)
        limit._remaining_seconds = remaining_seconds
        if limit.expiry is not None:
            sys.settrace(self._tracer)
            raise OutOfTime from error

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        limit = self._limit
        if not self._counting:
            return
        limit._signals += 1
        own_frames = self._frames_of_the_file(frame)
        if limit.expiry is None:
            limit.expiry = Expiry(own_frames[0].f_lineno if own_frames else 0, self._program())
        if limit._signals > PATIENT_SIGNALS:
            limit.forced = True
            raise OutOfTime
        # Again with every signal: Python drops a trace function that has raised, and the code may have caught that.
        for own_frame in own_frames:
            own_frame.f_trace = self._at_line
        sys.settrace(self._at_call)

    def _frames_of_the_file(self, frame: FrameType | None) -> list[FrameType]:
        """The innermost first."""
        frames = []
        while frame is not None:
            if frame.f_code.co_filename == self._limit._file:
                frames.append(frame)
            frame = frame.f_back
        return frames

    def _at_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Called for every function that is entered; the lines of the file's own are followed."""
        return self._at_line if frame.f_code.co_filename == self._limit._file else None

    def _at_line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line" and self._counting:
            if self._limit.expiry is None or not self._limit.expiry.line:
                self._limit.expiry = Expiry(frame.f_lineno, self._program())
            raise OutOfTime
        return self._at_line

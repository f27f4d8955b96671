"""What a process that checks answers is asked to do, as JSON in a file; it answers with one `Report` per line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NEEDS_NEW_PROCESS: Final = 75
"""Exit status of a worker that was stopped midway, with answers left to check."""


@dataclass(frozen=True)
class AnswerJob:
    """One file, its puzzle, and where the trace of the launch that the report is about is written."""

    file: str
    puzzle: str
    trace: str


@dataclass(frozen=True)
class CheckRequest:
    """`seconds` is the CPU time that each file's code may take."""

    seconds: float
    jobs: tuple[AnswerJob, ...]

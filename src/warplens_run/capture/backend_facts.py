"""What a profiler knows of the recording that it made, for the manifest of the bundle."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BackendFacts:
    """What the manifest has of a recording that a profiler knows."""

    steps_marked: int
    gpu: bool
    steps_recorded: int | None = None
    steps_found_by: str | None = None
    """Where they were searched for: "program", "optimizer", "forward" or "none"."""
    seconds_recorded: float | None = None

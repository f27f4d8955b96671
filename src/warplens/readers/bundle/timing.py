"""`timing.json` of a bundle: how long unrecorded steps took, and when the steps of the light pass ended."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from warplens.readers.shared.typed_json import decode_typed
from warplens_run.formats.bundle_files import TIMING_VERSION

MOST_SECONDS: Final = 1 << 33
"""Some 270 years: also as nanoseconds a number of 64 bits."""


class PlainWindow(msgspec.Struct, frozen=True):
    """Unrecorded steps one after the other, from one wait for the GPU to the next."""

    position: Literal["before", "after"]
    steps: int
    seconds: float
    step_seconds: tuple[float, ...] = ()
    start_ns: int = 0
    """When it began: nanoseconds since 1970; 0 in older bundles."""

    @property
    def step_ns(self) -> float:
        return 1e9 * self.seconds / self.steps


class Timing(msgspec.Struct, frozen=True):
    version: int
    windows: tuple[PlainWindow, ...] = ()
    light_marks_ns: tuple[int, ...] = ()
    """When the light pass began, and the ends of its steps: nanoseconds since 1970."""

    def __post_init__(self) -> None:
        if self.version != TIMING_VERSION:
            raise ValueError(f"version {self.version} is not known")
        if any(window.steps < 1 or not 0 < window.seconds < MOST_SECONDS for window in self.windows):
            raise ValueError("a window without steps or time")
        if any(not 0 <= mark < MOST_SECONDS * 10**9 for mark in self.light_marks_ns):
            raise ValueError("an impossible time")

    @property
    def is_before(self) -> bool:
        """Whether steps were timed before the recording."""
        return any(window.position == "before" for window in self.windows)

    @property
    def plain_step_ns(self) -> float | None:
        """A step's time without the profiler: of the longest window, before the recording if there is one.

        What a profiler loads stays loaded, and can slow down the steps after it.
        """
        windows = sorted(self.windows, key=lambda window: (window.position == "before", window.steps))
        return windows[-1].step_ns if windows else None


def parse(text: bytes) -> Timing:
    """Raises `msgspec.DecodeError` where it is not valid."""
    return decode_typed(text, Timing)

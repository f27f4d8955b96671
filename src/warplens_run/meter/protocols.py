"""What a meter, a loop and a clock must offer. Tests bring their own of each, so no GPU is needed to check the rest."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from warplens_run.base.errors import WarplensError


class MeterError(WarplensError):
    """A meter that worked stopped doing so: the GPU was lost, or the driver says no."""


class Meter(Protocol):
    """The energy one GPU has used, and its power."""

    @property
    def name(self) -> str:
        """What measures what: `NVML total energy, NVIDIA H200`"""

    @property
    def gpu(self) -> str:
        """The name of the GPU."""

    @property
    def uuid(self) -> str: ...

    @property
    def is_sampled(self) -> bool:
        """Whether the energy is a sum of power samples: there is no energy counter in the hardware."""

    def joules(self) -> float:
        """Energy since some moment that stays the same; only differences mean anything."""

    def watts(self) -> float | None:
        """Power at this moment, not an average of the last second; None if the GPU does not report it."""

    def close(self) -> None:
        """Ends what the meter does by itself."""


class MeteredLoop(Protocol):
    """Work that can be repeated without end. One replay is `calls` calls, enqueued and not waited for."""

    @property
    def calls(self) -> int: ...

    def launch(self) -> None: ...

    def completed(self) -> int:
        """Replays finished so far."""

    def synchronize(self) -> None: ...


@dataclass(frozen=True)
class Absent:
    """The reason why there is no meter."""

    reason: str


@dataclass(frozen=True)
class Timing:
    """A clock in seconds, and a way to let time pass."""

    clock: Callable[[], float] = time.perf_counter
    sleep: Callable[[float], None] = time.sleep

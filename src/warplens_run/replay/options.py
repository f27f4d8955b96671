"""The options of a run, and its progress reports."""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass
from typing import Final

from warplens_run.base.errors import UsageError
from warplens_run.formats.replay_result import CACHES

GRAPH: Final = "graph"
SUSTAINED: Final = "sustained"
"""A graph, too, after seconds of load: at the clocks that the GPU's power limit allows in a long run."""
TIMERS: Final = ("profiler", GRAPH, SUSTAINED)
DEVICE: Final = re.compile(r"(cpu|cuda(:\d{1,3})?)?")
MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
FREE_TO_CHANGE: Final = ("units", "imports", "unit_timeout", "allow_source", "seconds")
"""Options that decide which units can run, not what is measured of them: a run may be resumed under others."""


@dataclass(frozen=True)
class RunOptions:
    device: str = ""
    """cuda, cuda:N or cpu; empty: cuda"""
    cache: str = "in-situ"
    timer: str = "profiler"
    precision: float = 0.02
    """Repeats end where half the 95 % interval of the median is less than this share of it."""
    max_repeats: int = 200
    min_repeats: int = 20
    """Where the two contradict each other, the greatest number holds."""
    energy: bool | None = None
    """None: where there is a meter"""
    energy_seconds: float = 2.0
    energy_cover: float = 0.9
    """Energy is measured of the longest units that together take this share of the time: each costs seconds."""
    allow_source: bool = False
    unit_timeout: float = 120.0
    """Seconds that one unit may be silent for."""
    seconds: float = 0.0
    """A run begins no more units after so long; 0: it runs all of them."""
    units: tuple[str, ...] = ()
    """Ids of those to run; none: all that are ready"""
    imports: tuple[str, ...] = ()
    """Modules to import first: those that define custom ops"""
    seed: int = 0

    def check(self) -> None:
        """Raises a `UsageError` for what makes no sense."""
        for name, wrong, expected in (
            ("device", not DEVICE.fullmatch(self.device), "cuda, cuda:N or cpu"),
            ("cache", self.cache not in CACHES, f"one of {', '.join(CACHES)}"),
            ("timer", self.timer not in TIMERS, f"one of {', '.join(TIMERS)}"),
            ("precision", not 0 < self.precision < 1, "a share between 0 and 1"),
            ("min_repeats", self.min_repeats < 1, "1 or more"),
            ("max_repeats", self.max_repeats < 1, "1 or more"),
            ("energy_seconds", not 0 < self.energy_seconds <= 3600, "seconds, up to an hour"),
            ("energy_cover", not 0 < self.energy_cover <= 1, "a share above 0, at most 1"),
            ("unit_timeout", not (self.unit_timeout > 0 and math.isfinite(self.unit_timeout)), "seconds"),
            ("seconds", not (self.seconds >= 0 and math.isfinite(self.seconds)), "seconds, or 0 for no limit"),
            ("imports", not all(map(MODULE.fullmatch, self.imports)), "names of modules"),
        ):
            if wrong:
                raise UsageError(f"{name} is {expected}, not {getattr(self, name)!r}")

    def as_words(self) -> dict[str, str | int | float | bool]:
        """As a result records them."""
        words = {name: _word(value) for name, value in dataclasses.asdict(self).items()}
        return words | {"device": self.device or "cuda"}

    def measured(self) -> dict[str, str | int | float | bool]:
        """Those that decide what is measured: results under others of these are not comparable."""
        return {name: value for name, value in self.as_words().items() if name not in FREE_TO_CHANGE}


@dataclass(frozen=True)
class Progress:
    """Reported before each unit and once at the end, when `unit` is empty."""

    done: int
    total: int
    unit: str
    op: str
    share: float
    """of the GPU time of the units to run"""


def _word(value: object) -> str | int | float | bool:
    if value is None:
        return "auto"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    if isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"no word for {value!r}")

"""The readings of one GPU, and their means over a window of time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from warplens.model.trace import Ints

Floats = npt.NDArray[np.float64]
LEAST_SAMPLES: Final = 3
"""In a window, for its mean to be more than a guess."""
LARGEST_GAP: Final = 0.5
"""Of a window: where more of it is between two samples, it was not sampled."""
USUAL_RENEWAL_NS: Final = 100_000_000
"""Of NVML's readings of power, clock and utilisation: 97 to 131 ms on an H200."""
LEAST_RENEWALS: Final = 5
"""In a window: until the first of them the reading is from before it, and a mean of one or two says little."""
LEAST_CHANGES: Final = 4
PAUSE: Final = 3
"""Times the usual spacing of samples: what is longer is a pause of the sampling."""
Window = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Series:
    """One counter of one GPU, in the order of time."""

    times_ns: Ints
    values: Floats
    limit: float | None = None

    def mean(self, windows: list[Window]) -> float | None:
        """Over all these windows together; None where one of them was not sampled.

        Readings are joined by straight lines: a window seldom begins with a sample.
        """
        areas = [self._area(window) for window in windows]
        seconds = sum(end - begin for begin, end in windows)
        if not areas or seconds <= 0 or not all(map(self._is_sampled, windows)):
            return None
        return sum(areas) / seconds

    @cached_property
    def renewal_ns(self) -> int:
        """The median time between two different readings: samples in between repeat the one before."""
        spacing = np.diff(self.times_ns)
        if not len(spacing):
            return USUAL_RENEWAL_NS
        pauses = np.concatenate([[False], spacing > PAUSE * np.median(spacing)])
        stretch = np.cumsum(pauses)
        changes = np.flatnonzero((np.diff(self.values, prepend=self.values[0]) != 0) & ~pauses)
        periods = np.diff(self.times_ns[changes])[np.diff(stretch[changes]) == 0]
        return int(np.median(periods)) if len(periods) >= LEAST_CHANGES else USUAL_RENEWAL_NS

    @property
    def least_ns(self) -> int:
        """How long a window must be for its mean to be of the work in it."""
        return LEAST_RENEWALS * self.renewal_ns

    def mean_of_work(self, window: Window) -> float | None:
        """What the work of a window draws: without its first renewal, until which the reading is from before it."""
        begin, end = window
        return self.mean([(begin + self.renewal_ns, end)]) if end - begin >= self.least_ns else None

    def count(self, windows: list[Window]) -> int:
        return sum(int(((self.times_ns >= begin) & (self.times_ns <= end)).sum()) for begin, end in windows)

    def _area(self, window: Window) -> float:
        begin, end = window
        if not len(self.times_ns):
            return 0.0
        inside = (self.times_ns > begin) & (self.times_ns < end)
        times = np.concatenate([[begin], self.times_ns[inside], [end]])
        values = np.interp(times, self.times_ns, self.values)
        return float((np.diff(times) * (values[1:] + values[:-1]) / 2).sum())

    def _is_sampled(self, window: Window) -> bool:
        begin, end = window
        inside = self.times_ns[(self.times_ns >= begin) & (self.times_ns <= end)]
        gaps = np.diff(np.concatenate([[begin], inside, [end]]))
        return len(inside) >= LEAST_SAMPLES and bool(gaps.max() <= LARGEST_GAP * (end - begin))


NO_SERIES: Final = Series(np.empty(0, np.int64), np.empty(0, np.float64))


def series_of(counters: pl.DataFrame, device: int, counter: str) -> Series:
    rows = counters.filter((pl.col("device") == device) & (pl.col("counter") == counter))
    if not rows.height:
        return NO_SERIES
    limit = rows["limit"][0]
    return Series(rows["start_ns"].to_numpy(), rows["value"].to_numpy(), None if limit is None else float(limit))

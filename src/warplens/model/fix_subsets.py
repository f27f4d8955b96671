"""`FixSubsets`: how long a step takes with any of some findings mended."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FixSubsets:
    """Gains do not add up, so each subset has a time of its own: a table that a page can look up.

    >>> FixSubsets((0, 3), 2, (10.0, 8.0, 9.0, 7.5)).with_rows({3})
    9.0
    """

    rows: tuple[int, ...]
    """Rows of the table `findings`, the first that describe a change to the step."""
    out_of: int
    """How many rows describe one."""
    step_ms: tuple[float, ...]
    """The step without the profiler per subset; bit n of its number says whether `rows[n]` is in it."""
    fast_ms: tuple[float, ...] = ()
    """The same with the fastest host that fits, and changes that save the most."""
    slow_ms: tuple[float, ...] = ()
    """The same with the slowest host, and changes that save the least."""
    unchanged_ms: tuple[float, float] = (0.0, 0.0)
    """The interval of the step as it is."""
    share_of_gain: float = 0.0
    share_of_step: float = 0.0
    """What a simulated gain is off by besides, as in the table what_if."""

    def with_rows(self, mended: set[int]) -> float:
        """The step with these findings mended."""
        return self.step_ms[sum(1 << place for place, row in enumerate(self.rows) if row in mended)]

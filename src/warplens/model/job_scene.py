"""`JobScene`: the ranks of a job as a page draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True)
class DrawnRank:
    """A rank that has a timeline on the page."""

    rank: int
    host: str
    stage: int
    """Of a pipeline; -1 for none."""
    why: str
    """Why it was chosen among many: slowest, median …; empty where all are drawn."""


@dataclass(frozen=True)
class JobScene:
    """Times in ns since the job's first event, on the job's clock; `place` is a place in `drawn`.

    `steps`: place, step, start_ns, end_ns. `compute`: place, start_ns, end_ns. `calls`: one row per communication
    kernel: place, start_ns, dur_ns, wait_ns (null where it is not matched), match (-1), kind, group, bytes (-1), step
    (-1), peer (-1). All are in order of place and start.
    """

    ranks: Sequence[int]
    """All ranks of the job."""
    drawn: Sequence[DrawnRank]
    steps: pl.DataFrame
    compute: pl.DataFrame
    calls: pl.DataFrame

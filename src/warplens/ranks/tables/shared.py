"""What several tables of a job need."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from warplens.model.table import Column
from warplens.ranks.job import Job

RANK = Column("rank", "number of the rank", "", pl.Int64)
STEP = Column("step", "number of the step", "", pl.Int64)


def numbered(job: Job, column: str = "rank") -> pl.Expr:
    """Positions of ranks as their numbers."""
    positions = list(range(len(job.ranks)))
    return pl.col(column).cast(pl.Int64).replace_strict(positions, job.ranks, default=None, return_dtype=pl.Int64)


def in_ms(column: str, name: str = "") -> pl.Expr:
    return (pl.col(column) / 1e6).alias(name or column.removesuffix("_ns") + "_ms")


def in_us(column: str, name: str = "") -> pl.Expr:
    return (pl.col(column) / 1e3).alias(name or column.removesuffix("_ns") + "_us")


def ranges(numbers: Sequence[int]) -> str:
    """Numbers as short text.

    >>> ranges([0, 1, 2, 3, 8]), ranges([5])
    ('0–3, 8', '5')
    """
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}–{part[-1]}" for part in parts)

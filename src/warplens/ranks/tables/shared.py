"""What several tables of a job need."""

from __future__ import annotations

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

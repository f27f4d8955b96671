"""`unique_kernels` of a job: the kernels of all ranks as one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from warplens.analyses.units.unique import KERNEL_COLUMNS, by_kernel, with_shares
from warplens.model.table import Column, Table

RANKS: Final = Column("ranks", "number of ranks that run it", "", pl.Int64)
PER_RANK: Final = Column("per_rank_us", "total_us by the number of ranks that run it", "us", pl.Float64)
PERCENT: Final = Column("percent", "share of the GPU time of all ranks", "%", pl.Float64)
CUMULATIVE: Final = Column(
    "cumulative_percent", "share of the GPU time of all ranks, this row and all above it", "%", pl.Float64
)


def _columns() -> list[Column]:
    """Those of one trace without units, whose numbers mean nothing on another rank; counts are of all ranks."""
    own = {column.name: column for column in KERNEL_COLUMNS if column.name != "units"}
    own |= {column.name: column for column in (RANKS, PER_RANK, PERCENT, CUMULATIVE)}
    first = ("kernel", "kernel_short", "kernel_category", "api", "ranks", "count", "total_us", "per_rank_us")
    return [own[name] for name in dict.fromkeys((*first, *own))]


def unique_kernels_of_job(groups: Mapping[int, pl.DataFrame]) -> Table:
    """`groups`: what `kernel_groups` makes of the trace of each rank."""
    every = pl.concat([frame.with_columns(pl.lit(rank).alias("rank")) for rank, frame in groups.items()])
    frame = by_kernel(every, pl.col("rank").n_unique().cast(pl.Int64).alias("ranks"))
    frame = frame.with_columns((pl.col("total_us") / pl.col("ranks")).alias("per_rank_us"))
    frame = with_shares(frame, int(every["total_ns"].sum()))
    return Table.from_frame("unique_kernels", "one row per kernel name, of all ranks together", _columns(), frame)

"""`JobOps`: what the workers of a training job ran, op by op; what readers of op tables return."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import polars as pl

from warplens.model.quality import Quality

OP_SCHEMA: Final[dict[str, pl.DataType]] = {
    "op_type": pl.String(),
    "rank": pl.Int64(),
    "dp_rank": pl.Int64(),
    "stage": pl.Int64(),
    "step": pl.Int64(),
    # Number of the op among those of its type, worker and step.
    "sequence": pl.Int64(),
    # Model chunk of the worker, and of the whole model; -1 where the op belongs to none.
    "chunk": pl.Int64(),
    "global_chunk": pl.Int64(),
    "microbatch": pl.Int64(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
}


@dataclass(frozen=True)
class JobOps:
    """One row per op in `ops` (`OP_SCHEMA`); a worker is a pair of data-parallel rank and pipeline stage."""

    source: str
    ops: pl.DataFrame
    name: str = ""
    sizes: dict[str, int] = field(default_factory=dict)
    """Sizes of the job (`world_size`, `dp_size`, `pp_size`, `tp_size` …), as far as they are known."""
    content_hash: str = ""
    size_bytes: int = 0
    quality: Quality = field(default_factory=Quality)


def no_ops(source: str = "") -> JobOps:
    """A job without ops."""
    return JobOps(source, pl.DataFrame(schema=OP_SCHEMA))

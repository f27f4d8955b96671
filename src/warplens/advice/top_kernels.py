"""The kernels that take most of a step, as shares of it: those of a category share what its part of the step is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from warplens.analyses.graph.breakdown import BUSY, EXPOSED_COMMUNICATION, EXPOSED_COPIES
from warplens.model.answer import AnsweredKernel, Part
from warplens.model.clock import Clock
from warplens.model.table import Table

MOST: Final = 10
ON_GPU: Final = (BUSY, EXPOSED_COMMUNICATION, EXPOSED_COPIES)


def top_kernels(kernels: Table, parts: Sequence[Part], clock: Clock | None) -> tuple[AnsweredKernel, ...]:
    """By kernel and op, the longest first. Sums of durations are no shares of a step: several GPUs and streams work at
    once, and communication counts only where nothing computes."""
    own = [(part.cause, part.time_ms) for part in parts if part.part in ON_GPU]
    if clock is None or not own:
        return ()
    time_of = pl.DataFrame(own, schema={"cause": pl.String, "part_ms": pl.Float64}, orient="row")
    recorded = pl.col("step_us" if clock.steps else "total_us")
    is_copy = pl.col("kernel_short").is_in([part.cause for part in parts if part.part == EXPOSED_COPIES])
    frame = kernels.frame.with_columns(
        pl.when(is_copy).then("kernel_short").otherwise("kernel_category").alias("cause")
    )
    per_step = (pl.col("count").sum() / max(1, clock.steps)).ceil().cast(pl.Int64)
    frame = frame.group_by("kernel_short", "op", "cause").agg(recorded.sum().alias("us"), per_step)
    share = pl.col("us") / pl.col("us").sum().over("cause")
    frame = frame.filter(pl.col("us") > 0).join(time_of, on="cause")
    frame = frame.with_columns((share * pl.col("part_ms")).alias("time_ms"))
    frame = frame.sort("time_ms", "kernel_short", "op", descending=[True, False, False]).head(MOST)
    return tuple(
        AnsweredKernel(kernel, op, ms, 100 * ms / clock.step_ms, count)
        for kernel, op, ms, count in frame.select("kernel_short", "op", "time_ms", "count").iter_rows()
    )

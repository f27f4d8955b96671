"""The kernels that take most of a step, as shares of it: those of a category share what its part of the step is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from warplens.analyses.graph.breakdown import COMPUTATION, EXPOSED_COMMUNICATION, EXPOSED_COPIES
from warplens.model.answer import AnsweredKernel, Part
from warplens.model.clock import Clock
from warplens.model.table import Table

MOST: Final = 10
ON_GPU: Final = (COMPUTATION, EXPOSED_COMMUNICATION, EXPOSED_COPIES)


def top_kernels(kernels: Table, parts: Sequence[Part], clock: Clock | None) -> tuple[AnsweredKernel, ...]:
    """Of a trace, by kernel and op, the longest first; what shares a part is of one category."""
    if clock is None:
        return ()
    is_copy = pl.col("kernel_short").is_in([part.cause for part in parts if part.part == EXPOSED_COPIES])
    recorded = "step_us" if clock.steps else "total_us"
    frame = kernels.frame.select(
        pl.col("kernel_short").alias("kernel"),
        "op",
        pl.when(is_copy).then("kernel_short").otherwise("kernel_category").alias("part"),
        pl.col(recorded).alias("us"),
        "count",
    )
    return _longest(frame, [(part.cause, part.time_ms) for part in parts if part.part in ON_GPU], clock)


def top_kernels_of_rank(kernels: pl.DataFrame, parts: Sequence[Part], clock: Clock) -> tuple[AnsweredKernel, ...]:
    """Of a rank of a job, whose computation is one part; what is exposed of communication is a wait or a transfer."""
    return _longest(kernels, [(part.part, part.time_ms) for part in parts if part.part in ON_GPU], clock)


def _longest(kernels: pl.DataFrame, parts: Sequence[tuple[str, float]], clock: Clock) -> tuple[AnsweredKernel, ...]:
    """`kernels`: kernel, op, part, us and count. Sums of durations are no shares of a step: several GPUs and streams
    work at once, and communication counts only where nothing computes."""
    if not parts:
        return ()
    time_of = pl.DataFrame(parts, schema={"part": pl.String, "part_ms": pl.Float64}, orient="row")
    time_of = time_of.group_by("part").agg(pl.col("part_ms").sum())
    per_step = (pl.col("count").sum() / max(1, clock.steps)).ceil().cast(pl.Int64)
    frame = kernels.group_by("kernel", "op", "part").agg(pl.col("us").sum(), per_step)
    share = pl.col("us") / pl.col("us").sum().over("part")
    frame = frame.filter(pl.col("us") > 0).join(time_of, on="part")
    frame = frame.with_columns((share * pl.col("part_ms")).alias("time_ms"))
    frame = frame.sort("time_ms", "kernel", "op", descending=[True, False, False]).head(MOST)
    return tuple(
        AnsweredKernel(kernel, op, ms, 100 * ms / clock.step_ms, count)
        for kernel, op, ms, count in frame.select("kernel", "op", "time_ms", "count").iter_rows()
    )

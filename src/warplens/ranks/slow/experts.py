"""All-to-alls that send one rank more than the others: a hot expert."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from warplens.ranks.kinds import split_sizes
from warplens.ranks.own_pace import JobModel
from warplens.ranks.roles import roles
from warplens.ranks.slow.causes import cause_on_gpu
from warplens.ranks.slow.comparing import change_point, excess_over_peers, first_usable, grown
from warplens.ranks.slow.records import IMBALANCE, Excess, Straggler
from warplens.ranks.slow.removing import gain_ms, with_transfers, without

HOT: Final = 1.15
"""A rank that so many times the mean goes to is hot."""


def hot_experts(model: JobModel) -> list[Straggler]:
    """The rank that most goes to, or comes from, where it is far more than the mean; with its excess of computation."""
    traffic = _traffic(model)
    if traffic.is_empty():
        return []
    begin, steps = first_usable(model), model.pace.steps
    sums = traffic.group_by("rank").agg(pl.col("elements").sum()).sort("elements", "rank", descending=[True, False])
    position = int(sums["rank"][0])
    is_own = pl.col("rank") == position
    groups = traffic.filter(is_own.any().over("match"))
    each = groups.filter(is_own).group_by("step").agg(pl.col("elements", "even").sum())
    ratio = np.ones(len(steps))
    ratio[np.searchsorted(steps, each["step"].to_numpy())] = (each["elements"] / each["even"]).to_numpy()
    first, mean = change_point(ratio[begin:] - 1)
    first += begin
    if 1 + mean < HOT:
        return []
    gpu = excess_over_peers(model.pace.gpu_ns, roles(model.job))[position]
    excess = Excess((position,), first, gpu_ns=max(0.0, grown(gpu, begin, first)))
    graph = with_transfers(without(model, excess), _even_transfers(model, groups, steps[first]))
    _, place = cause_on_gpu(model, excess)
    what = f"{1 + mean:.1f} times the mean of the all-to-alls goes to it"
    # Not sure: that transfers take as long as their largest part does is true of large ones only.
    return [Straggler((position,), steps[first], IMBALANCE, excess.gpu_ns / 1e6, gain_ms(model, graph, first), 1.0,
                      place, "low", what)]  # fmt: skip


def _traffic(model: JobModel) -> pl.DataFrame:
    """Per all-to-all and rank: the elements sent or received, whichever are more, and how many even ones would be."""
    job = model.job
    calls = job.matched.filter(
        (pl.col("kind") == "all_to_all")
        & (pl.col("in_splits").str.len_chars() > 2)
        & pl.col("step").is_in(model.pace.steps)
    )
    calls = calls.with_columns(_sum_of(calls["in_splits"]).alias("sent"), _sum_of(calls["out_splits"]).alias("came"))
    return calls.select(
        "match",
        "step",
        "rank",
        pl.max_horizontal("sent", "came").alias("elements"),
        pl.col("sent").mean().over("match").alias("even"),
    ).filter(pl.col("even") > 0)


def _sum_of(splits: pl.Series) -> pl.Series:
    return pl.Series([sum(split_sizes(text)) for text in splits], dtype=pl.Int64)


def _even_transfers(model: JobModel, traffic: pl.DataFrame, since: int) -> dict[int, float]:
    """Transfers of the all-to-alls if all ranks had the same: they take as long as the largest part does."""
    sums = traffic.filter(pl.col("step") >= since)
    share = sums.group_by("match").agg((pl.col("even").first() / pl.col("elements").max()).clip(0, 1).alias("share"))
    moved = model.job.matched.unique("match").select("match", "transfer_ns").join(share, on="match")
    even = moved.select("match", (pl.col("transfer_ns") * pl.col("share")).alias("even_ns"))
    return dict(even.iter_rows())

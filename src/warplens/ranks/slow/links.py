"""Transfers that take longer than those of the same kind and size in other groups, or than before."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from warplens.ranks.own_pace import JobModel
from warplens.ranks.slow.comparing import change_point
from warplens.ranks.slow.records import NETWORK, Straggler
from warplens.ranks.slow.removing import gain_ms, with_transfers

SLOW: Final = 1.2
"""A transfer that takes so many times as long as usual is slow."""
USUAL: Final = 0.3
"""Quantile that counts as usual: up to two thirds of the transfers may be slow."""
ALIKE: Final = 6
"""Fewer transfers of one kind and size say nothing."""
MOSTLY: Final = 0.8
"""Of a rank's transfers: the share that has to be slow."""
KEYS: Final = ("kind", "bytes", "members")


def slow_links(model: JobModel) -> list[Straggler]:
    """The rank most of whose transfers are slow; several where all of their groups are the same."""
    calls, first = _compared(model)
    steps = model.pace.steps
    later = calls.filter(pl.col("step") >= steps[first])
    by_rank = later.group_by("rank").agg(pl.col("is_slow").mean().alias("slow"), pl.col("more_ns").clip(0).sum())
    by_rank = by_rank.filter(pl.col("slow") >= MOSTLY).sort("slow", "more_ns", descending=True)
    if by_rank.is_empty():
        return []
    most = float(by_rank["slow"][0])
    positions = tuple(sorted(by_rank.filter(pl.col("slow") > 0.95 * most)["rank"].to_list()))
    own = later.filter(pl.col("rank").is_in(list(positions)) & pl.col("is_slow"))
    graph = with_transfers(model.graph, dict(own.select("match", "usual_ns").unique("match").iter_rows()))
    place = own.group_by("kind", "group").agg(pl.col("more_ns").sum()).sort("more_ns", descending=True).row(0)
    per_step = float(own.unique("match")["more_ns"].sum()) / 1e6 / max(1, len(steps) - first)
    return [Straggler(positions, steps[first], NETWORK, per_step, gain_ms(model, graph, first), most,
                      f"{place[0]} in group {place[1]}", "high" if len(positions) == 1 else "low")]  # fmt: skip


def _compared(model: JobModel) -> tuple[pl.DataFrame, int]:
    """Transfers with what is usual for them, and the index of the step from which on they are slow."""
    steps = model.pace.steps
    calls = model.job.matched.filter((pl.col("transfer_ns") > 0) & pl.col("step").is_in(steps))
    usual = pl.col("transfer_ns").quantile(USUAL, "lower").over(KEYS)
    calls = calls.with_columns(usual.alias("usual_ns"), pl.col("match").n_unique().over(KEYS).alias("alike"))
    calls = calls.filter(pl.col("alike") >= ALIKE).with_columns(
        (pl.col("transfer_ns") > SLOW * pl.col("usual_ns")).alias("is_slow"),
        (pl.col("transfer_ns") - pl.col("usual_ns")).alias("more_ns"),
    )
    by_step = calls.filter("is_slow").group_by("step").agg(pl.col("more_ns").sum())
    series = np.zeros(len(steps))
    series[np.searchsorted(steps, by_step["step"].to_numpy())] = by_step["more_ns"].to_numpy()
    return calls, change_point(series)[0]

"""What ranks take longer than their peers, and from which step on."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.graph.records import Floats
from warplens.model.trace import Ints
from warplens.ranks.own_pace import JobModel

MANY_STEPS: Final = 4
ODD_FIRST: Final = 1.5
"""The first step of a recording that takes a rank so many times as long as its others has reasons of its own."""
ODD_SHARE: Final = 0.1
"""Of the job's step: by so much more, if only one rank's first step is odd."""
NUMBERED: Final = r"#\d+"


def first_usable(model: JobModel) -> int:
    """Index of the first step to compare: not one that took all ranks, or one of them, much longer than later ones."""
    own = model.pace.own_ns
    if own.shape[1] < MANY_STEPS:
        return 0
    together, usual = np.median(own, axis=0), np.median(own[:, 1:], axis=1)
    of_one = (own[:, 0] > ODD_FIRST * usual) & (own[:, 0] - usual > ODD_SHARE * np.median(model.step_ns))
    return int(together[0] > ODD_FIRST * np.median(together) or bool(of_one.any()))


def excess_over_peers(values: Floats, role: Ints) -> Floats:
    """What each rank takes longer than the median of the ranks that do the same, step by step."""
    excess = np.zeros_like(values)
    for number in np.unique(role).tolist():
        own = role == number
        excess[own] = values[own] - np.median(values[own], axis=0)
    return excess


def usual_difference(excess: Floats) -> float:
    """How far ranks usually are from their peers."""
    return 1.48 * float(np.median(np.abs(excess)))


def usual_change(excess: Floats) -> float:
    """How much that usually differs from one step to the next: the same where half of the ranks are slow for long."""
    changes = np.abs(np.diff(excess, axis=1))
    return 1.48 * float(np.median(changes)) / np.sqrt(2) if changes.size else usual_difference(excess)


def change_point(series: Floats) -> tuple[int, float]:
    """From which index on a series is above zero, and its mean from there: the split that explains most of it.

    >>> change_point(np.array([0.0, 0.1, 0.0, 5.0, 5.1, 4.9]))
    (3, 5.0)
    >>> change_point(np.array([5.0, 5.0, 5.0]))
    (0, 5.0)
    """
    sizes = np.arange(len(series), 0, -1)
    means = np.cumsum(series[::-1])[::-1] / sizes
    first = int(np.argmax(np.where(means > 0, means**2 * sizes, 0.0)))
    return first, float(means[first])


def grown(series: Floats, begin: int, first: int) -> float:
    """The mean of a series from `first` on, less its mean before: what changed then, not what was always so."""
    before = float(series[begin:first].mean()) if first > begin else 0.0
    return float(series[first:].mean()) - before


def per_step(model: JobModel, frame: str, first: int, keys: list[str], values: list[str]) -> pl.DataFrame:
    """Means per step and rank of a frame of the digests, by `keys`, from one step on."""
    steps = model.pace.steps[first:]
    parts = [
        digest.frames[frame]
        .filter(pl.col("step").is_in(steps))
        .with_columns(pl.lit(position).alias("rank"), pl.col(keys[0]).str.replace_all(NUMBERED, "#"))
        for position, digest in enumerate(model.job.digests)
    ]
    return pl.concat(parts).group_by("rank", *keys).agg(pl.col(values).sum() / max(1, len(steps)))


def against_others(frame: pl.DataFrame, positions: tuple[int, ...], keys: list[str], value: str) -> pl.DataFrame:
    """What some ranks have more of than the median of the others, by `keys`, the most first."""
    is_own = pl.col("rank").is_in(list(positions))
    count = frame.filter(~is_own)["rank"].n_unique()
    others = frame.filter(~is_own).group_by(keys).agg(pl.col(value).median().alias("usual"), pl.len().alias("ranks"))
    # What most of the others do not do at all is usually nothing.
    usual = pl.when(pl.col("ranks") * 2 > count).then("usual").otherwise(0.0)
    own = frame.filter(is_own).group_by(keys).agg((pl.col(value).sum() / len(positions)).alias("own"))
    joined = own.join(others.select(*keys, usual.alias("usual")), on=keys, how="left")
    more = pl.col("own") - pl.col("usual").fill_null(0.0)
    return joined.with_columns(more.alias("more")).sort("more", *keys, descending=[True, *[False] * len(keys)])

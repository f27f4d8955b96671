"""`kernel_autotune`: the configs that `triton.autotune` timed in a recorded run, and the one that it chose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from warplens.model.table import Column, Table

COLUMNS: Final = (
    Column("kernel", "its name", "", pl.String),
    Column("key", "arguments that it was tuned for", "", pl.String),
    Column("config", "constants and options", "", pl.String),
    Column("time_us", "what autotune measured; null where the config failed", "us", pl.Float64),
    Column("times_best", "over the best config of the same key", "", pl.Float64),
    Column("is_chosen", "whether the run went on with it", "", pl.Boolean),
)


@dataclass(frozen=True)
class TunedConfig:
    """A config that was timed."""

    kernel: str
    key: str
    config: str
    time_us: float | None
    is_chosen: bool


def kernel_autotune(configs: Sequence[TunedConfig]) -> Table:
    """By kernel and key, the quickest first."""
    best: dict[tuple[str, str], float] = {}
    for tuned in configs:
        if tuned.time_us is not None:
            key = (tuned.kernel, tuned.key)
            best[key] = min(tuned.time_us, best.get(key, tuned.time_us))
    ordered = sorted(configs, key=lambda tuned: (tuned.kernel, tuned.key, tuned.time_us or float("inf")))
    rows = [
        {
            "kernel": tuned.kernel,
            "key": tuned.key,
            "config": tuned.config,
            "time_us": tuned.time_us,
            "times_best": tuned.time_us / best[tuned.kernel, tuned.key] if tuned.time_us else None,
            "is_chosen": tuned.is_chosen,
        }
        for tuned in ordered
    ]
    return Table.from_rows("kernel_autotune", "one row per config that was timed", COLUMNS, rows)

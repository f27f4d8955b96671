"""Figures that several rules read off the tables, named once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from warplens.model.table import Table

TAKING_TURNS = "GPUs taking turns"


@dataclass(frozen=True)
class Facts:
    """The tables of a trace and what the rules ask of them."""

    tables: Mapping[str, Table]

    def frame(self, name: str) -> pl.DataFrame:
        return self.tables[name].frame

    @cached_property
    def measures(self) -> dict[str, float]:
        """The timeline of the whole trace in ms; empty where no GPU worked."""
        whole = self.frame("timeline").filter(pl.col("device") == "all")
        return dict(whole.select("measure", "time_ms").iter_rows())

    @property
    def has_gpu(self) -> bool:
        return self.measures.get("total", 0.0) > 0

    def percent(self, measure: str) -> float:
        total = self.measures.get("total", 0.0)
        return 100 * self.measures.get(measure, 0.0) / total if total else 0.0

    @cached_property
    def has_steps(self) -> bool:
        """Whether gains are per step: steps are marked, and the GPU worked in them."""
        return float(self.frame("steps")["gpu_ms"].sum()) > 0

    def gain_ms(self, measure: str) -> float:
        """What would be won if this measure were 0: per step its mean over the steps, else the whole."""
        if self.has_steps:
            return _mean(self.frame("steps")[f"{measure}_ms"])
        return self.measures[measure]

    def gap_gain_ms(self, chosen: pl.Expr) -> float:
        """The same for some of the gaps; never more than all idle time."""
        gaps = self.frame("gaps").filter(chosen)
        if not self.has_steps:
            return min(float(gaps["gap_us"].sum()) / 1e3, self.measures["idle"])
        inside = float(gaps.filter(pl.col("step") >= 0)["gap_us"].sum()) / 1e3
        return min(inside / len(self.tables["steps"]), self.gain_ms("idle"))

    def share_of_time(self, gain_ms: float) -> float:
        """A gain as percent of a step, else of the whole."""
        whole = _mean(self.frame("steps")["gpu_ms"]) if self.has_steps else self.measures["total"]
        return min(100.0, 100 * gain_ms / whole) if whole else 0.0

    @cached_property
    def idle_causes(self) -> list[dict[str, Any]]:
        """Causes of idleness over all GPUs, largest first, with their share of the idle time."""
        frame = self.frame("idle").group_by("cause").agg(pl.col("total_us", "count").sum())
        whole = max(float(frame["total_us"].sum()), 1e-9)
        frame = frame.with_columns((100 * pl.col("total_us") / whole).alias("percent_of_idle"))
        return frame.sort("total_us", "cause", descending=[True, False]).to_dicts()

    @property
    def main_idle_cause(self) -> str:
        """The largest cause; GPUs that take turns can all be idle together without a gap of their own."""
        return str(self.idle_causes[0]["cause"]) if self.idle_causes else TAKING_TURNS

    @cached_property
    def categories(self) -> list[dict[str, Any]]:
        return self.frame("kernel_categories").to_dicts()


def _mean(column: pl.Series) -> float:
    return float(column.sum()) / max(1, len(column))

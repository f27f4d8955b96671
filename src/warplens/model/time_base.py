"""What every share of the time is a share of: the mean step on the GPU, or the whole trace where there are no steps."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import polars as pl

from warplens.model.table import Table


class TimeBase(msgspec.Struct, frozen=True):
    """The base's length, how many steps it is the mean of (0: it is the whole trace), and how the GPUs spent it."""

    whole_ms: float
    steps: int
    measures_ms: Mapping[str, float]

    def percent(self, time_ms: float) -> float:
        """A time per step, or of the whole trace, as a share."""
        return 100 * time_ms / self.whole_ms if self.whole_ms else 0.0


def time_base(steps: Table, timeline: Table) -> TimeBase:
    """The base of a trace, by the tables of these names.

    No next step ends the last one: it lacks the wait for it, so of three or more steps the last does not count.
    """
    frame = steps.frame
    if float(frame["gpu_ms"].sum()) > 0:
        complete = frame.head(len(frame) - 1) if len(frame) > 2 else frame
        if float(complete["gpu_ms"].sum()) > 0:
            frame = complete
        means = {name.removesuffix("_ms"): _mean(frame[name]) for name in frame.columns if name.endswith("_ms")}
        return TimeBase(means["gpu"], len(frame), means)
    measures = whole_trace(timeline)
    return TimeBase(measures.get("total", 0.0), 0, measures)


def whole_trace(timeline: Table) -> dict[str, float]:
    """The measures of all GPUs in ms, by the table of this name; empty where no GPU worked."""
    # A query takes a hundred times as long as this for some ten rows.
    columns = (timeline.frame[name].to_list() for name in ("device", "measure", "time_ms"))
    return {measure: time_ms for device, measure, time_ms in zip(*columns, strict=True) if device == "all"}


def _mean(column: pl.Series) -> float:
    return float(column.sum()) / max(1, len(column))

"""Too many bars for the pixels there are: bars merged into columns of one pixel each, with no time lost."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from warplens.model.trace import Ints
from warplens.outputs.gantt_chart import Bars, Chart

Floats = npt.NDArray[np.float64]
MOST_BARS = 20_000
UNSEEN_SHARE = 0.8


class Columns(NamedTuple):
    """`edges_ns` bound the columns; `share[row, lane]` says for group × column how much of it the group ran."""

    edges_ns: Floats
    share: dict[tuple[int, int], Floats]


def is_crowded(chart: Chart, count: int) -> bool:
    """Whether there are too many bars to draw, or most of the time is in bars too narrow to be seen."""
    lasts = chart.bars.end_ns - chart.bars.begin_ns
    narrow = lasts < chart.window.span_ns / count
    return len(chart.bars) > MOST_BARS or int(lasts[narrow].sum()) > UNSEEN_SHARE * chart.total_ns


def merge_bars(chart: Chart, count: int) -> Columns:
    edges = np.linspace(chart.window.start_ns, chart.window.start_ns + chart.window.span_ns, count + 1)
    share, groups = {}, range(len(chart.groups))
    for number, row in enumerate(chart.rows):
        for lane in range(row.lanes):
            own = np.flatnonzero((chart.bars.row == number) & (chart.bars.lane == lane))
            ran = [_run_before(chart.bars, own[chart.bars.group[own] == group], edges) for group in groups]
            shares = np.diff(np.array(ran), axis=1) / np.diff(edges)
            # Bars of one lane may overlap by what cannot be seen; a column is never more than full.
            share[number, lane] = shares / np.maximum(1.0, shares.sum(axis=0))
    return Columns(edges, share)


def _run_before(bars: Bars, rows: Ints, moments: Floats) -> Floats:
    """How long some bars of one lane had run by each moment."""
    if not len(rows):
        return np.zeros(len(moments))
    begin, lasts = bars.begin_ns[rows], bars.end_ns[rows] - bars.begin_ns[rows]
    finished = np.concatenate([[0], np.cumsum(lasts)])
    position = np.maximum(np.searchsorted(begin, moments, side="right") - 1, 0)
    return np.asarray(finished[position] + np.clip(moments - begin[position], 0, lasts[position]), np.float64)

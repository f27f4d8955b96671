"""A Gantt chart drawn with matplotlib: vector bars, a legend below them, the same bytes every time."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from warplens.model.kinds import NONE
from warplens.outputs.gantt_chart import Chart, Group, Row
from warplens.outputs.gantt_columns import is_crowded, merge_bars
from warplens.outputs.palette import LIGHT, Paper
from warplens_run.base.errors import MissingExtra
from warplens_run.base.printable import clean
from warplens_run.base.text import cell_width, elide
from warplens_run.base.units import format_ns

ROW_IN = ((1, 1.0), (3, 0.7), (8, 0.5), (24, 0.32), (64, 0.22), (math.inf, 0.15))
"""Up to so many rows, so high each."""
LANE_IN = 0.28
LEAST_AXES_IN = 0.4
TITLE_IN, AXIS_IN, NOTE_IN, LEGEND_LINE_IN = 0.38, 0.42, 0.22, 0.17
RIGHT_IN = 0.32
LETTER_IN = 0.068
"""About the width of a letter at 8 pt."""
LONGEST_NAME = 70
ROW_PAD = 0.1
"""Share of a row left free above and below its bars."""
TITLE_PT = 10
SETTINGS: dict[str, Any] = {
    "svg.hashsalt": "warplens",
    # Text stays text: it can be searched, and a paper's tools can set it anew.
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "text.parse_math": False,
    "font.size": 8,
    "font.family": "DejaVu Sans",
    "axes.linewidth": 0.6,
}
METADATA: dict[str, dict[str, str | None]] = {
    # What would differ from day to day is left out.
    "png": {"Software": "warplens"},
    "svg": {"Creator": "warplens", "Date": None},
    "pdf": {"Creator": "warplens", "Producer": "warplens", "CreationDate": None},
}


@dataclass(frozen=True)
class GanttLook:
    """How the picture looks, in inches; without a height it is as high as its rows need."""

    title: str = ""
    width_in: float = 10.0
    height_in: float | None = None
    dpi: int = 150
    paper: Paper = LIGHT
    ranks: str = ""
    """Which ranks of a job are drawn; empty for one trace."""


def require_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtra("matplotlib", "plot", "drawing a Gantt chart") from error


def plot_bytes(chart: Chart, look: GanttLook, kind: str) -> bytes:
    """The picture as a file of the given kind: png, svg or pdf."""
    require_matplotlib()
    buffer = io.BytesIO()
    with _settings(look.paper):
        figure = _draw(chart, look)
        figure.savefig(buffer, format=kind, dpi=look.dpi, metadata=METADATA[kind])
    return buffer.getvalue()


@contextmanager
def _settings(paper: Paper) -> Iterator[None]:
    """Our settings instead of the user's, and silence about letters that the font lacks."""
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        matplotlib.rcParams.update(_colours(paper))
        yield


def _colours(paper: Paper) -> dict[str, str]:
    """The background and the ink of all that has no colour of its own."""
    if paper == LIGHT:
        return {}
    inks = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    papers = ("figure.facecolor", "axes.facecolor", "savefig.facecolor", "legend.facecolor")
    return dict.fromkeys(inks, paper.text) | dict.fromkeys(papers, paper.background)


class _FigureLayout(NamedTuple):
    """Where things are, in inches from the left and from below."""

    width: float
    height: float
    left: float
    axes_width: float
    below: float
    row_heights: list[float]
    legend_columns: int


def _layout(chart: Chart, look: GanttLook, labels: list[str]) -> _FigureLayout:
    left = 0.25 + LETTER_IN * max(map(len, labels))
    axes_width = look.width_in - left - RIGHT_IN
    columns, lines = _legend_shape(chart, axes_width)
    below = AXIS_IN + NOTE_IN + lines * LEGEND_LINE_IN + 0.1
    row = next(height for most, height in ROW_IN if len(chart.rows) <= most)
    heights = [max(row, min(LANE_IN, row) * chart_row.lanes) for chart_row in chart.rows]
    if look.height_in is not None:
        room = max(LEAST_AXES_IN, look.height_in - below - TITLE_IN)
        heights = [height * room / sum(heights) for height in heights]
    return _FigureLayout(look.width_in, sum(heights) + below + TITLE_IN, left, axes_width, below, heights, columns)


def _draw(chart: Chart, look: GanttLook) -> Any:
    from matplotlib.figure import Figure

    labels = [_row_label(row, chart) for row in chart.rows]
    at = _layout(chart, look, labels)
    figure = Figure(figsize=(at.width, at.height))
    x, axes_height = at.left / at.width, sum(at.row_heights) / at.height
    axes = figure.add_axes((x, at.below / at.height, at.axes_width / at.width, axes_height))
    tops = np.cumsum([0.0, *at.row_heights])
    note = f"{len(chart.bars):,} GPU events, {format_ns(chart.total_ns)} of GPU time"
    pixels = max(1, round(at.axes_width * look.dpi))
    if is_crowded(chart, pixels):
        note += f"; {_draw_columns(axes, chart, tops, pixels)}"
    else:
        _draw_bars(axes, chart, tops)
    note += f"; {look.ranks}" if look.ranks else ""
    _dress(axes, chart, labels, tops, look)
    title = elide(clean(look.title), int(at.axes_width / (LETTER_IN * TITLE_PT / SETTINGS["font.size"])))
    figure.text(x, 1 - 0.24 / at.height, title, fontsize=TITLE_PT)
    figure.text(x, (at.below - AXIS_IN - 0.08) / at.height, note, fontsize=7, color=look.paper.notes)
    _draw_legend(figure, chart, at.legend_columns, x, 0.08 / at.height)
    return figure


def _row_label(row: Row, chart: Chart) -> str:
    """The number of a GPU stands where a trace or a rank of a job has several."""
    of_rank = f"rank {row.rank} " if row.rank != NONE else ""
    several = len({other.device for other in chart.rows if other.rank == row.rank}) > 1
    return f"{of_rank}{f'GPU {row.device} ' if several else ''}stream {row.stream}"


def _dress(axes: Any, chart: Chart, labels: list[str], tops: Any, look: GanttLook) -> None:
    """Axes that stay out of the way: times below, a line between rows, a stronger one between ranks, nothing else."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    window, paper = chart.window, look.paper
    unit, factor = _unit(chart)
    axes.set_xlim(window.start_ns / factor, (window.start_ns + window.span_ns) / factor)
    axes.set_ylim(tops[-1], 0)
    axes.set_yticks((tops[:-1] + tops[1:]) / 2, labels)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=9, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.set_xlabel(f"time since the {'job' if look.ranks else 'trace'}'s start ({unit})", labelpad=3)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=paper.grid, linewidth=0.5)
    axes.set_axisbelow(True)
    for top, above, below in zip(tops[1:-1], chart.rows, chart.rows[1:], strict=False):
        is_next_rank = above.rank != below.rank
        axes.axhline(top, color=paper.notes if is_next_rank else paper.rules, linewidth=0.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _lane_box(row: Row, lane: Any, top: Any, height: Any) -> tuple[Any, Any]:
    """Upper edge and height of a lane within its row."""
    pad = ROW_PAD * height
    inner = (height - 2 * pad) / row.lanes
    return top + pad + lane * inner, inner * (0.94 if row.lanes > 1 else 1.0)


def _unit(chart: Chart) -> tuple[str, float]:
    """The unit of the axis, and how many ns it has."""
    return ("ms", 1e6) if chart.window.span_ns >= 1_000_000 else ("µs", 1e3)


def _draw_bars(axes: Any, chart: Chart, tops: Any) -> None:
    """Every bar as it is: one compound path per colour and row, so that files stay small."""
    bars, factor = chart.bars, _unit(chart)[1]
    for number, row in enumerate(chart.rows):
        for rank, group in enumerate(chart.groups):
            own = np.flatnonzero((bars.row == number) & (bars.group == rank))
            if len(own):
                upper, height = _lane_box(row, bars.lane[own], tops[number], tops[number + 1] - tops[number])
                left, right = bars.begin_ns[own] / factor, bars.end_ns[own] / factor
                _add_boxes(axes, left, right, upper, upper + height, group)


def _draw_columns(axes: Any, chart: Chart, tops: Any, pixels: int) -> str:
    """Columns of a pixel, in each of which the groups are stacked by how much of it they ran; what to say of that."""
    columns = merge_bars(chart, pixels)
    edges = columns.edges_ns / _unit(chart)[1]
    for (number, lane), shares in columns.share.items():
        upper, height = _lane_box(chart.rows[number], lane, tops[number], tops[number + 1] - tops[number])
        floor = np.full(len(edges) - 1, upper + height)
        for group, share in zip(chart.groups, shares, strict=True):
            own = np.flatnonzero(share > 0)
            ceiling = floor - share * height
            if len(own):
                _add_boxes(axes, edges[own], edges[own + 1], ceiling[own], floor[own], group)
            floor = ceiling
    each_ns = chart.window.span_ns / (len(edges) - 1)
    return f"bars merged to one per {format_ns(each_ns)}: a colour's height is its share of that time, white is idle"


def _add_boxes(axes: Any, left: Any, right: Any, upper: Any, lower: Any, group: Group) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    left, right, upper, lower = np.broadcast_arrays(left, right, upper, lower)
    corners = np.stack([left, upper, right, upper, right, lower, left, lower, left, upper], axis=1)
    codes = np.tile([Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY], len(left))
    path = Path(corners.reshape(-1, 2), codes)
    # Snapped to pixels, short bars would vanish or grow to a whole pixel.
    # As an artist: a patch would widen limits that are set anyway, corner by corner, most of the time of a picture.
    axes.add_artist(PathPatch(path, facecolor=group.colour, linewidth=0, snap=False))


def _entries(chart: Chart) -> list[str]:
    whole = max(1, chart.total_ns)
    return [
        f"{elide(clean(group.name), LONGEST_NAME, middle=True)}  {100 * group.total_ns / whole:.1f} %"
        for group in chart.groups
    ]


def _legend_shape(chart: Chart, width_in: float) -> tuple[int, int]:
    """Columns and lines of a legend that is no wider than the chart."""
    longest = max(cell_width(entry) for entry in _entries(chart))
    columns = max(1, min(len(chart.groups), int(width_in / (LETTER_IN * longest + 0.35))))
    return columns, math.ceil(len(chart.groups) / columns)


def _draw_legend(figure: Any, chart: Chart, columns: int, x: float, y: float) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=group.colour, edgecolor="#666666", linewidth=0.4) for group in chart.groups]
    figure.legend(
        handles,
        _entries(chart),
        loc="lower left",
        bbox_to_anchor=(x, y),
        ncols=columns,
        frameon=False,
        borderaxespad=0,
        borderpad=0,
        handlelength=1.2,
        handleheight=0.9,
        handletextpad=0.5,
        columnspacing=1.5,
        labelspacing=0.45,
    )

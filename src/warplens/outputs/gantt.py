"""A Gantt chart as a file; the path's suffix chooses the writer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from warplens.outputs.gantt_chart import Chart
from warplens.outputs.gantt_plot import GanttLook, plot_bytes, require_matplotlib
from warplens_run.base.errors import UsageError
from warplens_run.base.files import check_file, write_whole


@dataclass(frozen=True)
class GanttFormat:
    """How a kind of file is made, and what must be there before anything is computed."""

    render: Callable[[Chart, GanttLook], bytes]
    require: Callable[[], None]


FORMATS = {
    f".{kind}": GanttFormat(partial(plot_bytes, kind=kind), require_matplotlib) for kind in ("png", "svg", "pdf")
}


@dataclass(frozen=True)
class GanttTarget:
    """A checked place for a chart and how its bytes are made."""

    path: Path
    format: GanttFormat
    force: bool = False


def plan_gantt(path: str, *, force: bool, inputs: Sequence[str] = ()) -> GanttTarget:
    """The target a path asks for, or an error before a trace is opened."""
    for suffix, format in FORMATS.items():
        if path.endswith(suffix):
            check_file(Path(path), force=force, inputs=inputs)
            format.require()
            return GanttTarget(Path(path), format, force)
    raise UsageError(f"unknown output format: {path!r}", hint=f"end it in {', '.join(FORMATS)} or .html")


def write_gantt(target: GanttTarget, chart: Chart, look: GanttLook) -> None:
    write_whole(target.path, target.format.render(chart, look), force=target.force)

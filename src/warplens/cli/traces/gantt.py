"""`warplens gantt`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from warplens.cli.opening import inputs_of, note_warnings, open_job, open_timeline
from warplens.cli.options import add_outputs, add_ranks, add_theme, add_trace
from warplens.cli.progress import spinner
from warplens.cli.rank_choice import names_job
from warplens.cli.showing import themed
from warplens.cli.traces.flamegraph import hint_without_gpu_work
from warplens.outputs import Document, plan_outputs, write
from warplens.outputs.gantt import GanttTarget, plan_gantt, write_gantt
from warplens.outputs.gantt_chart import GROUPINGS, TimeWindow, make_chart, step_window, whole_window
from warplens.outputs.gantt_plot import GanttLook
from warplens.outputs.palette import paper_of
from warplens.profiles.job_gantt import MOST_RANKS, job_gantt_document, job_gpu_events
from warplens.profiles.job_timelines import ranks_that_matter
from warplens.ranks.merged_notes import rank_text
from warplens_run.base.errors import UsageError, WarplensError
from warplens_run.base.units import parse_duration, plural
from warplens_run.cli.options import between, whole_between
from warplens_run.cli.printing import command_line, note, report_written
from warplens_run.cli.verb import Verb

if TYPE_CHECKING:
    import polars as pl

MOST_KERNELS = 16
MOST_ROWS = 256
PAGE = ".html"
STEPS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
MOST_STEPS = 100_000


class GanttVerb(Verb):
    """Draw the kernels of each stream over time.

    One row per stream; kernels that overlap are drawn below each other, idle time is empty. Outputs are chosen by path:
    x.svg, x.pdf and x.png are pictures (they need matplotlib: pip install 'warplens[plot]'), x.html is an interactive
    page. Of a job: a row per rank and stream, on one clock; all ranks up to 16, or those that matter, or those of
    --ranks.
    """

    name = "gantt"
    inputs = ("trace",)
    reads_jobs = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_trace(parser, jobs=True, has_range=False)
        add_ranks(parser, "to draw, instead of those that matter")
        add_outputs(parser, "x.svg, x.pdf, x.png or x.html")
        add_theme(parser)
        parser.add_argument("--by", default="category", metavar="category|kernel",
                            help="what the colours show (default category)")  # fmt: skip
        parser.add_argument(
            "--top",
            type=whole_between(1, MOST_KERNELS),
            default=8,
            metavar="N",
            help=f"with --by kernel: kernels with their own colour (default 8, at most {MOST_KERNELS})",
        )
        window = parser.add_mutually_exclusive_group()
        window.add_argument("--range", dest="window", metavar="FROM-TO",
                            help="only this time range of the trace: 10ms-20ms")  # fmt: skip
        window.add_argument("--step", action="append", default=[], metavar="N",
                            help="only these steps: 3 or 3-5; may be given several times")  # fmt: skip
        inches = between(1, 200)
        parser.add_argument("--width", type=inches, default=10.0, metavar="INCHES",
                            help="width of the picture (default 10)")  # fmt: skip
        parser.add_argument("--height", type=inches, default=None, metavar="INCHES",
                            help="height of the picture (default: fits its rows)")  # fmt: skip
        parser.add_argument("--dpi", type=whole_between(10, 1200), default=150, metavar="N",
                            help="dots per inch of a PNG (default 150)")  # fmt: skip
        parser.add_argument("--title", default=None, help="title of the picture (default: the file's name)")

    def run(self, args: argparse.Namespace) -> int:
        if not args.output:
            raise UsageError("no output is given", hint="-o x.svg, x.pdf, x.png or x.html")
        if args.by not in GROUPINGS:
            raise UsageError(f"--by {args.by!r} is not valid", hint=f"one of: {', '.join(GROUPINGS)}")
        time_range, steps = _range(args.window), _steps(args.step)
        inputs = inputs_of(args)
        paths = [path for path in args.output if path.lower().endswith(PAGE)]
        pages = plan_outputs(paths, tables="csv", force=args.force, inputs=inputs)
        pictures = [plan_gantt(path, force=args.force, inputs=inputs) for path in args.output if path not in paths]
        drawn = _of_job(args) if names_job(args) else _of_trace(args)
        view = f"view={time_range[0]}-{time_range[1]}" if time_range else ""
        if len(drawn.events):
            window = _window(drawn.events, time_range, steps)
            view = f"view={window.start_ns}-{window.end_ns}&colour={args.by}"
            _write_pictures(args, pictures, drawn, window)
        elif pictures or not drawn.is_inside:
            where = "these ranks" if drawn.note else "this trace"
            raise WarplensError(f"no GPU work in {where}", hint=drawn.hint)
        for target in pages:
            write(target, themed(drawn.page(view), args))
        report_written(args.output)
        return 0


@dataclass(frozen=True)
class _Drawn:
    """What is drawn: GPU events, and the page that has the same timeline and opens with a view."""

    events: pl.DataFrame
    page: Callable[[str], Document]
    note: str = ""
    """Which ranks of a job they are of; empty for one trace."""
    is_inside: bool = False
    """Whether there are regions inside kernels, of which there is a page without GPU work."""
    hint: str = ""


def _of_trace(args: argparse.Namespace) -> _Drawn:
    profile = open_timeline(args)

    def page(view: str) -> Document:
        return profile.document(command=command_line(), mode="gantt", start=view)

    if len(profile.gpu_events()):
        return _Drawn(profile.gpu_events(), page)
    host = "warplens flamegraph TRACE --weight cpu -o x.svg shows the host's time"
    is_inside = len(profile.table("regions")) > 0
    return _Drawn(profile.gpu_events(), page, is_inside=is_inside, hint=hint_without_gpu_work(profile) or host)


def _of_job(args: argparse.Namespace) -> _Drawn:
    job = open_job(args)
    note_warnings(job)
    with spinner("reading the timelines"):
        positions = job.positions_of(args.ranks) if args.ranks else ranks_that_matter(job, MOST_RANKS)
        events = job_gpu_events(job, positions)
    drawn, every = [job.job.ranks[position] for position in positions], len(job.job.ranks)
    text = f"{rank_text(drawn)} of {every:,}" if len(drawn) < every else plural(every, "rank")
    if len(drawn) < every and not args.ranks:
        note(f"{text}: --ranks chooses others")
    return _Drawn(
        events,
        lambda view: job_gantt_document(job, events, command=command_line(), start=view),
        note=text,
        hint="warplens report shows what the host does",
    )


def _write_pictures(args: argparse.Namespace, targets: list[GanttTarget], drawn: _Drawn, window: TimeWindow) -> None:
    if not targets:
        return
    pixel_ns = window.span_ns / (args.width * args.dpi)
    chart = make_chart(drawn.events, window, by=args.by, top=args.top, unseen_ns=pixel_ns)
    if drawn.note and len(chart.rows) > MOST_ROWS:
        hint = "--ranks chooses fewer; a page (x.html) takes all"
        raise UsageError(f"a picture of {len(chart.rows):,} rows cannot be read: at most {MOST_ROWS} fit", hint=hint)
    title = Path(args.trace).name if args.title is None else args.title
    look = GanttLook(title, args.width, args.height, args.dpi, paper_of(args.theme), drawn.note)
    for target in targets:
        write_gantt(target, chart, look)


def _window(events: pl.DataFrame, time_range: tuple[int, int] | None, steps: set[int]) -> TimeWindow:
    if time_range is not None:
        return TimeWindow(*time_range)
    return step_window(events, steps) if steps else whole_window(events)


def _range(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    first, dash, last = text.partition("-")
    if not dash:
        raise UsageError(f"{text!r} is not a valid time range", hint="write its start and end: 10ms-20ms")
    start, end = parse_duration(first), parse_duration(last)
    if end <= start:
        raise UsageError(f"the range {text} is empty", hint="write its start and end: 10ms-20ms")
    return start, end


def _steps(texts: list[str]) -> set[int]:
    chosen: set[int] = set()
    for text in texts:
        match = STEPS.fullmatch(text)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if not first <= last < first + MOST_STEPS:
            raise UsageError(f"{text!r} is not a valid step", hint="write one step or a range of steps: 3 or 3-5")
        chosen |= set(range(first, last + 1))
    return chosen

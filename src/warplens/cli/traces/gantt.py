"""Draw the kernels of each stream over time.

One row per stream; kernels that overlap on it lie below each other, idle time is white. The path chooses the format:
x.svg and x.pdf for papers, x.png for everything else (these need matplotlib: pip install 'warplens[plot]'), x.html for
a page to move about in.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from warplens.cli.common import add_trace_options, command_line, inputs_of, open_timeline
from warplens.cli.traces.flamegraph import instead_of_gpu_work
from warplens.errors import UsageError, WarplensError

if TYPE_CHECKING:
    import polars as pl

    from warplens.outputs import Target
    from warplens.outputs.gantt import GanttTarget
    from warplens.outputs.gantt_chart import Window
    from warplens.profiles.trace import Profile

Number = TypeVar("Number", int, float)
MOST_KERNELS = 16
PAGE = ".html"
STEPS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
MOST_STEPS = 100_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_trace_options(parser)
    parser.add_argument("-o", "--output", action="append", default=[], metavar="PATH",
                        help="write x.svg, x.pdf, x.png or x.html; may come several times")  # fmt: skip
    parser.add_argument("--by", default="category", help="category or kernel: what colours stand for")
    parser.add_argument("--top", type=_kernels, default=8, metavar="N",
                        help=f"with --by kernel: how many have a colour (default 8, up to {MOST_KERNELS})")  # fmt: skip
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--range", metavar="FROM-TO", help="only this time since the trace's start: 10ms-20ms")
    which.add_argument("--step", action="append", default=[], metavar="N",
                       help="only these steps: 3 or 3-5; may come several times")  # fmt: skip
    parser.add_argument("--width", type=_inches, default=10.0, metavar="INCHES", help="of the picture (default 10)")
    parser.add_argument("--height", type=_inches, default=None, metavar="INCHES",
                        help="of the picture (default: as its rows need)")  # fmt: skip
    parser.add_argument("--dpi", type=_dpi, default=150, help="dots per inch of a PNG (default 150)")
    parser.add_argument("--title", default=None, help="heading of the picture (default: the file's name)")
    parser.add_argument("--force", action="store_true", help="overwrite an existing output")


def run(args: argparse.Namespace) -> int:
    from warplens.outputs import plan_outputs
    from warplens.outputs.gantt import plan_gantt
    from warplens.outputs.gantt_chart import GROUPINGS

    if not args.output:
        raise UsageError("a Gantt chart needs a place", hint="name it: -o x.svg, x.pdf, x.png or x.html")
    if args.by not in GROUPINGS:
        raise UsageError(f"no colours by {args.by!r}", hint=f"one of: {', '.join(GROUPINGS)}")
    stretch, steps = _range(args.range), _steps(args.step)
    inputs = inputs_of(args)
    paths = [path for path in args.output if path.lower().endswith(PAGE)]
    pages = plan_outputs(paths, tables="csv", force=args.force, inputs=inputs)
    pictures = [plan_gantt(path, force=args.force, inputs=inputs) for path in args.output if path not in paths]
    profile = open_timeline(args)
    is_inside = not len(profile.gpu_events()) and len(profile.table("regions")) > 0
    if is_inside and not pictures:
        _write_pages(args, pages, profile, f"view={stretch[0]}-{stretch[1]}" if stretch else "")
        return _told(args)
    if not len(profile.gpu_events()):
        host = "the host's time is a flame graph's: warplens flamegraph TRACE --weight cpu -o x.svg"
        raise WarplensError("no GPU work in this trace", hint=instead_of_gpu_work(profile) or host)
    window = _window(profile.gpu_events(), stretch, steps)
    _write_pages(args, pages, profile, f"view={window.start_ns}-{window.end_ns}&colour={args.by}")
    _write_pictures(args, pictures, profile, window)
    return _told(args)


def _told(args: argparse.Namespace) -> int:
    for path in args.output:
        print(f"wrote {path}", file=sys.stderr)
    return 0


def _write_pages(args: argparse.Namespace, targets: list[Target], profile: Profile, start: str) -> None:
    """The page's own timeline, opened at the window; of a trace of regions inside kernels, its warps."""
    from warplens.outputs import write

    for target in targets:
        write(target, profile.document(command=command_line(), mode="gantt", start=start))


def _write_pictures(args: argparse.Namespace, targets: list[GanttTarget], profile: Profile, window: Window) -> None:
    from warplens.outputs.gantt import write_gantt
    from warplens.outputs.gantt_chart import make_chart
    from warplens.outputs.gantt_plot import GanttLook

    if not targets:
        return
    pixel_ns = window.span_ns / (args.width * args.dpi)
    chart = make_chart(profile.gpu_events(), window, by=args.by, top=args.top, unseen_ns=pixel_ns)
    title = Path(args.trace).name if args.title is None else args.title
    for target in targets:
        write_gantt(target, chart, GanttLook(title=title, width_in=args.width, height_in=args.height, dpi=args.dpi))


def _window(events: pl.DataFrame, stretch: tuple[int, int] | None, steps: set[int]) -> Window:
    from warplens.outputs.gantt_chart import Window, step_window, whole_window

    if stretch is not None:
        return Window(*stretch)
    return step_window(events, steps) if steps else whole_window(events)


def _range(text: str | None) -> tuple[int, int] | None:
    from warplens.units import parse_duration

    if text is None:
        return None
    first, dash, last = text.partition("-")
    if not dash:
        raise UsageError(f"{text!r} is no stretch of time", hint="write where it starts and ends: 10ms-20ms")
    start, end = parse_duration(first), parse_duration(last)
    if end <= start:
        raise UsageError(f"the range {text} is empty", hint="write where it starts and ends: 10ms-20ms")
    return start, end


def _steps(texts: list[str]) -> set[int]:
    chosen: set[int] = set()
    for text in texts:
        match = STEPS.fullmatch(text)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if not first <= last < first + MOST_STEPS:
            raise UsageError(f"{text!r} is no step", hint="write the number of a step or of two: 3 or 3-5")
        chosen |= set(range(first, last + 1))
    return chosen


def _kernels(text: str) -> int:
    return _between(int(text), 1, MOST_KERNELS)


def _inches(text: str) -> float:
    return _between(float(text), 1.0, 200.0)


def _dpi(text: str) -> int:
    return _between(int(text), 10, 1200)


def _between(number: Number, least: Number, most: Number) -> Number:
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(f"{number:g} is not from {least:g} to {most:g}")
    return number

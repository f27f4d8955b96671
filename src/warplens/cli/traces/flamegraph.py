"""`warplens flamegraph`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from warplens.cli.opening import inputs_of, open_profile
from warplens.cli.options import add_outputs, add_theme, add_trace
from warplens.cli.traces.path_options import PathFilter, add_path_options, kernel_categories
from warplens.model.inverted import inverted
from warplens.outputs.flamegraph import FlamegraphTarget, plan_flamegraph, write_flamegraph
from warplens.outputs.flamegraph_svg import FlameLook
from warplens.outputs.palette import paper_of
from warplens_run.base.errors import UsageError, WarplensError
from warplens_run.cli.options import between, whole_between
from warplens_run.cli.printing import report_written
from warplens_run.cli.verb import Verb

if TYPE_CHECKING:
    from warplens.profiles.opened import Opened

NARROWEST_PX = 200
WIDEST_PX = 100_000


class FlamegraphVerb(Verb):
    """Write time by call path as a flame graph.

    Outputs are chosen by path: x.svg (a picture), x.folded (folded stacks) or x.speedscope.json. Backward work is
    shown under the forward code that created it. With --weight cpu the time is the host's: on every active thread,
    each instant counts for the innermost call.
    """

    name = "flamegraph"
    inputs = ("trace",)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_trace(parser)
        add_outputs(parser, "x.svg, x.folded or x.speedscope.json")
        add_theme(parser)
        add_path_options(parser)
        parser.add_argument(
            "--weight", default="gpu", metavar="gpu|cpu", help="time of the GPU or the host (default gpu)"
        )
        parser.add_argument("--inverted", action="store_true", help="callees on top, their callers below them")
        parser.add_argument("--title", default="", help="title of the picture")
        parser.add_argument("--width", type=whole_between(NARROWEST_PX, WIDEST_PX, "a width"), default=1200,
                            metavar="PX", help="width of the picture (default 1200)")  # fmt: skip
        parser.add_argument("--min-px", type=between(0, WIDEST_PX, "a width in pixels"), default=0.3, metavar="PX",
                            help="omit narrower frames from the picture (default 0.3)")  # fmt: skip

    def run(self, args: argparse.Namespace) -> int:
        targets, path_filter = _targets(args), PathFilter(args)
        profile = open_profile(args)
        tree = path_filter(profile.tree(args.context, weight=args.weight, short_names=not args.full_names))
        if not tree.total_ns[0]:
            raise _no_time(args, profile)
        look = FlameLook(
            title=args.title,
            width_px=args.width,
            min_px=args.min_px,
            paper=paper_of(args.theme),
            categories=kernel_categories(profile, full_names=args.full_names),
        )
        tree = inverted(tree) if args.inverted else tree
        for target in targets:
            write_flamegraph(target, tree, name=Path(args.trace).name, look=look)
        report_written(args.output)
        return 0


def _targets(args: argparse.Namespace) -> list[FlamegraphTarget]:
    if not args.output:
        raise UsageError("no output is given", hint="-o x.svg, x.folded or x.speedscope.json")
    return [plan_flamegraph(path, force=args.force, inputs=inputs_of(args)) for path in args.output]


def _no_time(args: argparse.Namespace, profile: Opened) -> WarplensError:
    time = "GPU work" if args.weight == "gpu" else "host time"
    if args.include:
        return WarplensError(f"no {time} on any path that matches {args.include!r}")
    hint = hint_without_gpu_work(profile)
    if args.weight == "gpu" and hint is None:
        hint = "--weight cpu shows the host's time"
    return WarplensError(f"no {time} in this trace", hint=hint)


def hint_without_gpu_work(profile: Opened) -> str | None:
    """Which verb shows what a profile without GPU time contains, other than the time of a traced host."""
    if not profile.has_timeline:
        return "warplens tree TRACE shows what it counts by call path"
    if len(profile.table("regions")):
        return "warplens show TRACE regions shows the times inside kernels"
    return None

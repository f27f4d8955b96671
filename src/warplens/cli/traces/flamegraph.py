"""Write time by call path as a flame graph.

Paths choose what is written, and -o may come several times: x.svg (a picture), x.folded (folded stacks) or
x.speedscope.json. Backward work stands under the forward code that created it. With --weight cpu the time is the
host's: of every thread that does something, each instant belongs to the innermost call.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from warplens.cli.common import add_trace_options, inputs_of, open_profile
from warplens.cli.traces.path_options import PathFilter, add_path_options, kernel_categories
from warplens.errors import UsageError, WarplensError

if TYPE_CHECKING:
    from warplens.outputs.flamegraph import FlamegraphTarget
    from warplens.profiles.opened import Opened

NARROWEST_PX = 200
WIDEST_PX = 100_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_trace_options(parser)
    parser.add_argument("-o", "--output", action="append", default=[], metavar="PATH",
                        help="write x.svg, x.folded or x.speedscope.json")  # fmt: skip
    add_path_options(parser)
    parser.add_argument("--weight", default="gpu", help="gpu or cpu: whose time (default gpu)")
    parser.add_argument("--inverted", action="store_true", help="callees on top, their callers below them")
    parser.add_argument("--title", default="", help="heading of the picture")
    parser.add_argument("--width", type=_width, default=1200, metavar="PX", help="of the picture (default 1200)")
    parser.add_argument("--min-px", type=_pixels, default=0.3, metavar="PX",
                        help="leave narrower frames out of the picture (default 0.3)")  # fmt: skip
    parser.add_argument("--force", action="store_true", help="overwrite an existing output")


def run(args: argparse.Namespace) -> int:
    from warplens.model.inverted import inverted
    from warplens.outputs.flamegraph import write_flamegraph
    from warplens.outputs.flamegraph_svg import FlameLook

    targets, chosen = _targets(args), PathFilter(args)
    profile = open_profile(args)
    tree = chosen(profile.tree(args.context, weight=args.weight, short_names=not args.full_names))
    if not tree.total_ns[0]:
        raise _nothing(args, profile)
    look = FlameLook(
        title=args.title,
        width_px=args.width,
        min_px=args.min_px,
        categories=kernel_categories(profile, full_names=args.full_names),
    )
    tree = inverted(tree) if args.inverted else tree
    for path, target in targets.items():
        write_flamegraph(target, tree, name=Path(args.trace).name, look=look)
        print(f"wrote {path}", file=sys.stderr)
    return 0


def _targets(args: argparse.Namespace) -> dict[str, FlamegraphTarget]:
    from warplens.outputs.flamegraph import plan_flamegraph

    if not args.output:
        raise UsageError("a flame graph needs a place", hint="name it: -o x.svg, x.folded or x.speedscope.json")
    inputs = inputs_of(args)
    return {path: plan_flamegraph(path, force=args.force, inputs=inputs) for path in args.output}


def _nothing(args: argparse.Namespace, profile: Opened) -> WarplensError:
    time = "GPU work" if args.weight == "gpu" else "host time"
    if args.include:
        return WarplensError(f"no {time} on any path that matches {args.include!r}")
    hint = instead_of_gpu_work(profile)
    if args.weight == "gpu" and hint is None:
        hint = "--weight cpu shows the host's time"
    return WarplensError(f"no {time} in this trace", hint=hint)


def instead_of_gpu_work(profile: Opened) -> str | None:
    """What a profile without GPU time shows, other than the time of a traced host."""
    if not profile.has_timeline:
        return "the tree shows what it counts by call path: warplens tree TRACE"
    if len(profile.table("regions")):
        return "the table regions has the times inside kernels: warplens show TRACE regions"
    return None


def _width(text: str) -> int:
    number = int(text)
    if not NARROWEST_PX <= number <= WIDEST_PX:
        raise argparse.ArgumentTypeError(f"{text} is not a width from {NARROWEST_PX} to {WIDEST_PX}")
    return number


def _pixels(text: str) -> float:
    number = float(text)
    if not 0 <= number <= WIDEST_PX:
        raise argparse.ArgumentTypeError(f"{text} is no width in pixels")
    return number
